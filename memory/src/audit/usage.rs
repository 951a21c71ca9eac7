//! How often operations were called and how they went, from the end of an audit file.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Seek as _, SeekFrom};
use std::path::Path;

use memory_core::{Error, ErrorKind, Result, TenantId, Timestamp};
use serde::{Deserialize, Serialize};

/// How much of the file's end is read, in bytes.
const MAX_READ: u64 = 16 << 20;

/// The calls of one operation.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct OpUsage {
    /// The operation.
    pub op: String,
    /// How often it was called.
    pub calls: u64,
    /// Calls that were refused, failed or were cancelled.
    pub failed: u64,
    /// Calls whose answer contained no row, hit or fact.
    pub empty: u64,
    /// Median duration, in milliseconds.
    pub median_ms: f64,
    /// 99th percentile of the duration, in milliseconds.
    pub p99_ms: f64,
    /// The time of the first call.
    pub since: Timestamp,
}

/// Of a record.
#[derive(Deserialize)]
struct Line {
    kind: String,
    time: Timestamp,
    tenant: Option<String>,
    op: Option<String>,
    rows: Option<u64>,
    micros: Option<u64>,
    outcome: Option<String>,
    dropped: Option<u64>,
}

/// A tenant's calls by operation, according to the last 16 MiB of an audit file. Lines that are not records are
/// skipped.
///
/// # Errors
/// `not_found` if there is no file, `unavailable` if it cannot be read.
pub fn usage(path: &Path, tenant: &TenantId) -> Result<Vec<OpUsage>> {
    let mut calls: BTreeMap<String, (OpUsage, Vec<u64>)> = BTreeMap::new();
    each(path, |record| {
        if matches!(record.kind.as_str(), "call" | "request")
            && record.tenant.as_deref() == Some(tenant.as_str())
            && let Some(op) = record.op
        {
            let (usage, micros) = calls.entry(op.clone()).or_insert_with(|| {
                let none = OpUsage {
                    op,
                    calls: 0,
                    failed: 0,
                    empty: 0,
                    median_ms: 0.0,
                    p99_ms: 0.0,
                    since: record.time,
                };
                (none, Vec::new())
            });
            let ok = record.outcome.as_deref() == Some("ok");
            usage.calls += 1;
            usage.failed += u64::from(!ok);
            usage.empty += u64::from(ok && record.rows == Some(0));
            micros.extend(record.micros);
        }
    })?;
    Ok(calls.into_values().map(|(usage, micros)| timed(usage, micros)).collect())
}

/// How many records are missing from the last 16 MiB of an audit file, according to its gaps.
///
/// # Errors
/// As [`usage`].
pub fn missing(path: &Path) -> Result<u64> {
    let mut missing = 0;
    each(path, |record| missing += record.dropped.unwrap_or_default())?;
    Ok(missing)
}

/// Reads the records at the end of a file.
fn each(path: &Path, mut take: impl FnMut(Line)) -> Result<()> {
    let unread = |error: std::io::Error| {
        let kind = match error.kind() {
            std::io::ErrorKind::NotFound => ErrorKind::NotFound,
            _ => ErrorKind::Unavailable,
        };
        Error::new(kind, format!("the audit file cannot be read: {error}")).with_source(error)
    };
    let mut file = File::open(path).map_err(unread)?;
    let length = file.metadata().map_err(unread)?.len();
    file.seek(SeekFrom::Start(length.saturating_sub(MAX_READ))).map_err(unread)?;
    let (mut reader, mut line) = (BufReader::new(file.take(MAX_READ)), Vec::new());
    while reader.read_until(b'\n', &mut line).map_err(unread)? > 0 {
        if let Ok(record) = serde_json::from_slice::<Line>(&line) {
            take(record);
        }
        line.clear();
    }
    Ok(())
}

fn timed(mut usage: OpUsage, mut micros: Vec<u64>) -> OpUsage {
    micros.sort_unstable();
    let at = |percent: usize| {
        let place = (micros.len() * percent / 100).min(micros.len().saturating_sub(1));
        let micros = micros.get(place).copied().unwrap_or_default();
        std::time::Duration::from_micros(micros).as_secs_f64() * 1_000.0
    };
    (usage.median_ms, usage.p99_ms) = (at(50), at(99));
    usage
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_counted_by_operation_and_tenant() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let call = |tenant: &str, op: &str, rows: u64, micros: u64, outcome: &str| {
            format!(
                r#"{{"kind":"call","number":1,"time":"2026-01-0{}T00:00:00Z","tenant":"{tenant}","op":"{op}","rows":{rows},"micros":{micros},"outcome":"{outcome}"}}"#,
                rows + 1
            )
        };
        let lines = [
            call("a", "recall", 3, 2_000, "ok"),
            call("a", "recall", 0, 1_000, "ok"),
            call("a", "recall", 0, 9_000, "too_large"),
            call("b", "recall", 1, 1, "ok"),
            call("a", "add", 1, 500, "ok").replace("call", "request"),
            r#"{"kind":"gap","number":9,"time":"2026-01-01T00:00:00Z","dropped":4}"#.to_owned(),
            r#"{"kind":"call","time":"#.to_owned(),
        ];
        std::fs::write(&path, lines.join("\n")).unwrap();
        let found = usage(&path, &"a".parse().unwrap()).unwrap();
        let of: Vec<_> = found.iter().map(|of| (of.op.as_str(), of.calls, of.failed, of.empty)).collect();
        assert_eq!(of, [("add", 1, 0, 0), ("recall", 3, 1, 1)]);
        assert!((found[1].median_ms - 2.0).abs() < 1e-9 && (found[1].p99_ms - 9.0).abs() < 1e-9);
        assert_eq!(missing(&path).unwrap(), 4);
        let none = usage(&folder.path().join("none"), &"a".parse().unwrap()).unwrap_err();
        assert_eq!(none.kind(), ErrorKind::NotFound);
    }
}
