//! SQLite's mathematical functions, missing from its bundled build: <https://sqlite.org/lang_mathfunc.html>.
//!
//! The result is NULL for an argument that is not a number or is outside the function's domain.

use std::f64::consts::PI;

use rusqlite::types::ValueRef;

use super::call::{Call, Function, Outcome};

pub(super) const FUNCTIONS: &[Function] = &[
    Function { name: "acos", arguments: 1, run: |call| one(call, f64::acos) },
    Function { name: "acosh", arguments: 1, run: |call| one(call, f64::acosh) },
    Function { name: "asin", arguments: 1, run: |call| one(call, f64::asin) },
    Function { name: "asinh", arguments: 1, run: |call| one(call, f64::asinh) },
    Function { name: "atan", arguments: 1, run: |call| one(call, f64::atan) },
    Function { name: "atan2", arguments: 2, run: |call| two(call, f64::atan2) },
    Function { name: "atanh", arguments: 1, run: |call| one(call, f64::atanh) },
    Function { name: "ceil", arguments: 1, run: |call| whole(call, f64::ceil) },
    Function { name: "ceiling", arguments: 1, run: |call| whole(call, f64::ceil) },
    Function { name: "cos", arguments: 1, run: |call| one(call, f64::cos) },
    Function { name: "cosh", arguments: 1, run: |call| one(call, f64::cosh) },
    Function { name: "degrees", arguments: 1, run: |call| one(call, |x| x * (180.0 / PI)) },
    Function { name: "exp", arguments: 1, run: |call| one(call, f64::exp) },
    Function { name: "floor", arguments: 1, run: |call| whole(call, f64::floor) },
    Function { name: "ln", arguments: 1, run: |call| one(call, |x| positive(x, f64::ln)) },
    Function { name: "log", arguments: 1, run: |call| one(call, |x| positive(x, f64::log10)) },
    Function { name: "log", arguments: 2, run: |call| two(call, log) },
    Function { name: "log10", arguments: 1, run: |call| one(call, |x| positive(x, f64::log10)) },
    Function { name: "log2", arguments: 1, run: |call| one(call, |x| positive(x, f64::log2)) },
    Function { name: "mod", arguments: 2, run: |call| two(call, |x, y| x % y) },
    Function { name: "pi", arguments: 0, run: |_| Outcome::Real(PI) },
    Function { name: "pow", arguments: 2, run: |call| two(call, f64::powf) },
    Function { name: "power", arguments: 2, run: |call| two(call, f64::powf) },
    Function { name: "radians", arguments: 1, run: |call| one(call, |x| x * (PI / 180.0)) },
    Function { name: "sin", arguments: 1, run: |call| one(call, f64::sin) },
    Function { name: "sinh", arguments: 1, run: |call| one(call, f64::sinh) },
    Function { name: "sqrt", arguments: 1, run: |call| one(call, f64::sqrt) },
    Function { name: "tan", arguments: 1, run: |call| one(call, f64::tan) },
    Function { name: "tanh", arguments: 1, run: |call| one(call, f64::tanh) },
    Function { name: "trunc", arguments: 1, run: |call| whole(call, f64::trunc) },
];

fn positive(x: f64, function: fn(f64) -> f64) -> f64 {
    if x > 0.0 { function(x) } else { f64::NAN }
}

/// The base is the first argument, and must exceed 1.
fn log(base: f64, x: f64) -> f64 {
    if base > 1.0 { positive(x, f64::ln) / base.ln() } else { f64::NAN }
}

#[expect(clippy::cast_precision_loss, reason = "rounding to the nearest real is what SQL does")]
fn real(value: ValueRef<'_>) -> Option<f64> {
    match value {
        ValueRef::Integer(value) => Some(value as f64),
        ValueRef::Real(value) => Some(value),
        _ => None,
    }
}

fn one(call: &Call<'_>, function: fn(f64) -> f64) -> Outcome {
    match call.number(0).and_then(real) {
        Some(x) => Outcome::Real(function(x)),
        None => Outcome::Null,
    }
}

fn two(call: &Call<'_>, function: fn(f64, f64) -> f64) -> Outcome {
    match (call.number(0).and_then(real), call.number(1).and_then(real)) {
        (Some(x), Some(y)) => Outcome::Real(function(x, y)),
        _ => Outcome::Null,
    }
}

/// Keeps integers as integers.
fn whole(call: &Call<'_>, function: fn(f64) -> f64) -> Outcome {
    match call.number(0) {
        Some(ValueRef::Integer(value)) => Outcome::Integer(value),
        Some(ValueRef::Real(value)) => Outcome::Real(function(value)),
        _ => Outcome::Null,
    }
}
