//! The texts that values are stored as, and digests over them.

use std::fmt::Write as _;

use memory_core::{Error, Result};
use serde::Serialize;
use serde_json::Value;
use sha2::{Digest as _, Sha256};

/// JSON in which equal values always have equal text.
pub(crate) fn canonical<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::internal("a value has no JSON").with_source(error))
}

/// SHA-256 over parts, each with its length before it.
pub(crate) fn digest<'a>(parts: impl IntoIterator<Item = &'a str>) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_be_bytes());
        hash.update(part.as_bytes());
    }
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// An enumeration's name, without the quotes of its JSON.
pub(crate) fn word<T: Serialize>(value: &T) -> Result<String> {
    match serde_json::to_value(value) {
        Ok(Value::String(word)) => Ok(word),
        _ => Err(Error::internal("an enumeration has no name")),
    }
}
