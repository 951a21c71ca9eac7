//! Entries as text for a person.

use memory_core::{Entry, Scalar};

use crate::terminal::{Failure, Out, excerpt};

/// An entry in one line: its text if it has one, otherwise its value's JSON.
pub(crate) fn brief(out: &Out, entry: &Entry) -> String {
    let text = entry.text.as_deref().unwrap_or_else(|| entry.value.as_str());
    excerpt(text, out.shown())
}

/// Prints entries as a table.
pub(crate) fn table(out: &mut Out, entries: &[Entry]) -> Result<(), Failure> {
    let rows: Vec<[String; 4]> = entries
        .iter()
        .map(|entry| {
            [
                entry.key.to_string(),
                entry.version.to_string(),
                entry.updated_at.to_string(),
                excerpt(entry.value.as_str(), out.shown()),
            ]
        })
        .collect();
    out.table(["KEY", "VERSION", "UPDATED", "VALUE"], &rows)
}

/// Prints a whole entry.
pub(crate) fn all_of(out: &mut Out, entry: &Entry) -> Result<(), Failure> {
    let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
    for (name, value) in [
        ("key", entry.key.to_string()),
        ("value", entry.value.to_string()),
        ("text", or_none(entry.text.clone())),
        ("source", or_none(entry.source.as_ref().map(ToString::to_string))),
        ("version", entry.version.to_string()),
        ("created", entry.created_at.to_string()),
        ("updated", entry.updated_at.to_string()),
        ("expires", entry.expires_at.map_or_else(|| "never".to_owned(), |at| at.to_string())),
        ("accesses", entry.access_count.to_string()),
    ] {
        out.line(format!("{name:<9} {value}"))?;
    }
    for (name, value) in entry.metadata.iter() {
        out.line(format!("metadata  {name} = {}", scalar(value)))?;
    }
    Ok(())
}

fn scalar(value: &Scalar) -> String {
    match value {
        Scalar::Bool(value) => value.to_string(),
        Scalar::Int(value) => value.to_string(),
        Scalar::Float(value) => value.to_string(),
        Scalar::Text(value) => value.clone(),
    }
}
