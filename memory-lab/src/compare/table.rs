//! What the products took, as a table.

use std::collections::BTreeMap;

use memory_core::Result;
use memory_server::terminal::{Failure, Out};
use serde::{Deserialize, Serialize};

use super::work::Work;

/// Calls by name, and what one is.
const CALLS: [(&str, &str); 6] = [
    ("put", "put an entry of 200 bytes"),
    ("get", "get an entry"),
    ("list", "list 100 entries"),
    ("put_vector", "put an entry with its vector"),
    ("near", "find the 10 nearest of a group"),
    ("words", "find 10 by words"),
];

/// Calls of one kind.
#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Took {
    pub(super) count: usize,
    pub(super) seconds: f64,
    pub(super) p50_us: f64,
    /// Of searches: the share of what they should have found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) exact: Option<f64>,
}

#[derive(Debug, Deserialize, Serialize)]
pub(super) struct Measured {
    pub(super) version: String,
    pub(super) durability: String,
    /// By call. What is missing is not offered.
    pub(super) rows: BTreeMap<String, Took>,
    /// Why a call is not offered, where there is more to say.
    pub(super) notes: BTreeMap<String, String>,
}

#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Outcome {
    Measured(Measured),
    Absent { why: String },
}

impl Outcome {
    pub(super) fn absent(why: impl Into<String>) -> Self {
        Self::Absent { why: why.into() }
    }
}

impl From<Result<Measured>> for Outcome {
    fn from(measured: Result<Measured>) -> Self {
        measured.map_or_else(|error| Self::absent(error.to_string()), Self::Measured)
    }
}

/// Prints a line for each call and product; with `--json` a document for each product.
pub(super) fn print(
    outcomes: &[(&str, Outcome)],
    work: &Work,
    out: &mut Out,
) -> std::result::Result<(), Failure> {
    #[derive(Serialize)]
    struct Document<'a> {
        product: &'a str,
        entries: usize,
        #[serde(flatten)]
        outcome: &'a Outcome,
    }
    if out.is_json() {
        for (product, outcome) in outcomes {
            out.document(&Document { product, entries: work.keys.len(), outcome })?;
        }
        return Ok(());
    }
    out.line("| call | product | calls/s | p50 | p50 to the first | exact |\n|---|---|---|---|---|---|")?;
    for (call, what) in CALLS {
        let mut first = None;
        for (product, outcome) in outcomes {
            let Outcome::Measured(measured) = outcome else { continue };
            let Some(took) = measured.rows.get(call) else {
                let why = measured.notes.get(call).map_or(String::new(), |why| format!(": {why}"));
                out.line(format!("| {what} | {product} | not offered{why} | | | |"))?;
                continue;
            };
            let base = *first.get_or_insert(took.p50_us);
            out.line(format!(
                "| {what} | {product} | {} | {} | {:.2} | {} |",
                rounded(rate(took)),
                time(took.p50_us),
                took.p50_us / base,
                took.exact.map_or(String::new(), |exact| format!("{exact:.3}"))
            ))?;
        }
    }
    out.line("\n| product | version | durability |\n|---|---|---|")?;
    for (product, outcome) in outcomes {
        out.line(match outcome {
            Outcome::Measured(measured) => {
                format!("| {product} | {} | {} |", measured.version, measured.durability)
            }
            Outcome::Absent { why } => format!("| {product} | not measured: {why} | |"),
        })?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "counts are small")]
fn rate(took: &Took) -> f64 {
    took.count as f64 / took.seconds.max(1e-9)
}

/// Three digits say what can be known.
fn rounded(number: f64) -> String {
    let digits = 10_f64.powf((number.max(1.0).log10().floor() - 2.0).max(0.0));
    format!("{:.0}", (number / digits).round() * digits)
}

fn time(micros: f64) -> String {
    if micros < 1_000.0 { format!("{micros:.0} µs") } else { format!("{:.1} ms", micros / 1_000.0) }
}
