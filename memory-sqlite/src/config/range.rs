//! Ranges of configuration fields.

use memory_core::{Error, Result};

pub(crate) fn in_range(field: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(format!("sqlite.{field} is {value}; it must be {low} to {high}")))
    }
}
