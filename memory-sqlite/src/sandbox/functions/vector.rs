//! Vectors in agents' own tables: blobs of little-endian 32-bit floats, or the text of a JSON array.

use std::borrow::Cow;
use std::sync::Arc;

use rusqlite::types::ValueRef;

use super::call::{Call, Function, Outcome};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "vec_distance_cosine", arguments: 2, run: |call| compare(call, cosine) },
    Function { name: "vec_distance_l2", arguments: 2, run: |call| compare(call, |a, b| Some(l2(a, b))) },
    Function { name: "vec_dot", arguments: 2, run: |call| compare(call, |a, b| Some(dot(a, b))) },
    Function {
        name: "vec_f32",
        arguments: 1,
        run: |call| single(call, |vector| Outcome::Blob(vector.to_vec())),
    },
    Function { name: "vec_length", arguments: 1, run: |call| single(call, length) },
    Function { name: "vec_to_json", arguments: 1, run: |call| single(call, to_json) },
];

/// Partial sums, so that the processor adds several numbers at a time.
const LANES: usize = 16;
const BYTES: usize = 4;

/// An argument as a vector's bytes. Text is parsed once if the statement has the same in every row.
fn vector<'a>(call: &Call<'a>, at: usize) -> Result<Option<Held<'a>>, String> {
    match call.value(at) {
        ValueRef::Null => Ok(None),
        ValueRef::Blob(bytes) if bytes.len().is_multiple_of(BYTES) => Ok(Some(Held::Blob(bytes))),
        ValueRef::Blob(_) => Err("a vector's blob must have 4 bytes for each number".to_owned()),
        ValueRef::Text(text) => call.kept(at, || parse(text)).map(|kept| Some(Held::Kept(kept))),
        _ => {
            Err("a vector must be a blob of 32-bit floats, or the text of a JSON array of numbers".to_owned())
        }
    }
}

enum Held<'a> {
    Blob(&'a [u8]),
    Kept(Arc<Vec<u8>>),
}

impl Held<'_> {
    fn bytes(&self) -> &[u8] {
        match self {
            Self::Blob(bytes) => bytes,
            Self::Kept(bytes) => bytes,
        }
    }
}

fn parse(text: &[u8]) -> Result<Vec<u8>, String> {
    let numbers: Vec<f32> = serde_json::from_slice(text)
        .map_err(|_| "a vector's text must be a JSON array of numbers, such as [0.5, -1]".to_owned())?;
    if numbers.iter().any(|number| !number.is_finite()) {
        return Err("a vector's number is beyond the range of 32-bit floats".to_owned());
    }
    Ok(numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
}

fn compare(call: &Call<'_>, function: fn(&[u8], &[u8]) -> Option<f64>) -> Outcome {
    let (a, b) = match (vector(call, 0), vector(call, 1)) {
        (Ok(Some(a)), Ok(Some(b))) => (a, b),
        (Err(message), _) | (_, Err(message)) => return Outcome::Error(message),
        _ => return Outcome::Null,
    };
    let (a, b) = (a.bytes(), b.bytes());
    if a.len() != b.len() {
        return Outcome::Error(format!(
            "the vectors have {} and {} dimensions; they must have the same number",
            a.len() / BYTES,
            b.len() / BYTES
        ));
    }
    match function(a, b) {
        Some(value) => Outcome::Real(value),
        None => Outcome::Null,
    }
}

fn single(call: &Call<'_>, function: fn(&[u8]) -> Outcome) -> Outcome {
    match vector(call, 0) {
        Ok(Some(vector)) => function(vector.bytes()),
        Ok(None) => Outcome::Null,
        Err(message) => Outcome::Error(message),
    }
}

fn length(vector: &[u8]) -> Outcome {
    i64::try_from(vector.len() / BYTES).map_or(Outcome::Null, Outcome::Integer)
}

fn to_json(vector: &[u8]) -> Outcome {
    let numbers: Vec<Cow<'static, str>> = vector
        .chunks_exact(BYTES)
        .map(number)
        .map(|number| if number.is_finite() { number.to_string().into() } else { "null".into() })
        .collect();
    Outcome::Json(format!("[{}]", numbers.join(",")).into_bytes())
}

fn number(bytes: &[u8]) -> f32 {
    f32::from_le_bytes(<[u8; BYTES]>::try_from(bytes).unwrap_or_default())
}

/// The sum of a term over all dimensions.
fn sum(a: &[u8], b: &[u8], term: impl Fn(f64, f64) -> f64) -> f64 {
    let mut lanes = [0_f64; LANES];
    let (many_a, many_b) = (a.chunks_exact(LANES * BYTES), b.chunks_exact(LANES * BYTES));
    let rest = many_a.remainder().chunks_exact(BYTES).zip(many_b.remainder().chunks_exact(BYTES));
    for (a, b) in many_a.zip(many_b) {
        let pairs = a.chunks_exact(BYTES).zip(b.chunks_exact(BYTES));
        for (lane, (a, b)) in lanes.iter_mut().zip(pairs) {
            *lane += term(f64::from(number(a)), f64::from(number(b)));
        }
    }
    let rest: f64 = rest.map(|(a, b)| term(f64::from(number(a)), f64::from(number(b)))).sum();
    lanes.iter().sum::<f64>() + rest
}

fn dot(a: &[u8], b: &[u8]) -> f64 {
    sum(a, b, |a, b| a * b)
}

fn l2(a: &[u8], b: &[u8]) -> f64 {
    sum(a, b, |a, b| (a - b) * (a - b)).sqrt()
}

/// 1 − cosine, from 0 to 2; `None` if a vector has no direction.
fn cosine(a: &[u8], b: &[u8]) -> Option<f64> {
    let norms = (dot(a, a) * dot(b, b)).sqrt();
    (norms > 0.0).then(|| (1.0 - dot(a, b) / norms).clamp(0.0, 2.0))
}
