//! What a memory and an edge may hold.

use memory_core::{Error, Result};
use serde_json::Value;

/// Most bytes of an id.
pub const MAX_ID_BYTES: usize = 255;
/// Most bytes of a content.
pub const MAX_CONTENT_BYTES: usize = 1 << 20;
/// Most tags.
pub const MAX_TAGS: usize = 64;
/// Most bytes of a tag.
pub const MAX_TAG_BYTES: usize = 255;
/// Most bytes of metadata as JSON.
pub const MAX_METADATA_BYTES: usize = 64 << 10;
/// Most arrays and objects of metadata that are open at once.
pub const MAX_METADATA_DEPTH: usize = 127;
/// Most bytes of text in a row of a file, which may exceed the limits for new writes: what every store accepts in its
/// default settings.
pub const MAX_ROW_BYTES: usize = 4_000_000;
/// Most bytes of an entity's name, and of the short texts of nodes and edges.
pub const MAX_SHORT_BYTES: usize = 1_024;

/// An id has 1 to 255 bytes and no U+0000.
///
/// # Errors
/// `invalid_argument`, `too_large`.
pub fn check_id(id: &str) -> Result<()> {
    if id.is_empty() {
        return Err(Error::invalid("the id of a memory is empty; give it one of 1 to 255 bytes"));
    }
    if id.len() > MAX_ID_BYTES {
        return Err(Error::too_large("id of a memory", id.len(), MAX_ID_BYTES, "bytes"));
    }
    Ok(())
}

/// An entity's name is an index key, which has a limit in every store.
///
/// # Errors
/// `too_large`.
pub fn check_entity(name: &str) -> Result<()> {
    short("entity_name", name)
}

/// The error for an edge that ends at a memory which the agent does not have, or has only as the other kind.
#[must_use]
pub fn missing_end(id: &str, kind: &str) -> Error {
    Error::not_found(format!(
        "an edge ends at `{id}`, which is no {kind} memory of this agent; store that first"
    ))
    .with_detail("memory_id", id)
    .with_detail("kind", kind)
}

/// A short text has at most 1,024 bytes.
///
/// # Errors
/// `too_large`.
pub(crate) fn short(what: &'static str, text: &str) -> Result<()> {
    within(what, text.len(), MAX_SHORT_BYTES)
}

fn within(what: &'static str, bytes: usize, limit: usize) -> Result<()> {
    if bytes > limit { Err(Error::too_large(what, bytes, limit, "bytes")) } else { Ok(()) }
}

pub(crate) fn check_content(content: &str) -> Result<()> {
    within("content", content.len(), MAX_CONTENT_BYTES)
}

pub(crate) fn check_tags(tags: &[String]) -> Result<()> {
    if tags.len() > MAX_TAGS {
        return Err(Error::too_large("list of tags", tags.len(), MAX_TAGS, "tags"));
    }
    tags.iter().try_for_each(|tag| within("tag", tag.len(), MAX_TAG_BYTES))
}

/// Whether no more arrays and objects are open at once than metadata may have.
pub(crate) fn is_within_depth(metadata: &Value) -> bool {
    fn within(value: &Value, left: usize) -> bool {
        let inside = |value: &Value| left > 0 && within(value, left - 1);
        match value {
            Value::Array(items) => left > 0 && items.iter().all(inside),
            Value::Object(members) => left > 0 && members.values().all(inside),
            _ => true,
        }
    }
    within(metadata, MAX_METADATA_DEPTH)
}

pub(crate) fn check_metadata(metadata: &Value) -> Result<()> {
    if !is_within_depth(metadata) {
        return Err(Error::invalid("the metadata are nested deeper than 127 levels; store them flatter"));
    }
    within("metadata", metadata.to_string().len(), MAX_METADATA_BYTES)
}

/// A confidence or a weight lies in 0..=1.
pub(crate) fn check_share(what: &'static str, share: f64) -> Result<()> {
    if (0.0..=1.0).contains(&share) {
        Ok(())
    } else {
        Err(Error::invalid(format!("{what} is {share}; give a number from 0 to 1")))
    }
}
