//! The operations that read entries.

use std::collections::HashMap;
use std::sync::OnceLock;

use memory_core::access::{AccessCounts, Look};
use memory_core::limits::MAX_PAGE_BYTES;
use memory_core::scope::{successor, upper_bound};
use memory_core::{Cursor, Entry, GetOptions, Key, ListQuery, Page, Result, Scope, ScopeDigest, Timestamp};
use rusqlite::types::ValueRef;
use rusqlite::{Connection, OptionalExtension as _, Row, params};

use super::row::{self, Sql, StoredEntry};
use crate::commit::background::Signal;
use crate::commit::readers::{Allowance, Step};
use crate::error::{Unreadable, malformed};
use crate::file::column::unsigned;

/// Most bytes read on the caller's thread in one operation.
pub(crate) const INLINE_BYTES: usize = 64 << 10;
/// Most entries read on the caller's thread in one operation.
pub(crate) const INLINE_ENTRIES: usize = 256;

/// An entry, and the space its access count belongs to.
#[derive(Clone, Debug)]
pub(crate) struct Got {
    pub(crate) space: i64,
    pub(crate) stored: StoredEntry,
}

/// Columns of an entry without its body, and the body's id.
const SHORT: &str = "SELECT e.key, e.version, e.born, e.created_at, e.updated_at, e.expires_at, e.accesses, e.source, \
     e.metadata, e.text, e.value, e.body, e.size, e.space FROM entry e ";
const BODY: usize = 11;
const SIZE: usize = 12;
const SPACE: usize = 13;

impl Got {
    /// The entry with its access count; this access counts from the next read on.
    pub(crate) fn entry(self, counts: &mut Look<'_>, options: GetOptions, signal: &Signal) -> Entry {
        let Self { space, stored: StoredEntry { mut entry, born } } = self;
        let key = entry.key.as_str();
        if options.count_access {
            let (before, full) = counts.access(space, key, born, entry.access_count);
            entry.access_count = before;
            if full {
                signal.accesses();
            }
        } else {
            entry.access_count = counts.total(space, key, born, entry.access_count);
        }
        entry
    }
}

/// A statement over [`SHORT`].
struct Short(OnceLock<String>, &'static str);

impl Short {
    const fn new(condition: &'static str) -> Self {
        Self(OnceLock::new(), condition)
    }

    fn get(&self) -> &str {
        self.0.get_or_init(|| format!("{SHORT}{}", self.1))
    }
}

static GET: Short = Short::new(
    "WHERE e.space = (SELECT space FROM scope WHERE digest = ?1) AND e.key = ?2 \
     AND (e.expires_at IS NULL OR e.expires_at > ?3)",
);

static GET_OF_SPACE: Short =
    Short::new("WHERE e.space = ?1 AND e.key = ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3)");

/// All of a long entry, in one statement and therefore one snapshot.
static GET_WHOLE: Sql = Sql::new(
    "SELECT {columns}, s.space FROM scope s CROSS JOIN entry e ON e.space = s.space LEFT JOIN body b ON b.id = e.body \
     WHERE s.digest = ?1 AND e.key = ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3)",
);

pub(crate) fn get(
    connection: &Connection,
    digest: &ScopeDigest,
    key: &str,
    now: Timestamp,
    allowance: Allowance,
) -> Result<Step<Option<Got>>, Unreadable> {
    {
        let mut short = connection.prepare_cached(GET.get())?;
        let mut rows = short.query(params![digest.as_bytes(), key, now.as_millis()])?;
        let Some(row) = rows.next()? else { return Ok(Step::Done(None)) };
        if row.get_ref(BODY)? == ValueRef::Null {
            return Ok(Step::Done(Some(Got { space: row.get(SPACE)?, stored: row::read(row)? })));
        }
        if allowance == Allowance::Inline && unsigned(row.get(SIZE)?, "size")? > INLINE_BYTES as u64 {
            return Ok(Step::TooMuch);
        }
    }
    let mut whole = connection.prepare_cached(GET_WHOLE.get())?;
    let mut rows = whole.query(params![digest.as_bytes(), key, now.as_millis()])?;
    let Some(row) = rows.next()? else { return Ok(Step::Done(None)) };
    Ok(Step::Done(Some(Got { space: row.get(11)?, stored: row::read(row)? })))
}

/// Reads many keys in one snapshot.
pub(crate) fn get_many(
    connection: &Connection,
    digest: &ScopeDigest,
    keys: &[Key],
    now: Timestamp,
    allowance: Allowance,
) -> Result<Step<Vec<Option<Got>>>, Unreadable> {
    let snapshot = connection.unchecked_transaction()?;
    let space: Option<i64> = snapshot
        .prepare_cached("SELECT space FROM scope WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    let Some(space) = space else { return Ok(Step::Done(keys.iter().map(|_| None).collect())) };
    let mut found = Vec::with_capacity(keys.len());
    let mut budget = Budget::new(allowance);
    let mut statement = snapshot.prepare_cached(GET_OF_SPACE.get())?;
    let mut places: HashMap<&str, usize> = HashMap::new();
    for key in keys {
        // A repeated key gives the same answer, held in memory only once. For few keys the look-up costs more than it
        // saves.
        if keys.len() > INLINE_ENTRIES
            && let Some(place) = places.insert(key.as_str(), found.len())
        {
            found.push(found.get(place).cloned().flatten());
            continue;
        }
        let mut rows = statement.query(params![space, key.as_str(), now.as_millis()])?;
        let got = match rows.next()? {
            None => None,
            Some(row) => {
                if !budget.take(row)? {
                    return Ok(Step::TooMuch);
                }
                Some(Got { space, stored: read_whole(&snapshot, row)? })
            }
        };
        found.push(got);
    }
    Ok(Step::Done(found))
}

/// Reads a row of [`SHORT`], and its body if it has one.
fn read_whole(snapshot: &Connection, row: &Row<'_>) -> Result<StoredEntry, Unreadable> {
    let Some(body) = row.get::<_, Option<i64>>(BODY)? else { return row::read(row) };
    let mut statement = snapshot.prepare_cached("SELECT metadata, text, value FROM body WHERE id = ?1")?;
    let mut rows = statement.query([body])?;
    let body = rows.next()?.ok_or_else(|| malformed("value"))?;
    row::read_with_body(row, body)
}

/// How much the caller's thread may still read.
struct Budget(Option<u64>);

impl Budget {
    fn new(allowance: Allowance) -> Self {
        Self((allowance == Allowance::Inline).then_some(4 * INLINE_BYTES as u64))
    }

    /// Charges a row of [`SHORT`]; false if it exceeds the budget.
    fn take(&mut self, row: &Row<'_>) -> Result<bool, Unreadable> {
        let Some(left) = &mut self.0 else { return Ok(true) };
        match left.checked_sub(unsigned(row.get(SIZE)?, "size")?) {
            Some(rest) => {
                *left = rest;
                Ok(true)
            }
            None => Ok(false),
        }
    }
}

static LIST: Short = Short::new(
    "WHERE e.space = ?1 AND e.key >= ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3) ORDER BY e.key",
);

static LIST_PREFIX: Short = Short::new(
    "WHERE e.space = ?1 AND e.key >= ?2 AND e.key < ?4 AND (e.expires_at IS NULL OR e.expires_at > ?3) ORDER BY e.key",
);

/// Lists one page, without the access counts still in memory.
pub(crate) fn list(
    connection: &Connection,
    scope: &Scope,
    digest: &ScopeDigest,
    query: &ListQuery,
    now: Timestamp,
    allowance: Allowance,
) -> Result<Step<Listed>, Unreadable> {
    let lower = match &query.cursor {
        Some(cursor) => successor(cursor.key(scope, &query.prefix)?.as_str()),
        None => query.prefix.clone(),
    };
    let upper = upper_bound(&query.prefix);
    let snapshot = connection.unchecked_transaction()?;
    let room = query.limit.min(INLINE_ENTRIES);
    let (entries, born) = (Vec::with_capacity(room), Vec::with_capacity(room));
    let mut listed = Listed { space: 0, entries, born, next: None };
    let space: Option<i64> = snapshot
        .prepare_cached("SELECT space FROM scope WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    let Some(space) = space else { return Ok(Step::Done(listed)) };
    listed.space = space;
    let mut statement =
        snapshot.prepare_cached(if upper.is_some() { LIST_PREFIX.get() } else { LIST.get() })?;
    let mut rows = match &upper {
        Some(upper) => statement.query(params![space, lower, now.as_millis(), upper])?,
        None => statement.query(params![space, lower, now.as_millis()])?,
    };
    let mut budget = Budget::new(allowance);
    let (mut bytes, mut looked_at) = (0, 0);
    while let Some(row) = rows.next()? {
        looked_at += 1;
        if allowance == Allowance::Inline && looked_at > INLINE_ENTRIES || !budget.take(row)? {
            return Ok(Step::TooMuch);
        }
        let full = listed.entries.len() >= query.limit || bytes >= MAX_PAGE_BYTES as u64;
        if full && query.filter.is_none() {
            listed.end(scope, &query.prefix);
            break;
        }
        let stored = read_whole(&snapshot, row)?;
        if query.filter.as_ref().is_some_and(|filter| !filter.matches(&stored.entry)) {
            continue;
        }
        if full {
            listed.end(scope, &query.prefix);
            break;
        }
        bytes += stored.entry.size_bytes();
        listed.entries.push(stored.entry);
        listed.born.push(stored.born);
    }
    Ok(Step::Done(listed))
}

/// A page as stored.
#[derive(Debug)]
pub(crate) struct Listed {
    space: i64,
    entries: Vec<Entry>,
    /// One per entry; see [`StoredEntry`].
    born: Vec<i64>,
    next: Option<Cursor>,
}

impl Listed {
    /// Ends the page before the end of the list.
    fn end(&mut self, scope: &Scope, prefix: &str) {
        self.next = self.entries.last().map(|last| Cursor::after_key(scope, prefix, &last.key));
    }

    /// The page, with the current access counts.
    pub(crate) fn page(mut self, accesses: &AccessCounts) -> Page {
        let look = accesses.look();
        let counts = look.space(self.space);
        for (entry, born) in self.entries.iter_mut().zip(self.born) {
            entry.access_count = counts.total(entry.key.as_str(), born, entry.access_count);
        }
        Page::new(self.entries, self.next)
    }
}

static RANGE: Short = Short::new(
    "WHERE e.space = ?1 AND e.key >= ?2 AND e.key < ?4 AND (e.expires_at IS NULL OR e.expires_at > ?3) ORDER BY e.key",
);

/// Entries in a range of keys.
#[derive(Debug, Default)]
pub(crate) struct Ranged {
    pub(crate) space: i64,
    pub(crate) entries: Vec<StoredEntry>,
    /// Whether there are more after the last.
    pub(crate) more: bool,
}

/// Live entries in a range of keys, in key order, limited in number and (approximately) in bytes.
pub(crate) fn range(
    connection: &Connection,
    digest: &ScopeDigest,
    from: &str,
    to: Option<&str>,
    now: Timestamp,
    limit: usize,
    bytes: u64,
) -> Result<Ranged, Unreadable> {
    let space: Option<i64> = connection
        .prepare_cached("SELECT space FROM scope WHERE digest = ?1")?
        .query_row([digest.as_bytes()], |row| row.get(0))
        .optional()?;
    let Some(space) = space else { return Ok(Ranged::default()) };
    let mut ranged = Ranged { space, ..Ranged::default() };
    let mut statement = connection.prepare_cached(if to.is_some() { RANGE.get() } else { LIST.get() })?;
    let mut rows = match to {
        Some(to) => statement.query(params![space, from, now.as_millis(), to])?,
        None => statement.query(params![space, from, now.as_millis()])?,
    };
    let mut held = 0;
    while let Some(row) = rows.next()? {
        if ranged.entries.len() >= limit || held >= bytes {
            ranged.more = true;
            break;
        }
        let stored = read_whole(connection, row)?;
        held += stored.entry.size_bytes();
        ranged.entries.push(stored);
    }
    Ok(ranged)
}
