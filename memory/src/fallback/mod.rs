//! A store that answers while another is unreachable: `fallback = "NAME"` in `memory.toml`.
//!
//! Each call goes to the primary. If it answers `unavailable` or `timeout` without having written anything, the
//! fallback is asked. It answers all reads, which the caller can detect ([`observe`]). It takes writes only with a
//! journal, from which they are replayed in order when the primary is back. `docs/spec/fallback.md` numbers the
//! behaviours.

mod both;
mod erase;
mod journal;
mod observe;
mod pair;
mod primary;
mod record;
mod replay;
mod request;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use memory_core::{Capabilities, Clock, Error, ErrorKind, Provider as _, Result, Retry};
use sha2::{Digest as _, Sha256};

pub use erase::erase_journaled;
pub use journal::{JournalCounts, JournalEntry, JournalState};
pub use observe::{fell_back, observe};

use crate::hex::hex;
use crate::memory::Memory;
use crate::system::SystemClock;
use crate::url::BackendUrl;
use both::both;
use journal::Journal;
use pair::{Pair, Stores};
use primary::{Primary, falls};

pub(crate) use primary::Opens;

/// How long to leave an unreachable primary alone, in milliseconds.
pub const DEFAULT_REST_MILLIS: u32 = 1_000;

/// How two stores are paired.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct FallbackOptions {
    /// The fallback's name, reported when it answers.
    pub name: String,
    /// The journal for writes to the fallback; `None` if it takes none.
    pub journal: Option<PathBuf>,
    /// Limit of queued writes: 1 to 10,000. Default 10,000.
    pub max_waiting: u64,
    /// How long to leave an unreachable primary alone while the fallback can answer. Default [`DEFAULT_REST_MILLIS`].
    pub rest_millis: u32,
    /// The source of "now".
    pub clock: Arc<dyn Clock>,
    /// Identifies this pair of stores, so that a journal is never replayed into a different pair.
    pub fingerprint: String,
}

impl FallbackOptions {
    /// A fallback of this name that takes no writes.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            fingerprint: name.clone(),
            name,
            journal: None,
            max_waiting: journal::MAX_RECORDS,
            rest_millis: DEFAULT_REST_MILLIS,
            clock: Arc::new(SystemClock),
        }
    }

    /// Lets the fallback take writes, recorded in this journal file.
    #[must_use]
    pub fn with_journal(mut self, file: impl Into<PathBuf>) -> Self {
        self.journal = Some(file.into());
        self
    }
}

/// Pairs two opened stores.
///
/// # Errors
/// `capability_unsupported` for a journal unless both have key/value and compare-and-set; those of opening the journal;
/// `invalid_argument` if the two have no capability in common.
pub fn pair(primary: Memory, fallback: Memory, options: FallbackOptions) -> Result<Memory> {
    paired(Ok(primary), None, fallback, options)
}

/// Like [`pair`], even if the primary could not be opened.
pub(crate) fn paired(
    primary: Result<Memory>,
    opener: Option<Box<dyn Opens>>,
    fallback: Memory,
    options: FallbackOptions,
) -> Result<Memory> {
    let primary = match primary {
        Ok(memory) => Some(memory),
        Err(error) if falls(&error) && opener.is_some() => None,
        Err(error) => return Err(error),
    };
    let of_fallback = fallback.capabilities();
    // The capabilities of a missing primary are unknown. Once it is there, it must serve at least these.
    let of_primary = primary.as_ref().map_or_else(|| of_fallback.clone(), Memory::capabilities);
    let capabilities = together(&of_primary, &of_fallback, &options.name)?;
    if options.journal.is_some() {
        replayable(&of_primary, primary.as_ref().map_or(fallback.name(), Memory::name))?;
        replayable(&of_fallback, fallback.name())?;
    }
    let journal = options.journal.as_deref().map(|path| journal_of(path, &options)).transpose()?;
    let same_model = |memory: &Memory| memory.embedding_model() == fallback.embedding_model();
    let model = fallback.embedding_model().filter(|_| primary.as_ref().is_none_or(same_model)).cloned();
    let name = primary.as_ref().map_or(fallback.name(), Memory::name).to_owned();
    let stores = Stores {
        label: options.name.clone(),
        primary: Primary::new(
            primary,
            opener,
            Arc::clone(&options.clock),
            options.rest_millis,
            (of_fallback, capabilities.clone()),
            journal.is_some(),
        ),
        fallback,
        journal,
        clock: options.clock,
        turn: futures_util::lock::Mutex::default(),
    };
    let memory = Memory::new(Arc::new(Pair::new(name, capabilities, stores)))?.with_fallback(options.name);
    Ok(match model {
        Some(model) => memory.with_embedding_model(model),
        None => memory,
    })
}

fn journal_of(path: &Path, options: &FallbackOptions) -> Result<Journal> {
    let mut journal = Journal::open(path, &options.fingerprint).map_err(journal::of_file(path))?;
    journal.limit(options.max_waiting);
    Ok(journal)
}

/// What a primary and the fallback of this name can do together.
pub(crate) fn together(primary: &Capabilities, fallback: &Capabilities, name: &str) -> Result<Capabilities> {
    let capabilities = both(primary, fallback);
    if capabilities.kv || capabilities.memory_layer || capabilities.sql {
        return Ok(capabilities);
    }
    Err(Error::invalid(format!("the fallback `{name}` serves nothing that the primary serves; name another")))
}

/// Replaying a write exactly once requires compare-and-set.
pub(crate) fn replayable(capabilities: &Capabilities, provider: &str) -> Result<()> {
    if capabilities.kv && capabilities.compare_and_set {
        return Ok(());
    }
    Err(Error::new(
        ErrorKind::Unsupported,
        format!(
            "provider `{provider}` does not serve key/value with compare-and-set, without which no journaled write can be \
             replayed exactly once; set `fallback_writes = \"refuse\"`"
        ),
    )
    .with_detail("provider", provider))
}

/// Identifies a pair of stores: their URLs, without users and passwords.
pub(crate) fn fingerprint(primary: &BackendUrl, fallback: &BackendUrl) -> String {
    let mut hash = Sha256::new();
    for url in [primary, fallback] {
        let rest = url.expose_rest();
        let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
        for part in [url.scheme(), rest] {
            hash.update(part.len().to_be_bytes());
            hash.update(part.as_bytes());
        }
    }
    hex(hash)
}

/// Counts the writes of an existing journal.
///
/// # Errors
/// `not_found`, `corrupt`, `unavailable`.
pub fn journal_counts(file: &Path) -> Result<JournalCounts> {
    Journal::existing(file).and_then(|journal| journal.counts()).map_err(journal::of_file(file))
}

/// The writes in an existing journal, in order, without values; at most `limit`.
///
/// # Errors
/// As [`journal_counts`].
pub fn journal_entries(file: &Path, limit: usize) -> Result<Vec<JournalEntry>> {
    Journal::existing(file).and_then(|journal| journal.entries(limit)).map_err(journal::of_file(file))
}

/// Drops the writes that were set aside in an existing journal; returns how many there were.
///
/// # Errors
/// As [`journal_counts`].
pub fn forget_set_aside(file: &Path) -> Result<usize> {
    let forget = || {
        let journal = Journal::existing(file)?;
        let _turn = journal.turn()?;
        journal.forget_set_aside()
    };
    forget().map_err(journal::of_file(file))
}

/// Refuses a journal that holds writes for a pair of stores other than the one with this fingerprint.
pub(crate) fn belongs(file: &Path, fingerprint: &str) -> Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    Journal::existing(file)
        .and_then(|journal| journal.belongs(fingerprint).map(drop))
        .map_err(journal::of_file(file))
}

/// Refuses to use a store on its own while a journal holds writes for it.
pub(crate) fn nothing_waits(file: &Path) -> Result<()> {
    if !file.is_file() {
        return Ok(());
    }
    match journal_counts(file)?.waiting {
        0 => Ok(()),
        waiting => Err(Error::new(
            ErrorKind::Conflict,
            format!(
                "{waiting} writes are queued for this store in {}, but `fallback_writes = \"journal\"` is no longer set; set it \
                 until none is left, or move the file away to give them up",
                file.display()
            ),
        )
        .with_retry(Retry::Never)),
    }
}
