//! Ranges of configuration fields.

use memory_core::{Error, Result};

pub(crate) fn in_range(field: &str, value: u64, low: u64, high: u64) -> Result<()> {
    if (low..=high).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(format!("postgres.{field} is {value}; it must be {low} to {high}")))
    }
}

/// Names that need no quotes in SQL, since they become part of statements.
pub(crate) fn check_schema_name(field: &str, name: &str) -> Result<()> {
    let fits = (1..=63).contains(&name.len())
        && name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_')
        && !name.starts_with(|first: char| first.is_ascii_digit())
        && !name.starts_with("pg_");
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "postgres.{field} must be 1 to 63 of a-z, 0-9 and `_`, and not begin with a digit or `pg_`"
        )))
    }
}
