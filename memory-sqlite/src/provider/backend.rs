//! The key/value facet.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::backend::embedding::{ToEmbed, embed_bulk, embed_written, reembed};
use memory_core::embed::ask;
use memory_core::reduce::Reducer;
use memory_core::{
    Backend, BulkOptions, DeleteOptions, DeleteOutcome, DriftState, DropOutcome, Embed, EmbedRole, Embedder,
    Embedding, EmbeddingModel, Entry, Error, GetOptions, ImportOptions, ImportOutcome, IncrementOutcome,
    Json, Key, ListQuery, NewEntry, Page, RecordStream, ReembedOptions, ReembedOutcome, Result, Scope,
    ScopeDigest, ScopePage, ScopeStats, ScopesQuery, SearchMode, SearchQuery, SearchResults, SetOptions,
    SetOutcome, TenantId, UpdateOptions, UpdateOutcome,
};

use super::open::SqliteProvider;
use crate::commit::batch::Batch;
use crate::commit::readers::{Allowance, Step};
use crate::commit::scope::Target;
use crate::commit::writer::Cost;
use crate::error::Fault;
use crate::kv::draft::Draft;
use crate::kv::{dimensions, read, scopes, write};
use crate::lifecycle::{export, import, uses};
use crate::search::search;
use crate::vector::embed::ScopeVectors;
use crate::vector::nearest::QueryVector;
use crate::vector::stats;

/// Reads on this thread if that takes few steps; otherwise on a worker, with owned arguments.
macro_rules! read {
    ($store:expr, $owned:tt, $read:tt) => {{
        let few = true;
        read!($store, if few, $owned, $read)
    }};
    ($store:expr, if $few:expr, [$owned:ident = $make:expr], (|$connection:ident, $allowance:ident| $read:expr)) => {{
        #[allow(clippy::needless_borrow, clippy::redundant_slicing, reason = "the same words for what is owned")]
        let inline = if $few {
            let $allowance = Allowance::Inline;
            $store.inline(|$connection| $read)?
        } else {
            None
        };
        match inline {
            Some(done) => done,
            None => {
                let $owned = $make;
                let $allowance = Allowance::Unlimited;
                $store.worker(move |$connection| $read).await?
            }
        }
    }};
}

#[async_trait]
impl Backend for SqliteProvider {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        let digest = scope.digest();
        uses::note(&self.store, &digest).await?;
        let now = self.store.clock.now();
        let got = read!(
            self.store,
            [key = key.clone()],
            (|connection, allowance| { read::get(connection, &digest, key.as_str(), now, allowance) })
        );
        Ok(got.map(|got| got.entry(&mut self.store.accesses.look(), options, &self.store.signal)))
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        let digest = scope.digest();
        uses::note(&self.store, &digest).await?;
        let now = self.store.clock.now();
        let few = keys.len() <= read::INLINE_ENTRIES;
        let got = read!(self.store, if few, [keys = keys.to_vec()], (|connection, allowance| {
            read::get_many(connection, &digest, &keys[..], now, allowance)
        }));
        let mut counts = self.store.accesses.look();
        let entries = got.into_iter().map(|got| Some(got?.entry(&mut counts, options, &self.store.signal)));
        Ok(entries.collect())
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        self.refuse_embedding("set", options.embed)?;
        let (target, draft) = (Target::of(scope), Arc::new(Draft::new(key.clone(), value, options)));
        let embedding = self.embedder.as_ref().map(|embedder| (embedder, target.clone(), Arc::clone(&draft)));
        let cost = Cost::entry(draft.bytes());
        let mut outcome =
            self.write(cost, move |batch, model| write::set(batch, &target, &draft, model)).await?;
        if let Some((embedder, target, draft)) = embedding
            && outcome.written
            && draft.embed() != Embed::Never
        {
            let item = ToEmbed::new(key.clone(), outcome.version, draft.search_text());
            outcome.embedding = embed_written(&self.vectors(&target), embedder.as_ref(), item).await;
        }
        Ok(outcome)
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        let target = Target::of(scope);
        let key = key.clone();
        self.store
            .writer
            .submit(Cost::entry(0), move |batch| write::delete(batch, &target, &key, options))
            .await
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let digest = scope.digest();
        uses::note(&self.store, &digest).await?;
        let now = self.store.clock.now();
        let few = query.limit <= read::INLINE_ENTRIES;
        let listed = read!(self.store, if few, [scope = scope.clone()], (|connection, allowance| {
            read::list(connection, &scope, &digest, &query, now, allowance)
        }));
        Ok(listed.page(&self.store.accesses))
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        let (target, name) = (Target::of(scope), key.clone());
        let written = self.write(Cost::entry(0), move |batch, model| {
            write::increment(batch, &target, &name, delta, options, model)
        });
        let (outcome, text) = written.await?;
        self.embed_modified(scope, key, outcome.version, text).await;
        Ok(outcome)
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        let bytes = match &reducer {
            Reducer::Merge(operand) | Reducer::AppendDedupe(operand) => operand.len_bytes(),
            Reducer::BoundedList { item, .. } => item.len_bytes(),
            _ => 0,
        };
        let (target, name) = (Target::of(scope), key.clone());
        let written = self.write(Cost::entry(bytes), move |batch, model| {
            write::update(batch, &target, &name, &reducer, options, model)
        });
        let (mut outcome, text) = written.await?;
        outcome.embedding = self.embed_modified(scope, key, outcome.version, text).await;
        Ok(outcome)
    }

    async fn bulk_insert(
        &self,
        scope: &Scope,
        items: Vec<NewEntry>,
        options: BulkOptions,
    ) -> Result<Vec<SetOutcome>> {
        for (index, item) in items.iter().enumerate() {
            self.refuse_embedding("bulk_insert", item.options.embed)
                .map_err(|error| error.with_detail("index", index))?;
        }
        if items.is_empty() {
            return Ok(Vec::new());
        }
        let target = Target::of(scope);
        let drafts: Arc<[Draft]> = items.into_iter().map(Draft::from).collect();
        let bytes = drafts.iter().map(Draft::bytes).fold(0, usize::saturating_add);
        let (of, written) = (target.clone(), Arc::clone(&drafts));
        let insert = self.write(Cost::slow(bytes), move |batch, model| {
            write::bulk_insert(batch, &of, &written, options, model)
        });
        let mut outcomes = insert.await?;
        if let Some(embedder) = &self.embedder {
            let written = |at: usize| {
                let draft = drafts.get(at)?;
                let text = (draft.embed() != Embed::Never).then(|| draft.search_text());
                Some((draft.key.clone(), text))
            };
            embed_bulk(&self.vectors(&target), embedder.as_ref(), &mut outcomes, written).await;
        }
        Ok(outcomes)
    }

    async fn search(&self, scope: &Scope, mut query: SearchQuery) -> Result<SearchResults> {
        let embedder = match (query.mode, &self.embedder) {
            (SearchMode::Lexical | SearchMode::Auto, None) => {
                query.mode = SearchMode::Lexical;
                None
            }
            (SearchMode::Vector | SearchMode::Hybrid, None) => return Err(vector_unsupported("search")),
            (SearchMode::Lexical, Some(_)) => None,
            (SearchMode::Vector, Some(embedder)) => Some(embedder),
            (SearchMode::Hybrid | SearchMode::Auto, Some(embedder)) => {
                query.mode = SearchMode::Hybrid;
                Some(embedder)
            }
        };
        let digest = scope.digest();
        uses::note(&self.store, &digest).await?;
        let vector = match embedder {
            Some(embedder) => {
                self.check_searched(digest, embedder).await?;
                let vectors = ask(embedder.as_ref(), &[&query.text], EmbedRole::Query).await?;
                let numbers = vectors.into_iter().next().unwrap_or_default();
                Some(QueryVector { model: embedder.model().clone(), numbers })
            }
            None => None,
        };
        let (store, caches, embedder) = (Arc::clone(&self.store), self.caches.clone(), self.embedder.clone());
        let found = self
            .store
            .workers
            .run(move |connection| {
                let model = embedder.as_deref().map(Embedder::model);
                search(connection, &store, &caches, &digest, &query, model, vector.as_ref())
                    .map_err(Error::from)
            })
            .await?;
        self.store.check_read().map(|()| found)
    }

    async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
        let digest = scope.digest();
        let now = self.store.clock.now();
        let embedder = &self.embedder;
        Ok(read!(
            self.store,
            [embedder = embedder.clone()],
            (|connection, allowance| {
                let model = embedder.as_deref().map(Embedder::model);
                stats::stats(connection, &digest, model, now, allowance)
            })
        ))
    }

    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
        let Some(embedder) = &self.embedder else { return Err(vector_unsupported("reembed")) };
        reembed(&self.vectors(&Target::of(scope)), embedder.as_ref(), options).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        let tenant = tenant.clone();
        let now = self.store.clock.now();
        self.store
            .workers
            .run(move |connection| scopes::scopes(connection, &tenant, &query, now).map_err(Error::from))
            .await
    }

    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        let digest = scope.digest();
        let watch = &self.store.watch;
        Ok(read!(
            self.store,
            [watch = Arc::clone(watch)],
            (|connection, _allowance| { watch.state(connection, &digest).map(Step::Done) })
        ))
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        let target = Target::of(scope);
        self.store.writer.submit(Cost::slow(0), move |batch| write::drop_scope(batch, &target)).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        export::export(&self.store, Target::of(scope), None)
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        import::import(&self.store, Target::of(scope), records, options).await
    }
}

impl SqliteProvider {
    fn vectors<'a>(&'a self, target: &'a Target) -> ScopeVectors<'a> {
        ScopeVectors { store: &self.store, target }
    }

    fn refuse_embedding(&self, operation: &'static str, embed: Embed) -> Result<()> {
        match embed {
            Embed::Always if self.embedder.is_none() => Err(vector_unsupported(operation)),
            Embed::Always | Embed::Auto | Embed::Never => Ok(()),
        }
    }

    /// Refuses vectors of a different length before a query is embedded for nothing (EMB-2).
    async fn check_searched(&self, digest: ScopeDigest, embedder: &Arc<dyn Embedder>) -> Result<()> {
        let now = self.store.clock.now();
        read!(
            self.store,
            [embedder = Arc::clone(embedder)],
            (|connection, _allowance| {
                dimensions::check_searched(connection, &digest, embedder.model(), now).map(Step::Done)
            })
        );
        Ok(())
    }

    /// Writes, with the embedder's model if there is one.
    async fn write<T, F>(&self, cost: Cost, mut operation: F) -> Result<T>
    where
        T: Send + 'static,
        F: FnMut(&mut Batch<'_>, Option<&EmbeddingModel>) -> Result<T, Fault> + Send + 'static,
    {
        let embedder = self.embedder.clone();
        let operation =
            move |batch: &mut Batch<'_>| operation(batch, embedder.as_deref().map(Embedder::model));
        self.store.writer.submit(cost, operation).await
    }

    /// Embeds the result of an increment or a reducer, if there is an embedder.
    async fn embed_modified(
        &self,
        scope: &Scope,
        key: &Key,
        version: u64,
        text: Option<String>,
    ) -> Embedding {
        let (Some(embedder), Some(text)) = (&self.embedder, text) else { return Embedding::Skipped };
        let item = ToEmbed::new(key.clone(), version, text);
        embed_written(&self.vectors(&Target::of(scope)), embedder.as_ref(), item).await
    }
}

fn vector_unsupported(operation: &'static str) -> Error {
    Error::vector_unsupported(
        "provider `sqlite` was opened without an embedder; configure one, or search by words and write with `embed` \
         left at `auto`",
    )
    .with_detail("operation", operation)
    .with_detail("provider", "sqlite")
}
