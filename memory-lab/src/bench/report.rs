//! Rows of the report: one line each, as JSON or for a person.

use std::io::Write;

use memory_core::Result;
use serde::Serialize;

use super::machine::{self, Machine};
use super::measure::{Rounds, Sample, median};

/// The unit of a row's figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(super) enum Unit {
    /// Microseconds per operation; lower is better.
    #[serde(rename = "us/op")]
    MicrosPerOperation,
    /// Operations per second; higher is better.
    #[serde(rename = "ops/s")]
    OperationsPerSecond,
    /// Bytes; lower is better, and the target is a number of bytes.
    #[serde(rename = "bytes")]
    Bytes,
}

impl Unit {
    fn of(self, sample: &Sample) -> f64 {
        match self {
            Self::MicrosPerOperation => sample.micros_per_operation(),
            Self::OperationsPerSecond => sample.operations_per_second(),
            Self::Bytes => 0.0,
        }
    }

    fn better(self) -> &'static str {
        match self {
            Self::MicrosPerOperation | Self::Bytes => "lower",
            Self::OperationsPerSecond => "higher",
        }
    }
}

/// The outcome of one row. The first four names are stable.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    name: &'static str,
    /// Median over the rounds.
    ours: f64,
    /// Median over the rounds.
    floor: f64,
    /// `ours / floor`.
    ratio: f64,
    unit: Unit,
    better: &'static str,
    /// The limit of `ratio`: an upper one if lower is better, else a lower one. For bytes, the upper limit of `ours`.
    target: f64,
    /// An upper limit of `ours`, for an operation that has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    most: Option<f64>,
    met: bool,
    /// Least and greatest ratio of a round.
    ratio_low: f64,
    ratio_high: f64,
    /// Medians of processor time per operation, all threads of the process.
    ours_cpu_us: Option<f64>,
    floor_cpu_us: Option<f64>,
    rounds: usize,
    keys: usize,
    #[serde(flatten)]
    machine: Machine,
    load: Option<f64>,
    /// Figures of a debug build are meaningless.
    build: &'static str,
}

impl Row {
    pub(super) fn new(
        name: &'static str,
        unit: Unit,
        target: f64,
        rounds: &Rounds,
        keys: usize,
        machine: &Machine,
    ) -> Self {
        let all = |samples: &[Sample]| samples.iter().map(|sample| unit.of(sample)).collect::<Vec<_>>();
        let cpu = |samples: &[Sample]| {
            samples.iter().map(Sample::cpu_micros_per_operation).collect::<Option<Vec<_>>>().map(median)
        };
        let (ours, floor) = (all(&rounds.ours), all(&rounds.floor));
        let ratios: Vec<f64> = ours.iter().zip(&floor).map(|(ours, floor)| ours / floor).collect();
        let (ours, floor) = (median(ours), median(floor));
        let ratio = ours / floor;
        Self {
            name,
            ours,
            floor,
            ratio,
            unit,
            better: unit.better(),
            target,
            most: None,
            met: match unit {
                Unit::MicrosPerOperation => ratio <= target,
                Unit::OperationsPerSecond => ratio >= target,
                Unit::Bytes => ours <= target,
            },
            ratio_low: ratios.iter().copied().fold(f64::INFINITY, f64::min),
            ratio_high: ratios.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            ours_cpu_us: cpu(&rounds.ours),
            floor_cpu_us: cpu(&rounds.floor),
            rounds: ratios.len(),
            keys,
            machine: machine.clone(),
            load: machine::load(),
            build: if cfg!(debug_assertions) { "debug" } else { "release" },
        }
    }

    /// A row for memory, which is measured once.
    pub(super) fn of_bytes(
        name: &'static str,
        ours: f64,
        floor: f64,
        target: f64,
        keys: usize,
        machine: &Machine,
    ) -> Self {
        let mut row = Self::new(name, Unit::Bytes, target, &Rounds::default(), keys, machine);
        let ratio = ours / floor;
        (row.ours, row.floor, row.ratio) = (ours, floor, ratio);
        (row.ratio_low, row.ratio_high, row.rounds) = (ratio, ratio, 1);
        row.met = ours <= target;
        row
    }

    /// With an upper limit of `ours` beside that of the ratio.
    pub(super) fn within(mut self, most: Option<f64>) -> Self {
        self.met &= most.is_none_or(|most| self.ours <= most);
        self.most = most;
        self
    }

    fn write_json(&self, out: &mut dyn Write) -> Result<()> {
        let line = serde_json::to_string(self)
            .map_err(|error| memory_core::Error::internal("a row has no JSON form").with_source(error))?;
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(broken)
    }

    fn write_line(&self, out: &mut dyn Write) -> Result<()> {
        let unit = match self.unit {
            Unit::MicrosPerOperation => "µs",
            Unit::OperationsPerSecond => "/s",
            Unit::Bytes => "B ",
        };
        let sign = if self.better == "lower" { "≤" } else { "≥" };
        let cpu = |micros: Option<f64>| match self.unit {
            Unit::Bytes => "–".to_owned(),
            _ => micros.map_or_else(|| "?".to_owned(), figure),
        };
        let most = self.most.map_or_else(String::new, |most| format!(", ≤ {} {unit}", figure(most)));
        writeln!(
            out,
            "{:<22}{:>10} {unit}{:>10} {unit}{:>7.2}  {:<13}{sign} {:<5}{:<6}{:>7} / {}{most}",
            self.name,
            figure(self.ours),
            figure(self.floor),
            self.ratio,
            format!("{:.2}–{:.2}", self.ratio_low, self.ratio_high),
            self.target,
            if self.met { "met" } else { "missed" },
            cpu(self.ours_cpu_us),
            cpu(self.floor_cpu_us),
        )
        .and_then(|()| out.flush())
        .map_err(broken)
    }
}

pub(super) fn broken(error: std::io::Error) -> memory_core::Error {
    machine::io("write the report", error)
}

/// Three significant digits, or whole numbers.
pub(super) fn figure(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Measures a row for each plan and writes it at once; then the foot of the table.
pub(super) fn write_rows<P>(
    out: &mut dyn Write,
    json: bool,
    plans: &[P],
    mut row: impl FnMut(&P) -> Result<Row>,
) -> Result<()> {
    let mut met = 0;
    for plan in plans {
        let row = row(plan)?;
        met += usize::from(row.met);
        if json { row.write_json(out)? } else { row.write_line(out)? }
    }
    if json { Ok(()) } else { write_foot(out, met, plans.len()) }
}

/// The head of the table.
pub(super) fn write_head(out: &mut dyn Write, machine: &Machine, keys: usize, dir: &str) -> Result<()> {
    let floor = match &machine.server {
        Some(_) => "raw tokio-postgres, same server and run",
        None => RAW_SQLITE,
    };
    write_head_of(out, machine, &format!("{keys} entries of 200 bytes"), dir, floor)
}

/// The floor of what is compared with SQLite itself.
pub(super) const RAW_SQLITE: &str = "raw rusqlite, same file kind, pragmas and run";

/// As [`write_head`], for other contents and another floor.
pub(super) fn write_head_of(
    out: &mut dyn Write,
    machine: &Machine,
    what: &str,
    dir: &str,
    floor: &str,
) -> Result<()> {
    let or_unknown = |text: &Option<String>| text.clone().unwrap_or_else(|| "unknown".to_owned());
    let load = machine::load().map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    let place = match &machine.server {
        Some(server) => server.clone(),
        None => format!("files in {dir} ({})", or_unknown(&machine.file_system)),
    };
    let mut head =
        format!("{} cores ({}), load {load}; {what}; {place}\n", machine.cores, or_unknown(&machine.model),);
    if machine.is_in_memory() {
        head.push_str("warning: this folder is kept in memory, so durable writes cost nothing; choose one on a disk with --dir\n");
    }
    if cfg!(debug_assertions) {
        head.push_str("warning: this is a debug build; its figures are meaningless. Build with --release\n");
    }
    head.push_str(&format!("\nmedians of interleaved rounds; floor: {floor}; CPU in µs per operation\n"));
    head.push_str("row                          ours        floor    ratio  of rounds    target      CPU ours / floor\n");
    out.write_all(head.as_bytes()).and_then(|()| out.flush()).map_err(broken)
}

/// The line below the table.
fn write_foot(out: &mut dyn Write, met: usize, rows: usize) -> Result<()> {
    let load = machine::load().map_or_else(|| "unknown".to_owned(), |load| format!("{load:.2}"));
    writeln!(out, "\n{met} of {rows} targets met; load at the end {load}").map_err(broken)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn row(unit: Unit, ours: [u64; 3], floor: [u64; 3], target: f64) -> Row {
        let samples = |operations: [u64; 3]| {
            operations
                .map(|operations| Sample { operations, elapsed: Duration::from_secs(1), cpu: None })
                .to_vec()
        };
        let machine = Machine { cores: 2, model: None, file_system: None, server: None };
        let rounds = Rounds { ours: samples(ours), floor: samples(floor) };
        Row::new("get_1_task", unit, target, &rounds, 10, &machine)
    }

    #[test]
    fn a_json_line_begins_with_the_four_stable_names() {
        let mut line = Vec::new();
        row(Unit::MicrosPerOperation, [100; 3], [200; 3], 1.5).write_json(&mut line).unwrap();
        let line = String::from_utf8(line).unwrap();
        assert!(
            line.starts_with(r#"{"name":"get_1_task","ours":10000.0,"floor":5000.0,"ratio":2.0,"#),
            "{line}"
        );
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert_eq!(value["unit"], "us/op");
        assert_eq!(value["better"], "lower");
        assert_eq!(value["target"], 1.5);
        assert_eq!(value["met"], false);
        assert_eq!(value["cores"], 2);
    }

    #[test]
    fn a_target_is_met_from_its_own_side() {
        assert!(row(Unit::MicrosPerOperation, [100; 3], [100; 3], 1.0).met);
        assert!(!row(Unit::MicrosPerOperation, [99; 3], [100; 3], 1.0).met);
        assert!(row(Unit::OperationsPerSecond, [75; 3], [100; 3], 0.75).met);
        assert!(!row(Unit::OperationsPerSecond, [74; 3], [100; 3], 0.75).met);
    }

    #[test]
    fn figures_are_medians_and_the_spread_is_told() {
        let row = row(Unit::OperationsPerSecond, [50, 100, 400], [100, 100, 100], 1.0);
        assert!((row.ratio - 1.0).abs() < 1e-9);
        assert!((row.ratio_low - 0.5).abs() < 1e-9 && (row.ratio_high - 4.0).abs() < 1e-9);
    }
}
