//! A line's arguments as the store takes them: in a list, by position.
//!
//! Corpora of drivers also name arguments, as SQLite's `:name`, and pass arrays, as PostgreSQL's drivers do. Both come to the
//! same as a list of plain values.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use memory_core::json::JsonKind;
use memory_core::sql::SqlValue;
use memory_core::{Error, Json, Result, SqlDialect};
use memory_validator::{Dialect, Limits, placeholders};

/// The statement and its arguments, by position.
///
/// # Errors
/// `invalid_argument` for arguments that the engine has no place for.
pub(super) fn bound<'a>(
    sql: Cow<'a, str>,
    args: Option<&Json>,
    dialect: SqlDialect,
) -> Result<(Cow<'a, str>, Vec<SqlValue>)> {
    let Some(args) = args else { return Ok((sql, Vec::new())) };
    let parsed = |error: serde_json::Error| Error::invalid(format!("`args` is malformed: {error}"));
    match args.kind() {
        JsonKind::Null => Ok((sql, Vec::new())),
        JsonKind::Array => {
            let list: Vec<Json> = serde_json::from_str(args.as_str()).map_err(parsed)?;
            Ok((sql, list.iter().map(|arg| value(arg, dialect)).collect::<Result<_>>()?))
        }
        JsonKind::Object if dialect == SqlDialect::Sqlite => {
            by_position(&sql, &serde_json::from_str(args.as_str()).map_err(parsed)?)
        }
        JsonKind::Object => Err(Error::invalid("only SQLite has named arguments; give `args` as a list")),
        _ => Err(Error::invalid("`args` is neither a list nor an object of names")),
    }
}

/// Writes `$n` where the statement names an argument.
fn by_position<'a>(sql: &str, named: &BTreeMap<String, Json>) -> Result<(Cow<'a, str>, Vec<SqlValue>)> {
    let places = placeholders(sql, Dialect::Sqlite, &Limits::default())
        .map_err(|refusal| Error::invalid(refusal.to_string()))?;
    let (mut rest, mut order, mut text) = (0, Vec::new(), String::new());
    for place in places {
        let name = sql.get(place.span.clone()).unwrap_or_default();
        // A driver takes the name with its sign or without.
        let key = [name, name.get(1..).unwrap_or_default()].into_iter().find(|key| named.contains_key(*key));
        let key = key.ok_or_else(|| Error::invalid(format!("`args` has no `{name}`")))?;
        let at = order.iter().position(|known| *known == key).unwrap_or_else(|| {
            order.push(key);
            order.len() - 1
        });
        text.push_str(sql.get(rest..place.span.start).unwrap_or_default());
        let _ = write!(text, "${}", at + 1);
        rest = place.span.end;
    }
    text.push_str(sql.get(rest..).unwrap_or_default());
    if let Some(unused) = named.keys().find(|name| !order.contains(&name.as_str())) {
        return Err(Error::invalid(format!("the statement takes no `{unused}`")));
    }
    let args = order.iter().filter_map(|name| named.get(*name));
    Ok((Cow::Owned(text), args.map(|arg| value(arg, SqlDialect::Sqlite)).collect::<Result<_>>()?))
}

fn value(arg: &Json, dialect: SqlDialect) -> Result<SqlValue> {
    match (arg.kind(), dialect) {
        (JsonKind::Array, SqlDialect::Postgres) => {
            let mut literal = String::new();
            write_array(arg, &mut literal)?;
            Ok(SqlValue::Text(literal))
        }
        (JsonKind::Array, _) => {
            Err(Error::invalid("only PostgreSQL has arrays; pass JSON as {\"$json\": […]}"))
        }
        _ => SqlValue::from_json(arg),
    }
}

/// An array as PostgreSQL reads one (`{1,"a b",NULL}`): the position decides on the type of its elements.
fn write_array(array: &Json, out: &mut String) -> Result<()> {
    let elements: Vec<Json> = serde_json::from_str(array.as_str())
        .map_err(|error| Error::invalid(format!("an array argument is malformed: {error}")))?;
    out.push('{');
    for (at, element) in elements.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        match element.kind() {
            JsonKind::Array => write_array(element, out)?,
            JsonKind::Null => out.push_str("NULL"),
            JsonKind::Bool | JsonKind::Number => out.push_str(element.as_str()),
            _ => match SqlValue::from_json(element)? {
                SqlValue::Text(text) | SqlValue::Numeric(text) => quote(&text, out),
                SqlValue::Json(json) => quote(json.as_str(), out),
                SqlValue::Int(int) => quote(&int.to_string(), out),
                SqlValue::Real(real) => quote(&real.to_string(), out),
                _ => {
                    return Err(Error::invalid(
                        "an element of an array argument is of a kind that is not taken there",
                    ));
                }
            },
        }
    }
    out.push('}');
    Ok(())
}

fn quote(text: &str, out: &mut String) {
    out.push('"');
    for character in text.chars() {
        if matches!(character, '"' | '\\') {
            out.push('\\');
        }
        out.push(character);
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(sql: &str, args: &str, dialect: SqlDialect) -> Result<(String, Vec<SqlValue>)> {
        let args = Json::parse(args).unwrap();
        bound(Cow::Borrowed(sql), Some(&args), dialect).map(|(sql, args)| (sql.into_owned(), args))
    }

    #[test]
    fn named_arguments_take_their_places_in_the_order_of_the_text() {
        let sql = "SELECT :b, @a, $c, :b FROM t -- :d";
        for args in [r#"{"a":1,"b":2,"c":3}"#, r#"{"@a":1,":b":2,"$c":3}"#] {
            let (sql, args) = ready(sql, args, SqlDialect::Sqlite).unwrap();
            assert_eq!(sql, "SELECT $1, $2, $3, $1 FROM t -- :d");
            assert_eq!(args, [2, 1, 3].map(SqlValue::Int));
        }
    }

    #[test]
    fn names_that_do_not_match_and_engines_without_names_are_refused() {
        for (sql, args) in
            [("SELECT :a", "{}"), ("SELECT :a", r#"{"a":1,"b":2}"#), ("SELECT ?", r#"{"a":1}"#)]
        {
            assert!(ready(sql, args, SqlDialect::Sqlite).is_err(), "{sql} {args}");
        }
        assert!(ready("SELECT :a", r#"{"a":1}"#, SqlDialect::Postgres).is_err());
        assert!(ready("SELECT 1", "1", SqlDialect::Sqlite).is_err());
    }

    #[test]
    fn an_array_is_one_of_postgres() {
        let array = r#"[[1,2.50,null],["a \"b\" \\",true,{"$numeric":"1.10"}]]"#;
        let (_, args) = ready("SELECT ?", &format!("[{array}]"), SqlDialect::Postgres).unwrap();
        assert_eq!(args, [SqlValue::Text(r#"{{1,2.50,NULL},{"a \"b\" \\",true,"1.10"}}"#.to_owned())]);
        assert!(ready("SELECT ?", "[[1]]", SqlDialect::Sqlite).is_err());
    }
}
