//! Records of an export. They are stored unchanged; for conversations, only as far as nobody else adds to them
//! meanwhile.

use std::collections::BTreeSet;

use memory::system::SystemClock;
use memory_core::checked::check_record;
use memory_core::limits::MAX_PAGE;
use memory_core::{
    Clock as _, Entry, Error, ErrorKind, GetOptions, ImportOptions, Key, NameDigest, OnExisting,
    Provider as _, Record, Scope, Taken, Tombstone, TombstonesOf,
};

use super::Import;
use crate::import::{self, ConversationRecords, Found, Input, Place, RecordReader, Totals};
use crate::terminal::{Failure, printable};

/// Records per call: few, so that a broken one is reported while the file is still being read.
const RECORDS: usize = 500;
/// About how many bytes of values per call.
const RECORDS_BYTES: usize = 8 << 20;

impl Import<'_> {
    pub(super) async fn records(
        &mut self,
        input: &Input,
        records: &mut dyn RecordReader,
    ) -> Result<(), Failure> {
        let scope = self.fixed_scope()?;
        let backend = self.opened.backend("import_scope")?;
        let tombstones = self.tombstones(&scope).await?;
        let erased = tombstones.clone().unwrap_or_default();
        let adds = self.turns.is_some();
        let now = SystemClock.now();
        let mut conversation =
            ConversationRecords::new(backend, &scope, records.scope(), adds, tombstones, now);
        let failed = |error| Failure::File(format!("{} cannot be read", printable(&input.shown, "")), error);
        let (mut batch, mut bytes) = (Vec::with_capacity(RECORDS), 0);
        let mut keys = BTreeSet::new();
        while let Some(found) = records.next_record().map_err(failed)? {
            match found {
                Found::Record(place, record) => {
                    bytes += record.entry.value.len_bytes();
                    let taken = conversation.take(&input.shown, place, *record).await?;
                    // A repeated key must be compared with what its first record stored.
                    if taken.as_ref().is_some_and(|(_, record)| !keys.insert(record.entry.key.clone())) {
                        let on_existing = self.args.on_existing();
                        self.store_records(input, &scope, std::mem::take(&mut batch), &erased, on_existing)
                            .await?;
                    }
                    batch.extend(taken);
                }
                Found::Broken(place, why) => self.problem(input, place, &why),
            }
            if batch.len() >= RECORDS || conversation.waiting() >= RECORDS || bytes >= RECORDS_BYTES {
                bytes = 0;
                keys.clear();
                let on_existing = self.args.on_existing();
                self.store_records(input, &scope, std::mem::take(&mut batch), &erased, on_existing).await?;
                let ready = conversation.ready(&input.shown).await?;
                self.store_turns(input, &scope, ready, &erased, &mut conversation).await?;
            }
            self.show();
            if self.stop.is_asked() {
                break;
            }
        }
        self.store_records(input, &scope, batch, &erased, self.args.on_existing()).await?;
        let ready = conversation.ready(&input.shown).await?;
        self.store_turns(input, &scope, ready, &erased, &mut conversation).await?;
        if !self.stop.is_asked() {
            self.end_conversation(input, &scope, &erased, &mut conversation).await?;
        }
        conversation.left();
        if let Some(turns) = &mut self.turns
            && !self.stop.is_asked()
        {
            let moved = conversation.turns(turns).await?;
            turns.move_in(&input.shown, &moved).await?;
        }
        self.report.expired += conversation.expired;
        self.report.forgotten += conversation.forgotten;
        self.report.passed_over += conversation.passed_over;
        self.store.problems.extend(conversation.problems);
        Ok(())
    }

    /// Stores turns and digests of a conversation unchanged. Anything already there belongs to someone who is adding at
    /// the same time.
    async fn store_turns(
        &mut self,
        input: &Input,
        scope: &Scope,
        batch: Vec<(Place, Record)>,
        erased: &[Tombstone],
        conversation: &mut ConversationRecords<'_>,
    ) -> Result<(), Failure> {
        if self.store_records(input, scope, batch, erased, OnExisting::Skip).await? > 0 {
            conversation.give_up(&input.shown)?;
        }
        Ok(())
    }

    /// Stores the rest of a conversation unchanged, its head last.
    async fn end_conversation(
        &mut self,
        input: &Input,
        scope: &Scope,
        erased: &[Tombstone],
        conversation: &mut ConversationRecords<'_>,
    ) -> Result<(), Failure> {
        let (mut rest, head) = conversation.rest(&input.shown).await?;
        while !rest.is_empty() {
            let later = rest.split_off(RECORDS.min(rest.len()));
            let batch = std::mem::replace(&mut rest, later);
            self.store_turns(input, scope, batch, erased, conversation).await?;
        }
        match self.store_records(input, scope, head.into_iter().collect(), erased, OnExisting::Fail).await {
            Err(Failure::Error(error)) if error.kind() == ErrorKind::Conflict => {
                Ok(conversation.give_up(&input.shown)?)
            }
            stored => stored.map(drop),
        }
    }

    /// What was forgotten together with a whole scope or tenant; `None` if this caller may not know.
    async fn tombstones(&self, scope: &Scope) -> Result<Option<Vec<Tombstone>>, Failure> {
        if !self.opened.memory.capabilities().erase {
            return Ok(Some(Vec::new()));
        }
        let (mut all, mut after) = (Vec::new(), None);
        loop {
            let of = TombstonesOf::Scope(scope.clone());
            let page = match self.opened.memory.tombstones(&of, after.as_ref(), MAX_PAGE).await {
                Err(error) if matches!(error.kind(), ErrorKind::Forbidden | ErrorKind::ScopeDenied) => {
                    return Ok(None);
                }
                page => page?,
            };
            after = page.last().map(|tombstone| tombstone.id);
            let is_last = page.len() < MAX_PAGE;
            all.extend(page);
            if is_last {
                return Ok(Some(all));
            }
        }
    }

    /// Stores records unchanged. Returns how many were kept out by others under their keys.
    async fn store_records(
        &mut self,
        input: &Input,
        scope: &Scope,
        batch: Vec<(Place, Record)>,
        erased: &[Tombstone],
        on_existing: OnExisting,
    ) -> Result<u64, Failure> {
        let limits = self.opened.memory.capabilities();
        let most = limits.max_value_bytes;
        let fits = |(_, record): &(Place, Record)| record.entry.value.len_bytes() <= most;
        let (batch, too_large): (Vec<_>, Vec<_>) = batch.into_iter().partition(fits);
        for (place, record) in too_large {
            let error = Error::too_large("value", record.entry.value.len_bytes(), most, "bytes");
            self.problem(input, place, error.message());
        }
        if batch.is_empty() {
            return Ok(0);
        }
        let backend = self.opened.backend("import_scope")?;
        let replaces = on_existing == OnExisting::Replace;
        let (places, records): (Vec<Place>, Vec<Record>) = batch.into_iter().unzip();
        let mut stored = import::stored_records(backend, scope, &records).await?;
        // By then, the store would contain what is planned.
        if let Some(planned) = &self.store.planned {
            for (stored, record) in stored.iter_mut().zip(&records) {
                *stored &= planned.get(scope, &record.entry.key).is_none();
            }
        }
        let unchanged = stored.iter().filter(|stored| **stored).count() as u64;
        self.store.count(scope, &Totals { unchanged, ..Totals::default() });
        let batch = places.into_iter().zip(records).zip(stored);
        let (places, records): (Vec<Place>, Vec<Record>) =
            batch.filter(|(_, stored)| !stored).map(|(item, _)| item).unzip();
        if let Some(planned) = &mut self.store.planned {
            let now = SystemClock.now();
            let digest_of_scope = NameDigest::of_scope(scope);
            let is_erased = |entry: &Entry| {
                let covers = |key: NameDigest| key == NameDigest::of_key(&digest_of_scope, &entry.key);
                let mut of_it = erased.iter().filter(|tombstone| tombstone.id.key.is_none_or(covers));
                !self.args.again && of_it.any(|tombstone| tombstone.is_after(entry.updated_at))
            };
            let keys: Vec<Key> = records.iter().map(|record| record.entry.key.clone()).collect();
            let there = backend.get_many(scope, &keys, GetOptions::uncounted()).await?;
            let mut totals = Totals::default();
            for ((place, record), there) in places.iter().zip(&records).zip(there) {
                let entry = &record.entry;
                check_record(record, limits.max_key_bytes, most)
                    .map_err(|error| refused(input, place, error))?;
                let digest = import::digest_of_record(entry);
                match planned.get(scope, &entry.key) {
                    _ if entry.is_expired(now) => self.report.expired += 1,
                    _ if is_erased(entry) => self.report.forgotten += 1,
                    Some(planned) if planned == digest => totals.unchanged += 1,
                    None if there.is_none() => {
                        planned.put(scope, &entry.key, digest);
                        totals.created += 1;
                    }
                    _ if replaces => {
                        planned.put(scope, &entry.key, digest);
                        totals.replaced += 1;
                    }
                    _ if on_existing == OnExisting::Fail => {
                        let error = Error::new(ErrorKind::Conflict, "something else is stored under its key");
                        return Err(refused(input, place, error).into());
                    }
                    _ => totals.kept += 1,
                }
            }
            self.store.count(scope, &totals);
            return Ok(totals.kept);
        }
        let options = ImportOptions::default().with_on_existing(on_existing);
        // An export does not say when it was written, so tombstones are compared with each record's own time.
        let judged = self.opened.memory.capabilities().erase && !self.args.again;
        let options = if judged { options.with_taken(Taken::Undated) } else { options };
        let outcome = import::store_records(backend, scope, records, options).await.map_err(|error| {
            let index = error.details().get("index").and_then(serde_json::Value::as_u64);
            let place = index.and_then(|index| places.get(usize::try_from(index).ok()?));
            match place {
                Some(place) => refused(input, place, error),
                None => error,
            }
        })?;
        self.report.expired += outcome.expired;
        self.report.forgotten += outcome.forgotten;
        self.store.count(
            scope,
            &Totals {
                created: outcome.created,
                replaced: outcome.replaced,
                // Already counted, except if somebody else wrote in the meantime.
                unchanged: if replaces { outcome.skipped } else { 0 },
                kept: if replaces { 0 } else { outcome.skipped },
                // Records bring their own vectors; nothing is embedded.
                without_vector: 0,
            },
        );
        Ok(outcome.skipped)
    }
}

/// An error that ends the import at a record.
fn refused(input: &Input, place: &Place, error: Error) -> Error {
    let text = format!("{}, {place}: {error}; the records before it are stored", printable(&input.shown, ""));
    Error::new(error.kind(), text).with_source(error)
}
