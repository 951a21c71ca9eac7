//! The id of a row that a request names or creates. Deterministic: the same request always gets the same.

use std::collections::BTreeMap;

use memory_core::Result;
use serde_json::Value;

use crate::bucket::{Bucket, Operation};
use crate::columns::main_text;
use crate::encoding::{canonical, digest};
use crate::note::Note;
use crate::projection::{Row, read, rows};
use crate::request::WriteRequest;
use crate::store::{Session, text};

/// Hexadecimal digits of a hash in an id.
const DIGITS: usize = 12;
/// Most bytes of the words in an id.
const WORDS: usize = 40;

/// What a request that refers to nothing is about.
pub(super) enum Target {
    /// This row, new or not.
    Row(String),
    /// A row already says so.
    Known(&'static str),
}

pub(super) async fn target(
    session: &Session<'_>,
    request: &WriteRequest,
    note: &Note,
    key: &str,
) -> Result<Target> {
    let bucket = request.bucket;
    if bucket == Bucket::Plan {
        return Ok(Target::Row("main".to_owned()));
    }
    let main = main_text(bucket).and_then(|name| Some((name, request.payload.get(name)?.as_str()?)));
    if bucket == Bucket::Learnings
        && let Some((name, said)) = main
        && !rows(session, bucket, &format!("WHERE {name} = ?"), &[text(said)]).await?.is_empty()
    {
        return Ok(Target::Known("it is known already"));
    }
    let wanted = match (&request.target_id, main) {
        (Some(id), _) => id.clone(),
        (None, Some((_, said))) => slug(bucket, said),
        (None, None) => format!("{bucket}-{}", short(&[key])),
    };
    let Some(prior) = read(session, bucket, &wanted).await? else { return Ok(Target::Row(wanted)) };
    let is_named = request.target_id.is_some();
    let is_same = main.is_some_and(|(name, said)| prior.text(name) == Some(said));
    Ok(Target::Row(match request.operation {
        // A named row is changed; one whose id merely has the same words is a different row.
        Operation::Upsert if is_named || is_same => wanted,
        Operation::Upsert => sibling(&wanted, &[key]),
        // Every measurement is a new row.
        _ if bucket == Bucket::Results => sibling(&wanted, &[&note.id, key]),
        _ if is_again(&prior, request) => wanted,
        _ => sibling(&wanted, &[&canonical(&request.payload.iter().collect::<BTreeMap<_, _>>())?]),
    }))
}

/// Whether the row already has every given member.
fn is_again(prior: &Row, request: &WriteRequest) -> bool {
    let same = |(name, value): (&String, &Value)| prior.fields.get(name).unwrap_or(&Value::Null) == value;
    match main_text(request.bucket) {
        Some(name) => request.payload.get(name).is_some_and(|value| same((&name.to_owned(), value))),
        None => request.payload.iter().all(same),
    }
}

/// An id of words.
fn slug(bucket: Bucket, words: &str) -> String {
    let mut slug = String::new();
    for word in
        words.split(|character: char| !character.is_ascii_alphanumeric()).filter(|word| !word.is_empty())
    {
        if slug.len() + word.len() >= WORDS {
            break;
        }
        slug.push_str(if slug.is_empty() { "" } else { "_" });
        slug.push_str(&word.to_ascii_lowercase());
    }
    match slug.bytes().next() {
        Some(first) if first.is_ascii_alphabetic() => slug,
        Some(_) => format!("{bucket}-{slug}"),
        None => format!("{bucket}-{}", short(&[words])),
    }
}

fn sibling(id: &str, of: &[&str]) -> String {
    let room = 63 - DIGITS;
    format!("{}-{}", id.get(..room).unwrap_or(id), short(of))
}

fn short(parts: &[&str]) -> String {
    digest(parts.iter().copied()).chars().take(DIGITS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::is_id;

    #[test]
    fn ids_of_any_words_are_ids() {
        for words in
            ["Redis times out!", "42 is too many", "…", "漢字", &"long ".repeat(90), &"x".repeat(300), "a"]
        {
            let id = slug(Bucket::TaskState, words);
            assert!(is_id(&id), "{id}");
            let other = sibling(&id, &["a key"]);
            assert!(is_id(&other) && other != id, "{other}");
        }
        assert!(is_id(&sibling(&"x".repeat(64), &["k"])));
        assert_eq!(slug(Bucket::Issues, "Redis times out!"), "redis_times_out");
    }
}
