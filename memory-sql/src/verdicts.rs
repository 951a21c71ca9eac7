//! Verdicts of the validator about statements seen before.

use memory_core::{Error, ErrorKind};
use memory_validator::{Mode, Refusal};

use crate::cache::WeightedCache;

/// Verdicts by text. A text may be fit to run as `exec` and not as `query`.
#[derive(Debug)]
pub struct Verdicts<V> {
    exec: WeightedCache<Box<str>, V>,
    query: WeightedCache<Box<str>, V>,
}

impl<V: Clone> Verdicts<V> {
    /// Verdicts within this many bytes of memory; 0: none are kept.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        Self { exec: WeightedCache::new(bytes / 2), query: WeightedCache::new(bytes / 2) }
    }

    /// The verdict about a text.
    #[must_use]
    pub fn get(&self, sql: &str, mode: Mode) -> Option<V> {
        self.of(mode).get(sql)
    }

    /// How often a verdict was known, and how often it was not.
    #[must_use]
    pub fn uses(&self) -> (u64, u64) {
        let ((hits, misses), (more, less)) = (self.exec.uses(), self.query.uses());
        (hits + more, misses + less)
    }

    /// Keeps a verdict, which takes this many bytes with its text.
    pub fn put(&self, sql: &str, mode: Mode, verdict: V, bytes: usize) {
        self.of(mode).put(sql.into(), verdict, bytes);
    }

    fn of(&self, mode: Mode) -> &WeightedCache<Box<str>, V> {
        match mode {
            Mode::Exec => &self.exec,
            Mode::Query => &self.query,
        }
    }
}

/// The validator's refusal as an error: `read_only` or `statement_refused`.
#[must_use]
pub fn refused(refusal: Refusal) -> Error {
    let kind = if refusal.writes { ErrorKind::ReadOnly } else { ErrorKind::StatementRefused };
    Error::new(kind, refusal.to_string())
        .with_detail("stage", refusal.stage.name())
        .with_detail("rule", refusal.rule)
        .with_detail("construct", refusal.construct)
        .with_detail("line", refusal.position.line)
        .with_detail("column", refusal.position.column)
        .with_detail("instead", refusal.instead)
}
