//! `[gc]` of `memory.toml`.

use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Result};
use serde::Deserialize;

use crate::gc::GcPolicy;

/// Longest duration of a field: a hundred years, in milliseconds.
const MAX_MS: u64 = 100 * 366 * 86_400_000;

/// `[gc]`: which scopes are evicted, and how often. Nothing is evicted if the section names neither `idle_ms`
/// nor `max_bytes`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct GcSection {
    /// Evict scopes unused for this long, in milliseconds.
    pub idle_ms: Option<u64>,
    /// Bytes for all scopes of the store together; beyond it, the largest idle ones are evicted.
    pub max_bytes: Option<u64>,
    /// Scopes used within this time are kept, however large they are, in milliseconds. Default: one day.
    pub min_idle_ms: u64,
    /// How often `memory serve` sweeps, in milliseconds: one second to one year. Default: one hour.
    pub interval_ms: u64,
    /// The folder where each durable scope is saved before eviction; relative to the folder of `memory.toml`.
    pub snapshot_to: Option<PathBuf>,
}

impl Default for GcSection {
    fn default() -> Self {
        Self {
            idle_ms: None,
            max_bytes: None,
            min_idle_ms: 86_400_000,
            interval_ms: 3_600_000,
            snapshot_to: None,
        }
    }
}

impl GcSection {
    /// The policy it describes.
    #[must_use]
    pub fn policy(&self) -> GcPolicy {
        GcPolicy::default()
            .with_idle(self.idle_ms.map(Duration::from_millis))
            .with_max_bytes(self.max_bytes)
            .with_min_idle(Duration::from_millis(self.min_idle_ms))
    }

    /// How often `memory serve` sweeps.
    #[must_use]
    pub fn interval(&self) -> Duration {
        Duration::from_millis(self.interval_ms)
    }

    pub(in crate::config) fn check(&self) -> Result<()> {
        let times = [
            ("idle_ms", self.idle_ms.unwrap_or_default(), 0, MAX_MS),
            ("min_idle_ms", self.min_idle_ms, 0, MAX_MS),
            ("interval_ms", self.interval_ms, 1_000, 366 * 86_400_000),
        ];
        for (name, value, low, high) in times {
            if !(low..=high).contains(&value) {
                return Err(Error::invalid(format!("[gc] {name} is {value}; it must be {low} to {high}")));
            }
        }
        if self.snapshot_to.as_ref().is_some_and(|folder| folder.as_os_str().is_empty()) {
            return Err(Error::invalid("`snapshot_to` under [gc] is empty; name a folder or leave it out"));
        }
        Ok(())
    }
}
