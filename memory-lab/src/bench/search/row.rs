//! Rows of the report: one line each, as JSON or for a person.

use std::io::Write;

use memory_core::{Error, Result};
use serde::Serialize;

use super::options::SearchArgs;
use super::vectors::Vectors;
use crate::bench::machine::{self, Machine};
use crate::bench::measure::median;
use crate::bench::report::{broken, figure};

/// The measurements of all rounds.
#[derive(Clone, Debug, Default)]
pub(super) struct Figures {
    /// For each round, the median and the 99th percentile of its searches.
    ours: Vec<(f64, f64)>,
    floor: Vec<f64>,
    /// Results of an exhaustive search: how many were found, and how many were sought.
    pub(super) found: usize,
    pub(super) sought: usize,
}

impl Figures {
    pub(super) fn add_round(&mut self, ours: Vec<f64>, floor: f64) {
        self.add_mean(median(ours.clone()), ours, floor);
    }

    /// A round whose figure is not the median of its searches.
    pub(super) fn add_mean(&mut self, figure: f64, mut ours: Vec<f64>, floor: f64) {
        ours.sort_by(f64::total_cmp);
        let p99 = ours.get(ours.len() * 99 / 100).or(ours.last()).copied().unwrap_or_default();
        self.ours.push((figure, p99));
        self.floor.push(floor);
    }
}

/// The project's targets, stated for 384 dimensions and 100,000 or 1,000,000 vectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub(super) struct Target {
    /// Upper limit of `ours`.
    #[serde(rename = "target")]
    most: Option<f64>,
    /// Upper limit of `ratio`.
    target_ratio: Option<f64>,
    /// Lower limit of the recall.
    target_recall: Option<f64>,
}

/// Sizes that targets are stated for.
#[derive(PartialEq)]
enum Size {
    HundredThousand,
    Million,
    Other,
}

fn size(vectors: usize, dimensions: usize) -> Size {
    match vectors {
        _ if dimensions != 384 => Size::Other,
        90_000..=110_000 => Size::HundredThousand,
        900_000..=1_100_000 => Size::Million,
        _ => Size::Other,
    }
}

impl Target {
    pub(super) fn none(_: usize, _: usize) -> Self {
        Self::default()
    }

    pub(super) fn of_vector(vectors: usize, dimensions: usize) -> Self {
        let of = |most, ratio, recall| Self { most, target_ratio: ratio, target_recall: Some(recall) };
        match size(vectors, dimensions) {
            Size::HundredThousand => of(Some(1_000.0), Some(0.2), 0.995),
            Size::Million => of(Some(6_000.0), None, 0.99),
            Size::Other => of(None, None, 0.99),
        }
    }

    pub(super) fn of_tenth(vectors: usize, dimensions: usize) -> Self {
        Self::of_filter(vectors, dimensions, 1_000.0)
    }

    pub(super) fn of_hundredth(vectors: usize, dimensions: usize) -> Self {
        Self::of_filter(vectors, dimensions, 300.0)
    }

    fn of_filter(vectors: usize, dimensions: usize, micros: f64) -> Self {
        let stated = size(vectors, dimensions) == Size::HundredThousand;
        Self { most: stated.then_some(micros), target_ratio: None, target_recall: Some(0.995) }
    }

    pub(super) fn of_lexical(vectors: usize, _: usize) -> Self {
        let stated = size(vectors, 384) == Size::HundredThousand;
        Self { most: stated.then_some(5_000.0), ..Self::default() }
    }

    pub(super) fn of_together(vectors: usize, dimensions: usize) -> Self {
        let stated = size(vectors, dimensions) == Size::HundredThousand;
        // 1.7 times the throughput of one.
        Self { target_ratio: stated.then_some(0.59), ..Self::default() }
    }

    pub(super) fn of_first(vectors: usize, dimensions: usize) -> Self {
        let stated = size(vectors, dimensions) == Size::HundredThousand;
        Self { most: stated.then_some(300_000.0), ..Self::default() }
    }

    pub(super) fn of_first_lexical(vectors: usize, _: usize) -> Self {
        let stated = size(vectors, 384) == Size::HundredThousand;
        Self { most: stated.then_some(30_000.0), ..Self::default() }
    }

    pub(super) fn of_memory(vectors: usize, dimensions: usize) -> Self {
        let stated = size(vectors, dimensions) == Size::Million;
        Self { most: stated.then_some(450.0), ..Self::default() }
    }
}

/// The outcome of one row. The first five names are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    name: &'static str,
    /// Median over the rounds of the median over the queries.
    ours: f64,
    /// Median over the rounds.
    floor: f64,
    /// `ours / floor`.
    ratio: f64,
    /// Share of the results of an exhaustive search that were found; absent for rows that do not measure it.
    recall: Option<f64>,
    unit: &'static str,
    better: &'static str,
    #[serde(flatten)]
    target: Target,
    met: bool,
    /// Median over the rounds of the 99th percentile over the queries.
    p99: f64,
    ratio_low: f64,
    ratio_high: f64,
    rounds: usize,
    queries: u32,
    top_k: u32,
    vectors: usize,
    dimensions: usize,
    /// `generator` or `file`.
    source: &'static str,
    #[serde(flatten)]
    machine: Machine,
    load: Option<f64>,
    /// Figures of a debug build are meaningless.
    build: &'static str,
}

impl Row {
    pub(super) fn new(
        name: &'static str,
        figures: &Figures,
        target: Target,
        vectors: &Vectors,
        args: &SearchArgs,
        machine: &Machine,
    ) -> Self {
        let ratios: Vec<f64> =
            figures.ours.iter().zip(&figures.floor).map(|((ours, _), floor)| ours / floor).collect();
        let ours = median(figures.ours.iter().map(|(ours, _)| *ours).collect());
        let floor = median(figures.floor.clone());
        let ratio = ours / floor;
        #[allow(clippy::cast_precision_loss, reason = "counts of hits")]
        let recall = (figures.sought > 0).then(|| figures.found as f64 / figures.sought as f64);
        let met = target.most.is_none_or(|most| ours <= most)
            && target.target_ratio.is_none_or(|most| ratio <= most)
            && target.target_recall.is_none_or(|least| recall.is_some_and(|recall| recall >= least));
        Self {
            name,
            ours,
            floor,
            ratio,
            recall,
            unit: if name == "memory_per_vector" { "bytes" } else { "us" },
            better: "lower",
            target,
            met,
            p99: median(figures.ours.iter().map(|(_, p99)| *p99).collect()),
            ratio_low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_high: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            rounds: figures.ours.len(),
            queries: args.queries,
            top_k: args.top_k,
            vectors: vectors.len(),
            dimensions: vectors.dimensions,
            source: if args.file.is_some() { "file" } else { "generator" },
            machine: machine.clone(),
            load: machine::load(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }

    pub(super) fn is_met(&self) -> bool {
        self.met
    }

    pub(super) fn write_json(&self, out: &mut dyn Write) -> Result<()> {
        let line = serde_json::to_string(self)
            .map_err(|error| Error::internal("a row has no JSON form").with_source(error))?;
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(broken)
    }

    pub(super) fn write_line(&self, out: &mut dyn Write) -> Result<()> {
        let unit = if self.unit == "us" { "µs" } else { "B " };
        let recall = self.recall.map_or_else(|| "–".to_owned(), |recall| format!("{recall:.4}"));
        let Target { most, target_ratio, target_recall } = self.target;
        let targets: Vec<String> = [
            most.map(|most| format!("≤ {} {}", figure(most), unit.trim_end())),
            target_ratio.map(|ratio| format!("≤ {ratio} ×")),
            target_recall.map(|recall| format!("recall ≥ {recall}")),
        ]
        .into_iter()
        .flatten()
        .collect();
        let verdict = match (targets.is_empty(), self.met) {
            (true, _) => "",
            (false, true) => "met",
            (false, false) => "missed",
        };
        writeln!(
            out,
            "{:<26}{:>9} {unit}{:>10} {unit}{:>9} {unit}{:>8.3}  {:<7} {:<7} {}",
            self.name,
            figure(self.ours),
            figure(self.p99),
            figure(self.floor),
            self.ratio,
            recall,
            verdict,
            targets.join(", "),
        )
        .and_then(|()| out.flush())
        .map_err(broken)
    }
}

/// The head of the table.
pub(super) fn write_head(
    out: &mut dyn Write,
    machine: &Machine,
    vectors: &Vectors,
    args: &SearchArgs,
) -> Result<()> {
    let load = machine::load().map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let source = args
        .file
        .as_ref()
        .map_or_else(|| format!("clustered, seed {}", args.seed), |file| file.display().to_string());
    let mut head = format!(
        "{} cores ({}), load {load}; {} vectors of {} numbers ({source}), {} queries, top {}\n",
        machine.cores,
        machine.model.as_deref().unwrap_or("unknown"),
        vectors.len(),
        vectors.dimensions,
        args.queries,
        args.top_k,
    );
    if cfg!(debug_assertions) {
        head.push_str("warning: this is a debug build; its figures are meaningless. Build with --release\n");
    }
    head.push_str(
        "\nmedians of interleaved rounds; floor of a search: reading every number once, on one thread, in the same run\n\
         row                             p50         p99       floor   ratio  recall  target\n",
    );
    out.write_all(head.as_bytes()).and_then(|()| out.flush()).map_err(broken)
}

/// The line below the table.
pub(super) fn write_foot(out: &mut dyn Write, met: usize, rows: usize) -> Result<()> {
    let load = machine::load().map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    writeln!(out, "\n{met} of {rows} rows meet their targets; load at the end {load}").map_err(broken)
}
