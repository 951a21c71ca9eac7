//! Encodes arguments, and chooses the parameter types to declare.
//!
//! A value is sent as text and the engine infers its type from the context, as for a quoted literal: nothing is lost. A
//! type is declared only where a number would otherwise become text.

use std::sync::Arc;

use memory_core::embed::ask;
use memory_core::sql::SqlValue;
use memory_core::{EmbedRole, Embedder, Error, Result};
use memory_sql::{texts_to_embed, with_embeddings};

use crate::sql::protocol::Oid;

const UNKNOWN: Oid = 0;
const BOOL: Oid = 16;
const BYTEA: Oid = 17;
const INT8: Oid = 20;
const INT2: Oid = 21;
const INT4: Oid = 23;
const TEXT: Oid = 25;
const FLOAT8: Oid = 701;
const VARCHAR: Oid = 1043;
const NUMERIC: Oid = 1700;
const JSONB: Oid = 3802;
const BOOL_ARRAY: Oid = 1000;
const BYTEA_ARRAY: Oid = 1001;
const INT2_ARRAY: Oid = 1005;
const INT4_ARRAY: Oid = 1007;
const TEXT_ARRAY: Oid = 1009;
const VARCHAR_ARRAY: Oid = 1015;
const INT8_ARRAY: Oid = 1016;
const FLOAT8_ARRAY: Oid = 1022;
const NUMERIC_ARRAY: Oid = 1231;
const JSONB_ARRAY: Oid = 3807;

/// The arguments with each text replaced by its embedding, in pgvector's notation. One call to the embedder.
/// Fails with `vector_unsupported` without an embedder or pgvector; the embedder's errors.
pub(crate) async fn embed(
    embedder: Option<&Arc<dyn Embedder>>,
    has_vectors: bool,
    args: &[SqlValue],
    role: EmbedRole,
) -> Result<Vec<SqlValue>> {
    let texts = texts_to_embed(args);
    let lacks = |what: &str| {
        Error::vector_unsupported(format!("an argument is to be embedded, and {what}"))
            .with_detail("operation", if role == EmbedRole::Query { "query" } else { "exec" })
            .with_detail("provider", "postgres")
    };
    if !has_vectors {
        return Err(lacks(
            "the database for agents' SQL has no pgvector, so it has no vectors; do without them",
        ));
    }
    let Some(embedder) = embedder else {
        return Err(lacks("there is no embedder; pass the vector as text"));
    };
    let vectors = ask(embedder.as_ref(), &texts, role).await?;
    with_embeddings(args, vectors, |vector| SqlValue::Text(as_text(vector)))
}

/// `[1,0.5]`: the shortest digits that give the same 32 bits.
fn as_text(vector: &[f32]) -> String {
    let numbers: Vec<String> = vector.iter().map(|number| format!("{number:e}")).collect();
    format!("[{}]", numbers.join(","))
}

/// The encoded arguments.
/// Fails with `too_large`; `invalid_argument` for a text with U+0000.
pub(crate) fn encode(args: &[SqlValue], longest: usize) -> Result<Vec<Option<Vec<u8>>>> {
    args.iter().map(|arg| encode_one(arg, longest)).collect()
}

fn encode_one(arg: &SqlValue, longest: usize) -> Result<Option<Vec<u8>>> {
    let bytes = match arg {
        SqlValue::Null => return Ok(None),
        SqlValue::Bool(true) => b"true".to_vec(),
        SqlValue::Bool(false) => b"false".to_vec(),
        SqlValue::Int(int) => int.to_string().into_bytes(),
        SqlValue::Real(real) => real_text(*real).into_bytes(),
        SqlValue::Numeric(text) | SqlValue::Text(text) => text.clone().into_bytes(),
        SqlValue::Json(json) => json.as_str().as_bytes().to_vec(),
        SqlValue::Blob(bytes) => {
            within(bytes.len(), longest)?;
            return Ok(Some(hex(bytes)));
        }
        SqlValue::Array(elements) => {
            let mut literal = Vec::new();
            write_array(elements, longest, &mut literal)?;
            return Ok(Some(literal));
        }
        _ => return Err(Error::internal("an argument was not embedded")),
    };
    within(bytes.len(), longest)?;
    if bytes.contains(&0) {
        return Err(Error::invalid("a text argument holds U+0000, which PostgreSQL cannot store"));
    }
    Ok(Some(bytes))
}

/// An array in the engine's notation: `{1,NULL,"a \"b\""}`. Texts are always quoted, so that they are never read as NULL or syntax.
fn write_array(elements: &[SqlValue], longest: usize, out: &mut Vec<u8>) -> Result<()> {
    out.push(b'{');
    for (at, element) in elements.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        match element {
            SqlValue::Array(nested) => write_array(nested, longest, out)?,
            other => match (other, encode_one(other, longest)?) {
                (_, None) => out.extend_from_slice(b"NULL"),
                (SqlValue::Text(_) | SqlValue::Json(_) | SqlValue::Blob(_), Some(text)) => {
                    out.push(b'"');
                    for byte in text {
                        if matches!(byte, b'"' | b'\\') {
                            out.push(b'\\');
                        }
                        out.push(byte);
                    }
                    out.push(b'"');
                }
                (_, Some(number)) => out.extend_from_slice(&number),
            },
        }
        within(out.len(), longest)?;
    }
    out.push(b'}');
    Ok(())
}

fn within(length: usize, longest: usize) -> Result<()> {
    if length > longest { Err(Error::too_large("argument", length, longest, "bytes")) } else { Ok(()) }
}

fn hex(bytes: &[u8]) -> Vec<u8> {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |value: u8| DIGITS.get(usize::from(value & 15)).copied().unwrap_or(b'0');
    let mut text = Vec::with_capacity(2 + bytes.len() * 2);
    text.extend_from_slice(b"\\x");
    text.extend(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(*byte)]));
    text
}

/// As the engine prints it, so that a text column stores the same whether or not the argument is declared as a number.
fn real_text(real: f64) -> String {
    if real.is_nan() {
        return "NaN".to_owned();
    }
    if real.is_infinite() {
        return if real > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    let scientific = format!("{real:e}");
    match scientific.split_once('e').map(|(digits, exponent)| (digits, exponent.parse::<i32>())) {
        Some((digits, Ok(exponent))) if !(-4..15).contains(&exponent) => {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
        }
        _ => real.to_string(),
    }
}

/// The types declared in the first attempt.
pub(crate) fn first_types(args: &[SqlValue]) -> Vec<Oid> {
    args.iter()
        .map(|arg| match arg {
            SqlValue::Blob(_) => BYTEA,
            SqlValue::Int(int) if i32::try_from(*int).is_err() => INT8,
            _ => UNKNOWN,
        })
        .collect()
}

/// Whether the inferred types must be known before the statement runs.
pub(crate) fn depends_on_types(args: &[SqlValue]) -> bool {
    args.iter().any(|arg| {
        matches!(
            arg,
            SqlValue::Bool(_)
                | SqlValue::Int(_)
                | SqlValue::Real(_)
                | SqlValue::Numeric(_)
                | SqlValue::Array(_)
        )
    })
}

/// The types for a second attempt, if the first would turn numbers into texts, or fractions into integers.
pub(crate) fn second_types(args: &[SqlValue], first: &[Oid], found: &[Oid]) -> Option<Vec<Oid>> {
    let mut changed = false;
    let types = args
        .iter()
        .zip(first.iter().zip(found))
        .map(|(arg, (first, found))| {
            let is_text = matches!(*found, TEXT | VARCHAR | UNKNOWN);
            let is_whole = matches!(*found, INT2 | INT4 | INT8);
            let named = match arg {
                SqlValue::Int(_) if is_text => INT8,
                SqlValue::Bool(_) if is_text => BOOL,
                SqlValue::Real(_) if is_text || is_whole && has_fraction(arg) => FLOAT8,
                SqlValue::Numeric(_) if is_text || is_whole && has_fraction(arg) => NUMERIC,
                SqlValue::Array(elements) => {
                    let own = array_of(element_type(elements));
                    let keeps = is_text
                        || own != TEXT_ARRAY && matches!(*found, TEXT_ARRAY | VARCHAR_ARRAY)
                        || matches!(*found, INT2_ARRAY | INT4_ARRAY | INT8_ARRAY) && has_fraction(arg);
                    if keeps { own } else { *first }
                }
                _ => return *first,
            };
            changed |= named != *first;
            named
        })
        .collect();
    changed.then_some(types)
}

/// The types of literals with these values, for parameters whose type the engine cannot infer.
pub(crate) fn literal_types(args: &[SqlValue]) -> Vec<Oid> {
    args.iter().map(literal_type).collect()
}

fn literal_type(arg: &SqlValue) -> Oid {
    match arg {
        SqlValue::Bool(_) => BOOL,
        SqlValue::Int(int) if i32::try_from(*int).is_ok() => INT4,
        SqlValue::Int(_) => INT8,
        SqlValue::Real(_) => FLOAT8,
        SqlValue::Numeric(_) => NUMERIC,
        SqlValue::Text(_) => TEXT,
        SqlValue::Json(_) => JSONB,
        SqlValue::Blob(_) => BYTEA,
        SqlValue::Array(elements) => array_of(element_type(elements)),
        _ => UNKNOWN,
    }
}

/// The type that holds every element of an array without loss; unknown if all are NULL.
pub(crate) fn element_type(elements: &[SqlValue]) -> Oid {
    elements.iter().fold(UNKNOWN, |common, element| {
        let own = match element {
            SqlValue::Array(nested) => element_type(nested),
            other => literal_type(other),
        };
        let is_number = |oid| matches!(oid, INT4 | INT8 | FLOAT8 | NUMERIC);
        match (common, own) {
            (UNKNOWN, known) | (known, UNKNOWN) => known,
            (common, own) if common == own => own,
            (INT4 | INT8, INT4 | INT8) => INT8,
            (common, own) if is_number(common) && is_number(own) => NUMERIC,
            _ => TEXT,
        }
    })
}

fn array_of(element: Oid) -> Oid {
    match element {
        BOOL => BOOL_ARRAY,
        BYTEA => BYTEA_ARRAY,
        INT4 => INT4_ARRAY,
        INT8 => INT8_ARRAY,
        FLOAT8 => FLOAT8_ARRAY,
        NUMERIC => NUMERIC_ARRAY,
        JSONB => JSONB_ARRAY,
        _ => TEXT_ARRAY,
    }
}

/// Whether an integer type may not hold the number, or a number in the array.
pub(crate) fn has_fraction(arg: &SqlValue) -> bool {
    match arg {
        SqlValue::Real(real) => real.fract() != 0.0 || !real.is_finite(),
        SqlValue::Numeric(text) => text.contains(['.', 'e', 'E', 'N']),
        SqlValue::Array(elements) => elements.iter().any(has_fraction),
        _ => false,
    }
}

/// Whether an error may come from wrongly inferred or declared types.
pub(crate) fn is_about_types(state: &str) -> bool {
    matches!(state, "42883" | "42804" | "42846" | "42725" | "42P18" | "42P08" | "42P38" | "22P02" | "22003")
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::ErrorKind;

    #[test]
    fn reals_keep_their_bits() {
        for real in [0.1, 1e22, 5e-324, f64::MAX, -1.5, 3.0, 9_007_199_254_740_993.0, 1e15] {
            assert_eq!(real_text(real).parse::<f64>().unwrap().to_bits(), real.to_bits(), "{real}");
        }
        for (real, text) in [
            (3.0, "3"),
            (-2.5, "-2.5"),
            (1e-4, "0.0001"),
            (1.5e-5, "1.5e-05"),
            (123_456_789_012_345.0, "123456789012345"),
            (1e15, "1e+15"),
            (1e300, "1e+300"),
            (f64::NEG_INFINITY, "-Infinity"),
        ] {
            assert_eq!(real_text(real), text);
        }
    }

    #[test]
    fn a_number_compared_with_a_text_is_declared_as_a_number() {
        let args = [SqlValue::Int(5), SqlValue::Text("a".into()), SqlValue::Real(0.5), SqlValue::Real(2.0)];
        let first = first_types(&args);
        assert_eq!(second_types(&args, &first, &[TEXT, TEXT, INT4, INT4]), Some(vec![INT8, 0, FLOAT8, 0]));
        assert_eq!(second_types(&args, &first, &[INT4, TEXT, FLOAT8, INT4]), None);
    }

    #[test]
    fn an_array_is_quoted_so_that_its_texts_are_data() {
        let text = |text: &str| SqlValue::Text(text.to_owned());
        let array = |elements: &[SqlValue]| SqlValue::Array(elements.to_vec());
        for (argument, literal) in [
            (array(&[]), "{}"),
            (
                array(&[SqlValue::Int(1), SqlValue::Null, SqlValue::Real(2.5), SqlValue::Bool(true)]),
                "{1,NULL,2.5,true}",
            ),
            (
                array(&[text("NULL"), text(""), text(r#"a"b\c"#), text("{x,y} ")]),
                r#"{"NULL","","a\"b\\c","{x,y} "}"#,
            ),
            (
                array(&[array(&[SqlValue::Blob(vec![255])]), array(&[SqlValue::Null])]),
                r#"{{"\\xff"},{NULL}}"#,
            ),
        ] {
            let sent = encode(&[argument], 100).unwrap();
            assert_eq!(sent, [Some(literal.as_bytes().to_vec())]);
        }
        assert!(encode(&[array(&[text("a\0")])], 100).is_err());
        let error = encode(&[array(&vec![SqlValue::Int(7); 60])], 100).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::TooLarge);
    }

    #[test]
    fn an_array_has_the_type_of_its_elements_where_the_engine_finds_none() {
        let (whole, real, text) = (SqlValue::Int(1), SqlValue::Real(0.5), SqlValue::Text("a".into()));
        for (elements, due) in [
            (vec![whole.clone(), SqlValue::Null], INT4_ARRAY),
            (vec![whole.clone(), SqlValue::Int(1 << 40)], INT8_ARRAY),
            (vec![whole.clone(), real.clone()], NUMERIC_ARRAY),
            (vec![SqlValue::Array(vec![real.clone()])], FLOAT8_ARRAY),
            (vec![whole.clone(), text.clone()], TEXT_ARRAY),
            (vec![], TEXT_ARRAY),
        ] {
            let args = [SqlValue::Array(elements)];
            assert_eq!(literal_types(&args), [due]);
            assert_eq!(second_types(&args, &[UNKNOWN], &[TEXT]), Some(vec![due]));
        }
        let halves = [SqlValue::Array(vec![real])];
        assert_eq!(second_types(&halves, &[UNKNOWN], &[INT4_ARRAY]), Some(vec![FLOAT8_ARRAY]));
        assert_eq!(second_types(&halves, &[UNKNOWN], &[FLOAT8_ARRAY]), None);
        assert_eq!(second_types(&[SqlValue::Array(vec![text])], &[UNKNOWN], &[TEXT_ARRAY]), None);
    }

    #[test]
    fn bytes_are_hexadecimal_and_a_nul_is_refused() {
        let sent = encode(&[SqlValue::Blob(vec![0, 255])], 10).unwrap();
        assert_eq!(sent, [Some(b"\\x00ff".to_vec())]);
        assert!(encode(&[SqlValue::Text("a\0".into())], 10).is_err());
        assert!(encode(&[SqlValue::Text("a".repeat(11))], 10).is_err());
    }
}
