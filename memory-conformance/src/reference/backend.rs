//! The facet: locks, delegates to the state, embeds afterwards.

mod reembed;

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use memory_core::embed::check_embeddings;
use memory_core::limits::MAX_PAGE_BYTES;
use memory_core::{
    Atomicity, Backend, BulkOptions, Cursor, DeleteOptions, DeleteOutcome, DriftState, DriftToken,
    DropOutcome, Embed, EmbedRole, Embedder, Embedding, EmbeddingModel, Entry, Error, ErrorKind, Expect,
    GetOptions, ImportOptions, ImportOutcome, IncrementOutcome, Json, Key, ListQuery, ModelStats, NewEntry,
    Op, Page, Quota, Record, RecordStream, RecordVector, Reducer, ReembedOptions, ReembedOutcome, Result,
    Scope, ScopeId, ScopeInfo, ScopeKind, ScopePage, ScopeStats, ScopesQuery, SearchMode, SearchQuery,
    SearchResults, SetOptions, SetOutcome, TenantId, Timestamp, UpdateOptions, UpdateOutcome,
};

use super::fault::{Fault, Viewer};
use super::search::{QueryVector, search};
use super::state::ScopeState;
use super::store::Reference;
use super::transfer;
use crate::stream;

impl Reference {
    fn read<T>(&self, scope: &Scope, read: impl FnOnce(&ScopeState, Timestamp) -> T) -> T {
        let scopes = self.lock();
        read(scopes.get(scope).unwrap_or(&ScopeState::new(self.faults)), self.clock.now())
    }

    fn write<T>(&self, scope: &Scope, write: impl FnOnce(&mut ScopeState, Timestamp) -> T) -> T {
        let mut scopes = self.lock();
        let state = scopes.entry(scope.clone()).or_insert_with(|| self.fresh(scope));
        let now = self.clock.now();
        state.used_at = now;
        write(state, now)
    }

    /// As [`Reference::write`], but refused in the scope of an ended run.
    fn write_entries<T>(
        &self,
        scope: &Scope,
        write: impl FnOnce(&mut ScopeState, Timestamp) -> Result<T>,
    ) -> Result<T> {
        let mut scopes = self.lock();
        let now = self.clock.now();
        if self.has_ended(scope, now) {
            return Err(Error::run_ended());
        }
        let state = scopes.entry(scope.clone()).or_insert_with(|| self.fresh(scope));
        (state.used_at, state.disk_bytes) = (now, self.disk_bytes);
        write(state, now)
    }

    /// Records a read as a use.
    fn record_read(&self, scope: &Scope) {
        if !self.faults.has(Fault::ReadsAreNoUse)
            && let Some(state) = self.lock().get_mut(scope)
        {
            state.used_at = self.clock.now();
        }
    }

    fn read_entries(
        &self,
        scope: &Scope,
        keys: &[Key],
        options: GetOptions,
        viewer: Viewer,
    ) -> Vec<Option<Entry>> {
        self.record_read(scope);
        let mut scopes = self.lock();
        let state = scopes.entry(scope.clone()).or_insert_with(|| ScopeState::new(self.faults));
        let now = self.clock.now();
        {
            let mut read = |key| {
                let entry = state.live(key, now, viewer).map(|stored| stored.entry.clone());
                if options.count_access {
                    state.count_access(key);
                }
                entry
            };
            keys.iter().map(&mut read).collect()
        }
    }

    /// All records or none, under one lock.
    async fn import_whole(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        let mut records = records;
        let mut all = Vec::new();
        while let Some(record) = stream::next(&mut records).await {
            all.push(record?);
        }
        self.write_entries(scope, |state, now| {
            let mut after = state.clone();
            if options.atomicity == Atomicity::Replacement {
                after.give_way(scope.kind);
            }
            if options.atomicity == Atomicity::Mirror {
                let keeps = |record: &&Record| {
                    !record.entry.is_expired(now) || self.faults.has(Fault::MirrorKeepsExpired)
                };
                let named: BTreeSet<Key> =
                    all.iter().filter(keeps).map(|record| record.entry.key.clone()).collect();
                let held = after.entries.len();
                after.entries.retain(|key, _| named.contains(key));
                if after.entries.len() < held {
                    after.changed();
                }
            }
            let mut outcome = ImportOutcome::default();
            for (index, record) in (0_u64..).zip(all) {
                if self.leaves_out(scope, &record, options) {
                    outcome.forgotten += 1;
                    continue;
                }
                transfer::import(&mut after, now, record, options, &mut outcome)
                    .map_err(|error| error.with_detail("index", index))?;
            }
            *state = after;
            Ok(outcome)
        })
    }

    /// Texts of other scopes; empty unless the store has that defect.
    fn foreign_texts(&self, scope: &Scope) -> Vec<String> {
        if !self.faults.has(Fault::StatisticsOfAllScopes) {
            return Vec::new();
        }
        let scopes = self.lock();
        let others = scopes.iter().filter(|(other, _)| *other != scope);
        others
            .flat_map(|(_, state)| state.entries.values())
            .map(|stored| stored.entry.search_text().into_owned())
            .collect()
    }

    fn check_expect(&self, expect: Expect, op: Op) -> Result<()> {
        self.require(expect == Expect::Any || self.capabilities.compare_and_set, op)
    }

    fn check_quota(&self, quota: Quota, op: Op) -> Result<()> {
        self.require(quota.is_unlimited() || self.capabilities.quotas, op)
    }

    /// Refuses permanent problems before anything is written.
    fn check_embed(&self, scope: &Scope, embed: Embed, op: Op) -> Result<()> {
        if embed == Embed::Always {
            self.embedder(op)?;
        }
        match &self.embedder {
            Some(embedder) if embed != Embed::Never => self.check_dimensions(scope, embedder.model(), op),
            _ => Ok(()),
        }
    }

    /// Refuses a model whose vectors differ in length from the stored ones.
    fn check_dimensions(&self, scope: &Scope, model: &EmbeddingModel, op: Op) -> Result<()> {
        if self.faults.has(Fault::DimensionUnchecked(op))
            || self.faults.has(Fault::DimensionCheckedLate) && op == Op::Set
        {
            return Ok(());
        }
        self.read(scope, |state, now| state.check_dimensions(now, model))
    }

    async fn embed_one(&self, embedder: &Arc<dyn Embedder>, text: &str, role: EmbedRole) -> Result<Vec<f32>> {
        let role = match role {
            EmbedRole::Query if self.faults.has(Fault::QueryAsDocument) => EmbedRole::Document,
            EmbedRole::Document if self.faults.has(Fault::DocumentAsQuery) => EmbedRole::Query,
            role => role,
        };
        let vectors = embedder.embed(&[text], role).await?;
        if !self.faults.has(Fault::RepliesUnchecked) {
            check_embeddings(embedder.model(), 1, &vectors)?;
        }
        vectors.into_iter().next().ok_or_else(|| Error::internal("the embedder's reply lost its vector"))
    }

    /// Embeds what a write stored, unless another write came in between.
    async fn embed_written(&self, scope: &Scope, key: &Key, version: u64, embed: Embed) -> Embedding {
        let Some(embedder) = self.embedder.as_ref().filter(|_| embed != Embed::Never) else {
            return Embedding::Skipped;
        };
        let text = self.read(scope, |state, now| {
            let stored =
                state.live(key, now, Viewer::Set).filter(|stored| stored.entry.version == version)?;
            Some(self.text_of(&stored.entry))
        });
        let Some(text) = text.filter(|text| self.has_meaning(text)) else { return Embedding::Skipped };
        match self.embed_one(embedder, &text, EmbedRole::Document).await {
            Err(error) => Embedding::Failed(error.message().to_owned()),
            Ok(vector) => self.write(scope, |state, _| match state.entries.get_mut(key) {
                Some(stored)
                    if stored.entry.version == version || self.faults.has(Fault::LateVectorLands) =>
                {
                    let model = embedder.model().clone();
                    stored.vectors = vec![RecordVector { model, vector, text: None }];
                    Embedding::Stored
                }
                _ => Embedding::Skipped,
            }),
        }
    }

    /// The text of an entry to embed.
    fn text_of(&self, entry: &Entry) -> String {
        if self.faults.has(Fault::EmbedsValue) {
            return entry.value.search_text(memory_core::limits::MAX_TEXT_BYTES);
        }
        entry.search_text().into_owned()
    }

    /// A blank text has no meaning to search for.
    fn has_meaning(&self, text: &str) -> bool {
        !text.trim().is_empty() || self.faults.has(Fault::EmbedsBlank)
    }
}

#[async_trait]
impl Backend for Reference {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        Ok(self
            .read_entries(scope, std::slice::from_ref(key), options, Viewer::Get)
            .into_iter()
            .next()
            .flatten())
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        Ok(self.read_entries(scope, keys, options, Viewer::GetMany))
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        self.check_expect(options.expect, Op::Set)?;
        self.check_quota(options.quota, Op::Set)?;
        self.check_embed(scope, options.embed, Op::Set)?;
        if let Some(embedder) = self.embedder.as_ref().filter(|_| self.faults.has(Fault::EmbedsRefusedWrites))
        {
            drop(self.embed_one(embedder, "too early", EmbedRole::Document).await);
        }
        let mut outcome = self.write_entries(scope, |state, now| state.set(now, key, value, &options))?;
        if self.faults.has(Fault::DimensionCheckedLate) {
            self.check_embed(scope, options.embed, Op::Update)?;
        }
        if outcome.written || self.faults.has(Fault::RetryEmbedsAgain) {
            outcome.embedding = self.embed_written(scope, key, outcome.version, options.embed).await;
        }
        Ok(outcome)
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        self.check_expect(options.expect, Op::Delete)?;
        self.write(scope, |state, now| state.delete(now, key, options))
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let after = query.cursor.as_ref().map(|cursor| cursor.key(scope, &query.prefix)).transpose()?;
        self.record_read(scope);
        Ok(self.read(scope, |state, now| {
            let mut matching = state
                .all_live(now, Viewer::List)
                .map(|stored| &stored.entry)
                .filter(|entry| after.as_ref().is_none_or(|after| entry.key > *after))
                .filter(|entry| entry.key.as_str().starts_with(&query.prefix))
                .filter(|entry| query.filter.as_ref().is_none_or(|filter| filter.matches(*entry)))
                .peekable();
            let mut entries = Vec::new();
            let mut bytes = 0;
            while entries.len() < query.limit && bytes < MAX_PAGE_BYTES {
                let Some(entry) = matching.next() else { break };
                bytes += entry.value.len_bytes()
                    + entry.metadata.size_bytes()
                    + entry.text.as_ref().map_or(0, String::len);
                entries.push(entry.clone());
            }
            let more = matching.peek().is_some();
            let next = entries
                .last()
                .filter(|_| more)
                .map(|last| Cursor::after_key(scope, &query.prefix, &last.key));
            Page::new(entries, next)
        }))
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        self.check_quota(options.quota, Op::Increment)?;
        self.check_embed(scope, Embed::Auto, Op::Increment)?;
        let outcome = self.write_entries(scope, |state, now| state.increment(now, key, delta, options))?;
        if !self.faults.has(Fault::NotEmbedded(Op::Increment)) {
            self.embed_written(scope, key, outcome.version, Embed::Auto).await;
        }
        Ok(outcome)
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        self.check_quota(options.quota, Op::Update)?;
        self.check_embed(scope, Embed::Auto, Op::Update)?;
        let max = self.capabilities.max_value_bytes;
        let mut outcome =
            self.write_entries(scope, |state, now| state.update(now, key, &reducer, options, max))?;
        if !self.faults.has(Fault::NotEmbedded(Op::Update)) {
            outcome.embedding = self.embed_written(scope, key, outcome.version, Embed::Auto).await;
        }
        Ok(outcome)
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        self.check_quota(options.quota, Op::BulkInsert)?;
        let mut looked = false;
        for (index, item) in items.iter().enumerate() {
            // Checked once: the scope's vectors are the same for all items.
            let embed =
                if looked && item.options.embed == Embed::Auto { Embed::Never } else { item.options.embed };
            self.check_expect(item.options.expect, Op::BulkInsert)
                .and_then(|()| self.check_embed(scope, embed, Op::BulkInsert))
                .map_err(|error| error.with_detail("index", index))?;
            looked |= embed != Embed::Never;
        }
        let mut outcomes = self.write_entries(scope, |state, now| state.bulk_insert(now, &items, options))?;
        let most = if self.faults.has(Fault::BulkEmbedsFirst) { 1 } else { items.len() };
        let written = outcomes.iter_mut().zip(&items).take(most).filter(|(outcome, _)| outcome.written);
        for (outcome, item) in written {
            outcome.embedding =
                self.embed_written(scope, &item.key, outcome.version, item.options.embed).await;
        }
        Ok(outcomes)
    }

    async fn search(&self, scope: &Scope, mut query: SearchQuery) -> Result<SearchResults> {
        if query.mode == SearchMode::Auto {
            query.mode = match (self.capabilities.vector_search, self.capabilities.lexical_search) {
                (true, true) => SearchMode::Hybrid,
                (true, false) => SearchMode::Vector,
                (false, _) => SearchMode::Lexical,
            };
        }
        let query_vector = if query.mode == SearchMode::Lexical {
            None
        } else {
            let embedder = self.embedder(Op::Search)?;
            self.check_dimensions(scope, embedder.model(), Op::Search)?;
            let vector = self.embed_one(embedder, &query.text, EmbedRole::Query).await?;
            Some(QueryVector { model: embedder.model().clone(), vector })
        };
        if query.mode != SearchMode::Vector {
            self.require(self.capabilities.lexical_search, Op::Search)?;
        }
        let foreign_texts = self.foreign_texts(scope);
        let model = self.embedder.as_ref().map(|embedder| embedder.model());
        Ok(self.write(scope, |state, now| {
            let results = search(state, now, &query, query_vector.as_ref(), model, &foreign_texts);
            let counts = !(state.faults.has(Fault::SearchDoesNotCount)
                || state.faults.has(Fault::VectorSearchDoesNotCount) && query.mode == SearchMode::Vector);
            for hit in results.hits.iter().filter(|_| counts) {
                state.count_access(&hit.entry.key);
            }
            results
        }))
    }

    async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
        self.require(self.capabilities.stats, Op::Stats)?;
        Ok(self.read(scope, |state, now| {
            let mut stats = ScopeStats::default();
            (stats.entries, stats.bytes) = state.usage(now, Viewer::Stats);
            let mut models: BTreeMap<EmbeddingModel, u64> = BTreeMap::new();
            let own = self.embedder.as_ref().map(|embedder| embedder.model());
            if let Some(own) = own.filter(|_| stats.entries > 0) {
                models.insert(own.clone(), 0);
            }
            let mut stale = 0;
            for stored in state.all_live(now, Viewer::Stats) {
                stats.expiring += u64::from(stored.entry.expires_at.is_some());
                for vector in &stored.vectors {
                    *models.entry(vector.model.clone()).or_default() += 1;
                }
                let is_own = stored.vectors.iter().any(|vector| Some(&vector.model) == own);
                stale += u64::from(!is_own && !stored.vectors.is_empty());
            }
            stats.models = models
                .into_iter()
                .map(|(model, rows)| {
                    let bytes = rows * 4 * model.dimensions as u64;
                    let is_own = Some(&model) == own;
                    let mut stats_of = ModelStats::new(model, rows, bytes);
                    stats_of.missing = stats.entries - rows;
                    stats_of.stale = if is_own { stale } else { 0 };
                    stats_of
                })
                .collect();
            stats
        }))
    }

    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
        let embedder = self.embedder(Op::Reembed)?;
        let model = embedder.model();
        if self.faults.has(Fault::ReembedRefusesOtherLength) {
            self.check_dimensions(scope, model, Op::Reembed)?;
        }
        let missing = self.without_vector(scope, model, &options.except);
        let mut outcome = ReembedOutcome::default();
        if self.faults.has(Fault::ReembedClearsFirst) && !options.dry_run {
            self.write(scope, |state, _| {
                state
                    .entries
                    .values_mut()
                    .for_each(|stored| stored.vectors.retain(|vector| vector.model == *model));
            });
        }
        for missing in &missing {
            let refused = if self.faults.has(Fault::RefusalsFillTheStep) { outcome.failed } else { 0 };
            if outcome.embedded + refused >= options.limit as u64 {
                break;
            }
            if options.dry_run && !self.faults.has(Fault::DryRunEmbeds) {
                outcome.embedded += 1;
                continue;
            }
            let text = self.text_to_embed(missing);
            match self.embed_one(embedder, text, EmbedRole::Document).await {
                Ok(_) if options.dry_run => outcome.embedded += 1,
                Ok(vector) => {
                    let text = missing.embedded_text.clone();
                    let vector = RecordVector { model: model.clone(), vector, text };
                    self.store_again(scope, &missing.key, missing.version, vector);
                    outcome.embedded += 1;
                }
                // The text is to blame, not the service: continue with the others.
                Err(error)
                    if matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge)
                        && !self.faults.has(Fault::ReembedEndsAtRefusal) =>
                {
                    outcome.failed += 1;
                }
                Err(error) => return Err(error),
            }
        }
        let done = if options.dry_run { 0 } else { outcome.embedded };
        outcome.remaining = (missing.len() as u64).saturating_sub(done);
        Ok(outcome)
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let after: Option<(ScopeKind, ScopeId)> =
            query.cursor.as_ref().map(|cursor| cursor.scope(tenant)).transpose()?;
        let now = self.clock.now();
        let scopes = self.lock();
        let start = match &after {
            Some((kind, id)) => Bound::Excluded(Scope::new(tenant.clone(), *kind, id.clone())),
            None => Bound::Unbounded,
        };
        let mut matching = scopes
            .range((start, Bound::Unbounded))
            .filter(|(scope, _)| scope.tenant == *tenant)
            .filter(|(scope, _)| query.kind.is_none_or(|kind| scope.kind == kind))
            .map(|(scope, state)| (scope, state.usage(now, Viewer::Scopes)))
            .filter(|(_, (entries, _))| *entries > 0)
            .map(|(scope, (entries, bytes))| ScopeInfo::new(scope.clone(), entries, bytes))
            .peekable();
        let page: Vec<ScopeInfo> = matching.by_ref().take(query.limit).collect();
        let more = matching.peek().is_some();
        let next = page
            .last()
            .filter(|_| more)
            .map(|last| Cursor::after_scope(tenant, last.scope.kind, &last.scope.id));
        Ok(ScopePage::new(page, next))
    }

    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        self.require(!self.capabilities.drift.is_empty(), Op::DriftState)?;
        let mut state = self.read(scope, |state, _| DriftState::new(state.token(), state.counter));
        if self.faults.has(Fault::DriftOfAllScopes) {
            let changes: u64 = self.lock().values().map(|state| state.generation).sum();
            state.token = DriftToken::new(state.token.database, changes, changes);
        }
        Ok(state)
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        Ok(self.write(scope, |state, now| {
            let (entries, _) = state.usage(now, Viewer::Drop);
            // Versions continue, so that none is reused.
            if !state.entries.is_empty() {
                state.changed();
            }
            state.entries.clear();
            if state.faults.has(Fault::VersionsEndWithDrop) {
                *state = ScopeState::new(state.faults);
            }
            DropOutcome::new(entries)
        }))
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        let records = self.read(scope, transfer::export);
        Ok(stream::records(records.into_iter().map(Ok).collect()))
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        mut records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        self.check_quota(options.quota, Op::ImportScope)?;
        if options.atomicity != Atomicity::Record {
            self.require(self.capabilities.atomic_import, Op::ImportScope)?;
            if !self.faults.has(Fault::ImportInSteps) {
                return self.import_whole(scope, records, options).await;
            }
        }
        let mut outcome = ImportOutcome::default();
        let mut index = 0_u64;
        while let Some(record) = stream::next(&mut records).await {
            let record = record?;
            let import = |state: &mut ScopeState, now| {
                if self.leaves_out(scope, &record, options) {
                    outcome.forgotten += 1;
                    return Ok(());
                }
                transfer::import(state, now, record, options, &mut outcome)
                    .map_err(|error| error.with_detail("index", index))
            };
            self.write_entries(scope, import)?;
            index += 1;
        }
        Ok(outcome)
    }
}
