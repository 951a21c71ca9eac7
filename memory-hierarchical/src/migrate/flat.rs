//! The flat layouts, as rows of the tables that keep sessions.

use std::collections::{BTreeMap, BTreeSet};

use memory_core::{Result, Timestamp};
use serde_json::{Map, Value};

use super::layout::{
    ENTRY_COLUMNS, KV_COLUMNS, KV_SESSION_COLUMNS, Layout, MEMORIES_COLUMNS, SESSION_AGENT_COLUMNS,
    SESSION_COLUMNS,
};
use super::times::{expiry, rfc3339, seconds};
use crate::limits::{MAX_ROW_BYTES, check_id};
use crate::model::Agent;
use crate::rows::{Cells as _, Tree};
use crate::sessions::content_hash;
use crate::transfer::{Cells, Foreign, Refusals, Why, has_long_integer};

/// A session.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) id: String,
    pub(super) created_at: String,
    pub(super) last_accessed: String,
    pub(super) metadata: Value,
}

/// An agent in a session.
#[derive(Debug)]
pub(super) struct Use {
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) first: String,
    pub(super) last: String,
}

/// An entry.
#[derive(Debug, Default)]
pub(super) struct Entry {
    pub(super) id: String,
    pub(super) session: String,
    pub(super) agent: String,
    pub(super) kind: String,
    pub(super) title: String,
    pub(super) content: String,
    pub(super) metadata: Value,
    pub(super) tags: Vec<String>,
    pub(super) importance: Option<i64>,
    pub(super) created_at: String,
    pub(super) accessed_at: String,
    pub(super) expires: Option<(String, Timestamp)>,
    pub(super) parent: Option<String>,
}

/// Rows of a table, and how many the file has.
#[derive(Debug)]
pub(super) struct Rows<T> {
    /// Its name in the file; `None` if derived from other rows, which are counted there.
    pub(super) table: Option<&'static str>,
    pub(super) rows: u64,
    pub(super) taken: Vec<T>,
}

/// Everything that a file holds.
#[derive(Debug)]
pub(super) struct Flat {
    pub(super) sessions: Rows<Session>,
    pub(super) uses: Rows<Use>,
    pub(super) entries: Rows<Entry>,
    pub(super) refusals: Refusals,
}

/// Why a row is not taken, with details.
struct Fault(Why, String);

type Parsed<T> = std::result::Result<T, Fault>;

impl From<String> for Fault {
    fn from(what: String) -> Self {
        Self(Why::Malformed, what)
    }
}

fn malformed(what: impl Into<String>) -> Fault {
    Fault::from(what.into())
}

/// Reads a table of a file.
struct Reader<'a> {
    foreign: &'a Foreign,
    only: Option<&'a Agent>,
    bytes: u64,
    refusals: Refusals,
}

impl Reader<'_> {
    fn read<T>(
        &mut self,
        table: &'static str,
        names: &[&'static str],
        parse: impl Fn(Cells<'_, '_>) -> Parsed<T>,
    ) -> Result<Rows<T>> {
        let (mut taken, refusals) = (Vec::new(), &mut self.refusals);
        let rows = self.foreign.each(table, names, &mut self.bytes, |number, cells| match parse(cells) {
            Ok(row) => taken.push(row),
            Err(Fault(why, what)) => refusals.add(table, why, || format!("row {number}: {what}")),
        })?;
        Ok(Rows { table: Some(table), rows, taken })
    }

    /// Removes unwanted rows.
    fn keep<T>(&mut self, rows: &mut Rows<T>, judge: impl Fn(&T) -> Parsed<()>) {
        rows.taken.retain(|row| match judge(row) {
            Ok(()) => true,
            Err(Fault(why, what)) => {
                // Rows derived from refused ones are refused too.
                if let Some(table) = rows.table {
                    self.refusals.add(table, why, || what);
                }
                false
            }
        });
    }

    /// Checks that the agent's name is valid and, if one is wanted, that it is the right one.
    fn agent(only: Option<&Agent>, name: &str, what: &str) -> Parsed<()> {
        if Agent::new(name).is_err() {
            return Err(malformed(format!("{what}: agent_id is no name of an agent")));
        }
        match only {
            Some(only) if only.as_str() != name => {
                Err(Fault(Why::Foreign, format!("{what}, of the agent `{name}`")))
            }
            _ => Ok(()),
        }
    }
}

/// Reads a file in one of the flat layouts; with an agent, only that agent's rows.
pub(super) fn read(foreign: &Foreign, layout: Layout, only: Option<&Agent>) -> Result<Flat> {
    let mut reader = Reader { foreign, only, bytes: 0, refusals: Refusals::default() };
    let (mut sessions, mut uses, mut entries) = match layout {
        Layout::KeyValue => key_value(&mut reader)?,
        Layout::Memories => memories(&mut reader)?,
        _ => (
            reader.read("sessions", SESSION_COLUMNS, session)?,
            reader.read("session_agents", SESSION_AGENT_COLUMNS, used)?,
            reader.read("memory_entries", ENTRY_COLUMNS, entry)?,
        ),
    };
    let only = reader.only;
    reader.keep(&mut uses, |used| Reader::agent(only, &used.agent, &used.session));
    reader.keep(&mut entries, |entry| Reader::agent(only, &entry.agent, &entry.id));
    reader.keep(&mut entries, fits);
    if only.is_some() {
        let wanted: BTreeSet<String> = uses
            .taken
            .iter()
            .map(|used| used.session.clone())
            .chain(entries.taken.iter().map(|entry| entry.session.clone()))
            .collect();
        reader.keep(&mut sessions, |session| match wanted.contains(&session.id) {
            true => Ok(()),
            false => Err(Fault(Why::Foreign, format!("{}, of other agents", session.id))),
        });
    }
    let known: BTreeSet<String> = sessions.taken.iter().map(|session| session.id.clone()).collect();
    let in_session = |session: &str, what: &str| match known.contains(session) {
        true => Ok(()),
        false => Err(Fault(Why::Orphan, format!("{what}: its session is not there"))),
    };
    reader.keep(&mut uses, |used| in_session(&used.session, &format!("{} {}", used.session, used.agent)));
    reader.keep(&mut entries, |entry| in_session(&entry.session, &entry.id));
    Ok(Flat { sessions, uses, entries, refusals: reader.refusals })
}

/// An entry has to fit into every store.
fn fits(entry: &Entry) -> Parsed<()> {
    let tags: usize = entry.tags.iter().map(|tag| tag.len() + 4).sum();
    let bytes = entry.title.len() + entry.content.len() + tags + entry.metadata.to_string().len();
    if bytes > MAX_ROW_BYTES {
        return Err(malformed(format!("{}: it is longer than 4,000,000 bytes", entry.id)));
    }
    Ok(())
}

fn id(text: String) -> Parsed<String> {
    match check_id(&text) {
        Ok(()) if !text.contains(char::is_control) => Ok(text),
        _ => Err(malformed("its id is not 1 to 255 bytes without control characters")),
    }
}

fn time(member: &'static str, text: &str) -> Parsed<String> {
    rfc3339(text).ok_or_else(|| malformed(format!("{member} is no time")))
}

fn object(text: Option<&str>) -> Parsed<Value> {
    if text.is_some_and(has_long_integer) {
        return Err(malformed("metadata has an integer of more than 64 bits; write it as a string"));
    }
    match text.map_or(Ok(Tree(Value::Object(Map::new()))), serde_json::from_str) {
        Ok(Tree(value @ Value::Object(_))) => Ok(value),
        _ => Err(malformed("metadata is no JSON object")),
    }
}

/// Importance is a whole number of 0 to 10; any other stays in the metadata.
fn importance(number: Option<f64>, metadata: &mut Value) -> Option<i64> {
    let number = number?;
    if (0.0..=10.0).contains(&number) && number.fract() == 0.0 {
        #[allow(clippy::cast_possible_truncation, reason = "0 to 10")]
        return Some(number as i64);
    }
    if let Some(members) = metadata.as_object_mut() {
        members.entry("importance").or_insert_with(|| Value::from(number));
    }
    None
}

fn session(mut cells: Cells<'_, '_>) -> Parsed<Session> {
    Ok(Session {
        id: id(cells.text()?)?,
        created_at: time("created_at", &cells.text()?)?,
        last_accessed: time("last_accessed", &cells.text()?)?,
        metadata: object(Some(&cells.text()?))?,
    })
}

fn used(mut cells: Cells<'_, '_>) -> Parsed<Use> {
    Ok(Use {
        session: id(cells.text()?)?,
        agent: cells.text()?,
        first: time("first_used", &cells.text()?)?,
        last: time("last_used", &cells.text()?)?,
    })
}

/// Its leading columns, which two of the layouts share.
fn begun(cells: &mut Cells<'_, '_>) -> Parsed<Entry> {
    Ok(Entry {
        id: id(cells.text()?)?,
        session: id(cells.text()?)?,
        agent: cells.text()?,
        kind: cells.text()?,
        title: cells.text()?,
        content: cells.text()?,
        ..Entry::default()
    })
}

fn entry(mut cells: Cells<'_, '_>) -> Parsed<Entry> {
    let mut entry = begun(&mut cells)?;
    // The hash is recomputed.
    cells.maybe_text()?;
    entry.metadata = object(Some(&cells.text()?))?;
    entry.tags = tags_of(cells.maybe_text()?.as_deref())?;
    entry.importance = importance(cells.maybe_real()?, &mut entry.metadata);
    entry.created_at = time("created_at", &cells.text()?)?;
    entry.accessed_at = time("accessed_at", &cells.text()?)?;
    let expires = cells.maybe_text()?;
    // Stored without an end, an entry that has expired would come back.
    let unclear = || {
        malformed(format!(
            "{}: expires_at is no time, so it may have expired; correct it in the file, or set it to NULL, and migrate again",
            entry.id
        ))
    };
    entry.expires = expires.map(|text| expiry(&text).ok_or_else(unclear)).transpose()?;
    entry.parent = cells.maybe_text()?;
    Ok(entry)
}

fn tags_of(text: Option<&str>) -> Parsed<Vec<String>> {
    text.map_or(Ok(Vec::new()), serde_json::from_str)
        .map_err(|_| malformed("tags are no JSON array of texts"))
}

type Tables = (Rows<Session>, Rows<Use>, Rows<Entry>);

/// A file with only `memories`: its sessions are derived from them.
fn memories(reader: &mut Reader<'_>) -> Result<Tables> {
    let entries = reader.read("memories", MEMORIES_COLUMNS, |mut cells| {
        let mut entry = begun(&mut cells)?;
        entry.metadata = object(Some(&cells.text()?))?;
        let time = |number: f64| seconds(number).ok_or_else(|| malformed("a time out of range"));
        entry.created_at = time(cells.real()?)?;
        entry.accessed_at = time(cells.real()?)?;
        entry.tags = tags_of(Some(&cells.text()?))?;
        entry.importance = importance(cells.maybe_real()?, &mut entry.metadata);
        Ok(entry)
    })?;
    let mut spans: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let mut used: BTreeMap<(&str, &str), (&str, &str)> = BTreeMap::new();
    for entry in &entries.taken {
        let (at, last) = (entry.created_at.as_str(), entry.accessed_at.as_str());
        for span in [
            spans.entry(&entry.session).or_insert((at, last)),
            used.entry((&entry.session, &entry.agent)).or_insert((at, last)),
        ] {
            *span = (span.0.min(at), span.1.max(last));
        }
    }
    let session = |(id, (first, last)): (&&str, &(&str, &str))| Session {
        id: (*id).to_owned(),
        created_at: (*first).to_owned(),
        last_accessed: (*last).to_owned(),
        metadata: Value::Object(Map::new()),
    };
    let of_agent = |((session, agent), (first, last)): (&(&str, &str), &(&str, &str))| Use {
        session: (*session).to_owned(),
        agent: (*agent).to_owned(),
        first: (*first).to_owned(),
        last: (*last).to_owned(),
    };
    let sessions = Rows { table: None, rows: 0, taken: spans.iter().map(session).collect() };
    let uses = Rows { table: None, rows: 0, taken: used.iter().map(of_agent).collect() };
    Ok((sessions, uses, entries))
}

/// Keys and values: the key becomes the title, the value the content.
fn key_value(reader: &mut Reader<'_>) -> Result<Tables> {
    let mut owners: BTreeMap<String, String> = BTreeMap::new();
    let both = reader.read("agent_sessions", KV_SESSION_COLUMNS, |mut cells| {
        let (own, agent) = (id(cells.text()?)?, cells.text()?);
        Reader::agent(None, &agent, &own)?;
        let created_at = time("created_at", &cells.text()?)?;
        let last_accessed = time("last_accessed", &cells.text()?)?;
        let metadata = object(cells.maybe_text()?.as_deref())?;
        Ok((Session { id: own, created_at, last_accessed, metadata }, agent))
    })?;
    let (mut sessions, mut uses) = (Vec::new(), Vec::new());
    for (session, agent) in both.taken {
        uses.push(Use {
            session: session.id.clone(),
            agent: agent.clone(),
            first: session.created_at.clone(),
            last: session.last_accessed.clone(),
        });
        owners.insert(session.id.clone(), agent);
        sessions.push(session);
    }
    let entries = reader.read("agent_memories", KV_COLUMNS, |mut cells| {
        let number = cells.int()?;
        let session = id(cells.text()?)?;
        let Some(agent) = owners.get(&session).cloned() else {
            return Err(Fault(Why::Orphan, "its session is not there".to_owned()));
        };
        let (title, content) = (cells.text()?, cells.text()?);
        // Files of several projects may use the same sessions and numbers.
        let id = format!(
            "kv-{}",
            content_hash(&[&session, &number.to_string(), &title, &content].map(String::as_str).join("\0"))
        );
        let mut entry = Entry { id, session, agent, title, content, ..Entry::default() };
        entry.kind = cells.maybe_text()?.unwrap_or_else(|| "markdown".to_owned());
        entry.created_at = time("created_at", &cells.text()?)?;
        entry.accessed_at.clone_from(&entry.created_at);
        let count = cells.maybe_int()?.unwrap_or(0);
        entry.metadata = serde_json::json!({ "accessed_count": count });
        Ok(entry)
    })?;
    let sessions = Rows { table: both.table, rows: both.rows, taken: sessions };
    Ok((sessions, Rows { table: None, rows: 0, taken: uses }, entries))
}
