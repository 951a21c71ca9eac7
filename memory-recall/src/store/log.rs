//! Reading and writing the log of one scope.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use memory_core::backend::NewEntry;
use memory_core::{
    Backend, BulkOptions, Capabilities, Cursor, DriftChange, DriftCheck, Embed, Entry, Error, ErrorKind,
    Expect, GetOptions, Json, Key, ListQuery, Metadata, Quota, Result, Retry, Scope, SetOptions, Source, Ttl,
};

use super::keys;
use super::progress::Progress;
use super::record::{self, Head, Record};

/// How often to retry a change because another writer was first.
pub(crate) const ATTEMPTS: usize = 64;
/// Records read at once.
pub(crate) const PAGE: usize = 1_000;
/// Most changes in one record, which replaces the previous one.
const MOST_TOLD: usize = 1_000;
/// How many bytes a turn may grow by when it is confirmed and superseded.
pub(crate) const ROOM: usize = 256;
/// For an entry that holds nothing any more, so that it goes away on its own.
pub(crate) const SOON: Ttl = Ttl::After(Duration::from_millis(1));

/// The conversation of a scope in a backend.
#[derive(Debug)]
pub(crate) struct Log<'a> {
    pub(crate) backend: &'a dyn Backend,
    pub(crate) scope: &'a Scope,
    /// What its writes require of the drift guard.
    check: DriftCheck,
    max_value_bytes: usize,
    /// How they changed the scope's token.
    changes: Mutex<Vec<DriftChange>>,
}

/// The head as read, with its version; neither exists before the first turn.
#[derive(Clone, Debug, Default)]
pub(crate) struct SeenHead {
    pub(crate) version: Option<u64>,
    pub(crate) head: Option<Head>,
}

impl SeenHead {
    /// The number of the next record.
    pub(crate) fn next(&self) -> u64 {
        self.head.as_ref().map_or(0, |head| head.next)
    }

    /// The head that follows this one; the first begins an epoch.
    pub(crate) fn then(&self, next: u64, epoch: impl FnOnce() -> String) -> Head {
        match &self.head {
            Some(head) => Head { next, ..head.clone() },
            None => Head { epoch: epoch(), next, forgot: None, confirmed: None },
        }
    }

    /// The write that moves the head, provided that nobody has since it was read.
    pub(crate) fn moved_to(&self, head: &Head) -> Result<NewEntry> {
        let expect = self.version.map_or(Expect::Absent, Expect::Version);
        item(keys::head()?, record::written(head)?, expect, Ttl::Never)
    }
}

impl Head {
    /// The write of the next record.
    pub(crate) fn append(&mut self, record: &Record) -> Result<NewEntry> {
        let appended = item(keys::log(self.next)?, record::written(record)?, Expect::Absent, Ttl::Never)?;
        self.next = self.next.saturating_add(1);
        Ok(appended)
    }
}

impl Progress {
    /// The write, provided that nobody has written since `version`.
    pub(crate) fn written(&self, version: Option<u64>) -> Result<NewEntry> {
        let expect = version.map_or(Expect::Absent, Expect::Version);
        item(keys::extract()?, record::written(self)?, expect, Ttl::Never)
    }
}

impl<'a> Log<'a> {
    pub(crate) fn new(backend: &'a dyn Backend, scope: &'a Scope) -> Self {
        Self {
            backend,
            scope,
            check: DriftCheck::Off,
            max_value_bytes: usize::MAX,
            changes: Mutex::default(),
        }
    }

    /// Knows how large an entry may be.
    pub(crate) fn within(mut self, max_value_bytes: usize) -> Self {
        self.max_value_bytes = max_value_bytes;
        self
    }

    /// Learns the store's limits, and records how its writes change the scope's token if the backend has tokens.
    pub(crate) fn observing(mut self, capabilities: &Capabilities) -> Self {
        self.max_value_bytes = capabilities.max_value_bytes;
        if !capabilities.drift.is_empty() {
            self.check = DriftCheck::Observe;
        }
        self
    }

    /// How its writes changed the scope's token.
    pub(crate) fn changes(self) -> Vec<DriftChange> {
        self.changes.into_inner().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a new turn fits into an entry, with room for later changes. The backend behind the layer does not check
    /// its input; what is too large could not be restored.
    pub(crate) fn check_size(&self, turn: &NewEntry) -> Result<()> {
        let (bytes, most) = (turn.value.len_bytes(), self.max_value_bytes.saturating_sub(ROOM));
        if bytes > most {
            return Err(Error::too_large("message as JSON", bytes, most, "bytes"));
        }
        Ok(())
    }

    fn changed(&self, change: Option<DriftChange>) {
        self.changes.lock().unwrap_or_else(PoisonError::into_inner).extend(change);
    }

    pub(crate) async fn head(&self) -> Result<SeenHead> {
        let entry = self.backend.get(self.scope, &keys::head()?, GetOptions::uncounted()).await?;
        let head = entry.as_ref().map(record::read).transpose()?;
        Ok(SeenHead { version: entry.map(|entry| entry.version), head })
    }

    /// Entries by key, in the order of the keys.
    pub(crate) async fn entries(&self, keys: &[Key]) -> Result<Vec<Option<Entry>>> {
        let mut entries = Vec::with_capacity(keys.len());
        for chunk in keys.chunks(memory_core::limits::MAX_GET_MANY) {
            entries.extend(self.backend.get_many(self.scope, chunk, GetOptions::uncounted()).await?);
        }
        Ok(entries)
    }

    /// The progress of extraction, with the entry's version; `None` if it never began.
    pub(crate) async fn progress(&self) -> Result<Option<(u64, Progress)>> {
        let entry = self.backend.get(self.scope, &keys::extract()?, GetOptions::uncounted()).await?;
        entry.map(|entry| Ok((entry.version, record::read(&entry)?))).transpose()
    }

    /// A page of records from this number on.
    pub(crate) async fn page(&self, from: u64, limit: usize) -> Result<Vec<Entry>> {
        let mut query = ListQuery::prefix(keys::LOG_PREFIX).with_limit(limit);
        query.cursor = match from.checked_sub(1) {
            Some(last) => Some(Cursor::after_key(self.scope, keys::LOG_PREFIX, &keys::log(last)?)),
            None => None,
        };
        Ok(self.backend.list(self.scope, query).await?.entries)
    }

    /// Writes all or none. `None` if another writer was first, possibly with the same content, which a backend accepts
    /// as done.
    pub(crate) async fn write(&self, mut items: Vec<NewEntry>, quota: Quota) -> Result<Option<()>> {
        let mut seen = BTreeSet::new();
        // The second would look like another writer's, just like a failed condition.
        if let Some(twice) = items.iter().find(|item| !seen.insert(&item.key)) {
            return Err(Error::internal(format!("the record `{}` is written twice", twice.key)));
        }
        items.iter_mut().for_each(|item| item.options.drift = self.check);
        match self.backend.bulk_insert(self.scope, items, BulkOptions::default().with_quota(quota)).await {
            Ok(outcomes) => {
                outcomes.iter().for_each(|outcome| self.changed(outcome.drift));
                Ok(outcomes.iter().all(|outcome| outcome.written).then_some(()))
            }
            Err(error) if error.kind() == ErrorKind::Conflict => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The writes that tell readers that these records are gone: one record for all since the epoch began, which
    /// replaces the previous one. If there are too many, the head begins an epoch instead.
    pub(crate) async fn forgot(
        &self,
        mut numbers: Vec<u64>,
        head: &mut Head,
        epoch: impl FnOnce() -> String,
    ) -> Result<Vec<NewEntry>> {
        let mut items = Vec::new();
        if let Some((entry, Record::Forgot(told))) = self.told(head.forgot.take()).await? {
            numbers.extend(told);
            items.push(gone(&entry)?);
        }
        if numbers.len() > MOST_TOLD {
            head.epoch = epoch();
        } else {
            head.forgot = Some(head.next);
            items.push(head.append(&Record::Forgot(numbers))?);
        }
        Ok(items)
    }

    /// The writes that tell readers when turns were confirmed. One record covers everything since the last correction,
    /// which orders them: what is confirmed after it holds again.
    pub(crate) async fn confirmed(&self, pairs: Vec<(u64, i64)>, head: &mut Head) -> Result<Vec<NewEntry>> {
        let mut items = Vec::new();
        if pairs.is_empty() {
            return Ok(items);
        }
        let mut all: BTreeMap<u64, i64> = BTreeMap::new();
        if let Some((entry, Record::Confirmed(told))) = self.told(head.confirmed).await?
            && told.len() < MOST_TOLD
        {
            all.extend(told);
            items.push(gone(&entry)?);
        }
        all.extend(pairs);
        head.confirmed = Some(head.next);
        items.push(head.append(&Record::Confirmed(all.into_iter().collect()))?);
        Ok(items)
    }

    async fn told(&self, number: Option<u64>) -> Result<Option<(Entry, Record)>> {
        let Some(number) = number else { return Ok(None) };
        let entry = self.entries(&[keys::log(number)?]).await?.pop().flatten();
        entry.map(|entry| record::read(&entry).map(|record| (entry, record))).transpose()
    }

    /// Moves the head past every record of the log, and begins an epoch: for a log that was not put together by us, as
    /// after an import over another conversation.
    pub(crate) async fn repair(&self, seen: &SeenHead, epoch: String) -> Result<()> {
        let mut next = seen.next();
        loop {
            let page = self.page(next, PAGE).await?;
            let Some(last) = page.last() else { break };
            next = keys::number(&last.key)?.saturating_add(1);
        }
        let head = Head { epoch, ..seen.then(next, String::new) };
        self.write(vec![seen.moved_to(&head)?], Quota::default()).await.map(drop)
    }
}

/// A write of one of our entries. It is found by words only if given some, and never by the backend's vectors.
pub(crate) fn item(key: Key, value: Json, expect: Expect, ttl: Ttl) -> Result<NewEntry> {
    let mut entry = NewEntry::new(key, value);
    entry.options =
        SetOptions::default().with_text("").with_expect(expect).with_ttl(ttl).with_embed(Embed::Never);
    entry.options.source = Some(Source::new(keys::SOURCE)?);
    Ok(entry)
}

/// The write that clears a record, provided that nobody has changed it since.
pub(crate) fn gone(entry: &Entry) -> Result<NewEntry> {
    item(entry.key.clone(), record::written(&Record::Gone)?, Expect::Version(entry.version), SOON)
}

/// The write of a turn.
pub(crate) fn turn_item(
    number: u64,
    turn: super::record::StoredTurn,
    metadata: Metadata,
    expect: Expect,
    ttl: Ttl,
) -> Result<NewEntry> {
    let text = turn.search_text();
    let value = record::written(&record::Record::Turn(Box::new(turn)))?;
    let mut entry = item(keys::log(number)?, value, expect, ttl)?;
    entry.options.metadata = metadata;
    entry.options.text = Some(cut(text, memory_core::limits::MAX_TEXT_BYTES));
    Ok(entry)
}

/// At most `most` bytes of a text.
pub(crate) fn cut(mut text: String, most: usize) -> String {
    let end = (0..=most.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    text
}

/// Too many others wrote at the same time.
pub(crate) fn contended() -> Error {
    Error::unavailable(
        "other writers changed this conversation at the same time, again and again; nothing was written: try again",
    )
    .with_retry(Retry::Now)
}
