//! JSON of format 1.1, as the original writes it: two spaces, its order of members, no line feed at the end.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::io::{self, Read, Write};

use memory_core::{Error, ErrorKind, Result, Timestamp};
use serde::de::{DeserializeOwned, IgnoredAny, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::value::RawValue;

use super::graph::{Graph, MAX_BYTES};
use super::tables::Tables;
use crate::model::{Agent, Counts, DerivesFrom, Episodic, Semantic, SimilarTo, Supersedes, TransitionedTo};

/// Values in tags and metadata of one file.
const MAX_VALUES: usize = 5_000_000;
/// Values of a row that are not counted: its members, and some tags.
const MEMBERS: usize = 20;

/// What is written.
const VERSION: &str = "1.1";

#[derive(Serialize)]
struct Written<'a> {
    agent_name: &'a Agent,
    exported_at: String,
    format_version: &'static str,
    semantic_nodes: &'a [Semantic],
    episodic_nodes: &'a [Episodic],
    similar_to_edges: &'a [SimilarTo],
    derives_from_edges: &'a [DerivesFrom],
    supersedes_edges: &'a [Supersedes],
    transitioned_to_edges: &'a [TransitionedTo],
    statistics: Counts,
}

/// Writes a graph; returns the number of bytes. The output depends only on the time and the graph.
///
/// # Errors
/// `too_large` for more than [`MAX_BYTES`](super::MAX_BYTES), which could not be read back; `unavailable` if the writer
/// fails.
pub fn write_json(agent: &Agent, graph: &Graph, now: Timestamp, to: &mut dyn Write) -> Result<u64> {
    let written = Written {
        agent_name: agent,
        exported_at: (now.as_millis() / 1_000).to_string(),
        format_version: VERSION,
        semantic_nodes: &graph.semantic,
        episodic_nodes: &graph.episodic,
        similar_to_edges: &graph.similar_to,
        derives_from_edges: &graph.derives_from,
        supersedes_edges: &graph.supersedes,
        transitioned_to_edges: &graph.transitioned_to,
        statistics: graph.counts(),
    };
    let mut counted = Counted { to, bytes: 0, limit: MAX_BYTES };
    match serde_json::to_writer_pretty(&mut counted, &written) {
        Ok(()) => Ok(counted.bytes),
        Err(_) if counted.bytes > counted.limit => Err(too_large(counted.limit)),
        Err(error) => Err(Error::unavailable("the export cannot be written").with_source(error)),
    }
}

struct Counted<'a> {
    to: &'a mut dyn Write,
    bytes: u64,
    limit: u64,
}

impl Write for Counted<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.bytes = self.bytes.saturating_add(u64::try_from(bytes.len()).unwrap_or(u64::MAX));
        if self.bytes > self.limit {
            return Err(io::ErrorKind::FileTooLarge.into());
        }
        self.to.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.to.flush()
    }
}

fn too_large(limit: u64) -> Error {
    Error::new(ErrorKind::TooLarge, format!("a file of a graph has at most {limit} bytes"))
        .with_detail("limit", limit)
        .with_detail("unit", "bytes")
}

/// What a file holds.
#[derive(Clone, Debug, PartialEq)]
pub struct Document {
    /// The agent it was exported from. Says nothing about whose graph it becomes.
    pub agent_name: String,
    /// When, as its writer put it.
    pub exported_at: String,
    /// Its graph.
    pub graph: Graph,
}

#[derive(Deserialize)]
struct Raw<'a> {
    agent_name: String,
    exported_at: String,
    format_version: String,
    #[serde(borrow)]
    semantic_nodes: Rows<'a, Semantic>,
    #[serde(borrow)]
    episodic_nodes: Rows<'a, Episodic>,
    #[serde(borrow)]
    similar_to_edges: Rows<'a, SimilarTo>,
    #[serde(borrow)]
    derives_from_edges: Rows<'a, DerivesFrom>,
    #[serde(borrow)]
    supersedes_edges: Rows<'a, Supersedes>,
    #[serde(borrow)]
    transitioned_to_edges: Rows<'a, TransitionedTo>,
    #[serde(borrow, default)]
    statistics: Option<&'a RawValue>,
}

/// The rows of an array, each read as it comes: an array of millions of tiny values is given up at the first that is no row.
struct Rows<'a, T> {
    read: Vec<T>,
    /// What their tags and metadata hold.
    values: usize,
    /// The first that could not be taken, with its place. The rest is only looked at as JSON.
    fault: Option<(usize, &'a RawValue)>,
}

impl<'de: 'a, 'a, T: DeserializeOwned> Deserialize<'de> for Rows<'a, T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        deserializer.deserialize_seq(Self { read: Vec::new(), values: 0, fault: None })
    }
}

impl<'de: 'a, 'a, T: DeserializeOwned> Visitor<'de> for Rows<'a, T> {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut all: A) -> std::result::Result<Self, A::Error> {
        while let Some(text) = all.next_element::<&'de RawValue>()? {
            let values = self.values + values_of(text);
            let taken = if values > MAX_VALUES { None } else { row(String::new(), text).ok() };
            let Some(taken) = taken else {
                self.fault = Some((self.read.len(), text));
                while all.next_element::<IgnoredAny>()?.is_some() {}
                break;
            };
            self.read.push(taken);
            self.values = values;
        }
        Ok(self)
    }
}

/// Counts that a file states; each may be missing.
#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Stated {
    semantic_node_count: Option<u64>,
    episodic_node_count: Option<u64>,
    similar_to_edge_count: Option<u64>,
    derives_from_edge_count: Option<u64>,
    supersedes_edge_count: Option<u64>,
    transitioned_to_edge_count: Option<u64>,
}

/// Reads a file of at most this many bytes; the limit is checked while reading, so that a pipe cannot get around it.
/// [`import`](super::import()) checks what JSON alone cannot show, such as the ends of edges.
///
/// # Errors
/// `too_large`; `corrupt`, naming the place, for anything but a file of format 1.x; `unavailable` if the reader fails.
pub fn read_json(from: &mut dyn Read, max_bytes: u64) -> Result<Document> {
    let mut bytes = Vec::new();
    from.take(max_bytes.saturating_add(1))
        .read_to_end(&mut bytes)
        .map_err(|error| Error::unavailable("the file cannot be read to its end").with_source(error))?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > max_bytes {
        return Err(too_large(max_bytes));
    }
    if bytes.starts_with(b"\xef\xbb\xbf") {
        return Err(unread("the file begins with a byte order mark", None, "save it as UTF-8 without one"));
    }
    if bytes.starts_with(b"\xff\xfe")
        || bytes.starts_with(b"\xfe\xff")
        || bytes.get(..2).is_some_and(|two| two.contains(&0))
    {
        return Err(unread("the file is UTF-16", None, "save it as UTF-8"));
    }
    // Without this, serde would also accept the members' values as an array, in order.
    if let Some(first) = bytes.trim_ascii_start().first()
        && *first != b'{'
    {
        return Err(unread("the file is no JSON object", None, "it must be a graph in JSON of format 1.1"));
    }
    let raw: Raw<'_> = serde_json::from_slice(&bytes).map_err(|error| {
        let place = format!("line {}, column {}", error.line(), error.column());
        unread(&told(&error), Some(place), "it must be a graph in JSON of format 1.1")
    })?;
    if !is_known(&raw.format_version) {
        return Err(unread(
            "the file is of a format that this version does not know",
            Some("format_version".to_owned()),
            "it reads 1.x; export the graph as 1.1",
        ));
    }
    let mut left = MAX_VALUES;
    let graph = Graph {
        semantic: rows("semantic_nodes", raw.semantic_nodes, &mut left)?,
        episodic: rows("episodic_nodes", raw.episodic_nodes, &mut left)?,
        similar_to: rows("similar_to_edges", raw.similar_to_edges, &mut left)?,
        derives_from: rows("derives_from_edges", raw.derives_from_edges, &mut left)?,
        supersedes: rows("supersedes_edges", raw.supersedes_edges, &mut left)?,
        transitioned_to: rows("transitioned_to_edges", raw.transitioned_to_edges, &mut left)?,
    };
    if let Some(stated) = raw.statistics {
        take("statistics".to_owned(), values_of(stated), &mut left)?;
        row::<Stated>("statistics".to_owned(), stated)?.check(graph.counts())?;
    }
    Ok(Document { agent_name: raw.agent_name, exported_at: raw.exported_at, graph })
}

impl Stated {
    /// A file whose number of rows differs from the stated one has lost or gained some since it was written.
    fn check(&self, counts: Counts) -> Result<()> {
        let stated = Tables {
            semantic_nodes: self.semantic_node_count,
            episodic_nodes: self.episodic_node_count,
            similar_to_edges: self.similar_to_edge_count,
            derives_from_edges: self.derives_from_edge_count,
            supersedes_edges: self.supersedes_edge_count,
            transitioned_to_edges: self.transitioned_to_edge_count,
        };
        let found = Tables::<u64>::from(counts);
        for ((table, stated), (_, found)) in stated.named().into_iter().zip(found.named()) {
            if stated.is_some_and(|stated| stated != *found) {
                return Err(unread(
                    &format!("the file says another number of {table} than it has"),
                    Some("statistics".to_owned()),
                    "if it was changed on purpose, remove `statistics`",
                ));
            }
        }
        Ok(())
    }
}

/// `1`, or `1.` and a number.
fn is_known(version: &str) -> bool {
    let minor = version.strip_prefix('1').map(|rest| rest.strip_prefix('.').unwrap_or(rest));
    minor.is_some_and(|minor| minor.bytes().all(|byte| byte.is_ascii_digit()))
        && (version == "1" || version.len() > 2 && version.starts_with("1."))
}

/// What was read of an array, or what is wrong with the first row that could not be taken.
fn rows<T: DeserializeOwned>(table: &str, mut rows: Rows<'_, T>, left: &mut usize) -> Result<Vec<T>> {
    take(table.to_owned(), rows.values, left)?;
    if let Some((index, text)) = rows.fault {
        let place = format!("{table}[{index}]");
        take(place.clone(), values_of(text), left)?;
        rows.read.push(row(place, text)?);
    }
    Ok(rows.read)
}

/// How many values a row's tags and metadata hold, about: each becomes a value in memory, many times larger than
/// the two bytes it may take in the file.
fn values_of(row: &RawValue) -> usize {
    let (mut values, mut quoted, mut escaped) = (0_usize, false, false);
    for byte in row.get().bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' | b'[' | b'{' if !quoted => values += 1,
            _ => {}
        }
    }
    values.saturating_sub(MEMBERS)
}

/// Takes values off what a file may have.
fn take(place: String, values: usize, left: &mut usize) -> Result<()> {
    let Some(rest) = left.checked_sub(values) else {
        let text = format!(
            "{place}: with it, tags and metadata hold more than {MAX_VALUES} values; nothing was imported"
        );
        return Err(Error::new(ErrorKind::TooLarge, text)
            .with_detail("limit", MAX_VALUES)
            .with_detail("unit", "values")
            .with_detail("place", place));
    };
    *left = rest;
    Ok(())
}

/// Whether it contains an integer that only fits a double, as a different number.
#[doc(hidden)]
pub fn has_long_integer(text: &str) -> bool {
    let (mut quoted, mut escaped, mut begin) = (false, false, None);
    for (at, byte) in text.bytes().chain([b' ']).enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b'-' | b'0'..=b'9' if !quoted && begin.is_none() => begin = Some(at),
            b'-' | b'+' | b'.' | b'e' | b'E' | b'0'..=b'9' if begin.is_some() => {}
            _ => {
                let number = begin.take().and_then(|begin| text.get(begin..at)).unwrap_or("0");
                let is_integer = number.bytes().all(|byte| byte == b'-' || byte.is_ascii_digit());
                if is_integer && number.parse::<i64>().is_err() && number.parse::<u64>().is_err() {
                    return true;
                }
            }
        }
    }
    false
}

/// Reads an object.
fn row<T: DeserializeOwned>(place: String, text: &RawValue) -> Result<T> {
    let text = text.get();
    if !text.starts_with('{') {
        return Err(unread("another type than an object", Some(place), "mend it"));
    }
    if has_long_integer(text) {
        return Err(unread("an integer of more than 64 bits", Some(place), "write it as a string"));
    }
    serde_json::from_str(text).map_err(|error| {
        let told = told(&error);
        // That a name is there twice is noticed before its value.
        let twice = told.strip_prefix("duplicate field `").and_then(|rest| rest.strip_suffix('`'));
        let place = match twice.map(str::to_owned).or_else(|| member(text, &error)) {
            Some(member) => format!("{place}.{member}"),
            None => place,
        };
        unread(&told, Some(place), "mend it")
    })
}

/// The row's member with the faulty value: the last one that starts before the error. An error about the row as a
/// whole, such as a missing member, is at its end.
fn member(row: &str, error: &serde_json::Error) -> Option<String> {
    let lines: usize = row.split_inclusive('\n').take(error.line().checked_sub(1)?).map(str::len).sum();
    let at = row.as_ptr().addr() + lines + error.column();
    if at >= row.as_ptr().addr() + row.len() {
        return None;
    }
    let members: HashMap<String, &RawValue> = serde_json::from_str(row).ok()?;
    let begins = |value: &&RawValue| value.get().as_ptr().addr();
    members
        .into_iter()
        .filter(|(_, value)| begins(value) < at)
        .max_by_key(|(_, value)| begins(value))
        .map(|(name, _)| name)
}

/// What serde found, without the values that it quotes.
fn told(error: &serde_json::Error) -> Cow<'static, str> {
    let text = error.to_string();
    let text = text.rsplit_once(" at line ").map_or(text.as_str(), |(text, _)| text);
    if text.starts_with("missing field `") || text.starts_with("duplicate field `") {
        return Cow::Owned(text.to_owned());
    }
    if let (true, Some((_, expected))) = (error.is_data(), text.rsplit_once(", expected ")) {
        let expected = match expected {
            "f64" => "a number",
            "i64" => "an integer of 64 bits",
            "u64" => "an integer from 0",
            expected => expected,
        };
        return Cow::Owned(format!("another type than {expected}"));
    }
    let is = |what| text.contains(what);
    Cow::Borrowed(match error.classify() {
        serde_json::error::Category::Eof => "the file ends early",
        _ if is("number out of range") => "a number that no double holds",
        _ if is("surrogate") || is("hex escape") => "an escape of half a surrogate pair",
        _ if is("nested deeper") || is("recursion limit") => "nested deeper than 127 levels",
        _ if is("trailing characters") => "more follows after the end of the document",
        _ if is("unicode code point") => "a text that is not UTF-8",
        serde_json::error::Category::Data => "a value out of range",
        _ => "no JSON",
    })
}

fn unread(what: &str, place: Option<String>, advice: &str) -> Error {
    let message = match &place {
        Some(place) => format!("{place}: {what}; nothing was imported: {advice}"),
        None => format!("{what}; nothing was imported: {advice}"),
    };
    let error = Error::corrupt(message);
    match place {
        Some(place) => error.with_detail("place", place),
        None => error,
    }
}
