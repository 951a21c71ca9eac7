//! The key/value facet.

use async_trait::async_trait;
use memory_core::backend::embedding::{ToEmbed, embed_bulk, embed_written, reembed};
use memory_core::reduce::Reducer;
use memory_core::{
    Backend, BulkOptions, DeleteOptions, DeleteOutcome, DriftState, DropOutcome, Embed, Embedder, Embedding,
    Entry, GetOptions, ImportOptions, ImportOutcome, IncrementOutcome, Json, Key, ListQuery, NewEntry, Page,
    RecordStream, ReembedOptions, ReembedOutcome, Result, Scope, ScopePage, ScopeStats, ScopesQuery,
    SearchQuery, SearchResults, SetOptions, SetOutcome, TenantId, UpdateOptions, UpdateOutcome,
};

use crate::error::vector_unsupported;
use crate::kv::draft::Draft;
use crate::kv::row::StoredEntry;
use crate::kv::{bulk, drift, read, write};
use crate::lifecycle::{export, import, uses};
use crate::provider::PostgresProvider;
use crate::search;
use crate::store::scope_ref::ScopeRef;
use crate::vector::embed::ScopeVectors;

#[async_trait]
impl Backend for PostgresProvider {
    async fn get(&self, scope: &Scope, key: &Key, options: GetOptions) -> Result<Option<Entry>> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, false).await?;
        let stored = read::stored(&self.store, &target, key).await?;
        Ok(stored.map(|stored| self.store.finish(stored, options)))
    }

    async fn get_many(&self, scope: &Scope, keys: &[Key], options: GetOptions) -> Result<Vec<Option<Entry>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, false).await?;
        let stored = read::many(&self.store, &target, keys).await?;
        let entries = keys.iter().map(|key| {
            let StoredEntry { entry, space, born } = stored.get(key)?;
            let stored = StoredEntry { entry: entry.clone(), space: *space, born: *born };
            Some(self.store.finish(stored, options))
        });
        Ok(entries.collect())
    }

    async fn set(&self, scope: &Scope, key: &Key, value: Json, options: SetOptions) -> Result<SetOutcome> {
        self.refuse_embedding("set", options.embed)?;
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, true).await?;
        let draft = Draft::new(&target.digest, key.clone(), value, options);
        let embedder = self.embedder();
        let mut outcome = write::set(&self.store, &target, &draft, embedder.map(Embedder::model)).await?;
        if let Some(embedder) = embedder
            && outcome.written
            && draft.options.embed != Embed::Never
        {
            let item = ToEmbed::new(draft.key.clone(), outcome.version, draft.search_text());
            outcome.embedding = embed_written(&self.vectors(&target), embedder, item).await;
        }
        Ok(outcome)
    }

    async fn delete(&self, scope: &Scope, key: &Key, options: DeleteOptions) -> Result<DeleteOutcome> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, false).await?;
        write::delete(&self.store, &target, key, options).await
    }

    async fn list(&self, scope: &Scope, query: ListQuery) -> Result<Page> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, false).await?;
        let (stored, next) = read::list(&self.store, &target, &query).await?;
        let counts = self.store.accesses.look();
        let entries = stored.into_iter().map(|StoredEntry { mut entry, space, born }| {
            entry.access_count = counts.total(space, entry.key.as_str(), born, entry.access_count);
            entry
        });
        Ok(Page::new(entries.collect(), next))
    }

    async fn increment(
        &self,
        scope: &Scope,
        key: &Key,
        delta: i64,
        options: UpdateOptions,
    ) -> Result<IncrementOutcome> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, true).await?;
        let model = self.embedder().map(Embedder::model);
        let (outcome, text) = write::increment(&self.store, &target, key, delta, options, model).await?;
        self.embed_modified(&target, key, outcome.version, text).await;
        Ok(outcome)
    }

    async fn update(
        &self,
        scope: &Scope,
        key: &Key,
        reducer: Reducer,
        options: UpdateOptions,
    ) -> Result<UpdateOutcome> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, true).await?;
        let model = self.embedder().map(Embedder::model);
        let (mut outcome, text) = write::update(&self.store, &target, key, &reducer, options, model).await?;
        outcome.embedding = self.embed_modified(&target, key, outcome.version, text).await;
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
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, true).await?;
        let drafts: Vec<Draft> = items.into_iter().map(|item| Draft::of(&target.digest, item)).collect();
        let embedder = self.embedder();
        let model = embedder.map(Embedder::model);
        let mut outcomes = bulk::insert(&self.store, &target, &drafts, options, model).await?;
        if let Some(embedder) = embedder {
            let written = |at: usize| {
                let draft = drafts.get(at)?;
                let text = (draft.options.embed != Embed::Never).then(|| draft.search_text());
                Some((draft.key.clone(), text))
            };
            embed_bulk(&self.vectors(&target), embedder, &mut outcomes, written).await;
        }
        Ok(outcomes)
    }

    async fn search(&self, scope: &Scope, query: SearchQuery) -> Result<SearchResults> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, false).await?;
        search::search(&self.store, &target, self.embedder(), query).await
    }

    async fn stats(&self, scope: &Scope) -> Result<ScopeStats> {
        read::stats(&self.store, &ScopeRef::of(scope), self.embedder().map(Embedder::model)).await
    }

    async fn reembed(&self, scope: &Scope, options: ReembedOptions) -> Result<ReembedOutcome> {
        let Some(embedder) = self.embedder() else { return Err(vector_unsupported("reembed")) };
        reembed(&self.vectors(&ScopeRef::of(scope)), embedder, options).await
    }

    async fn scopes(&self, tenant: &TenantId, query: ScopesQuery) -> Result<ScopePage> {
        read::scopes(&self.store, None, tenant, &query).await
    }

    async fn drift_state(&self, scope: &Scope) -> Result<DriftState> {
        drift::state(&self.store, &ScopeRef::of(scope)).await
    }

    async fn drop_scope(&self, scope: &Scope) -> Result<DropOutcome> {
        write::drop_scope(&self.store, scope).await
    }

    async fn export_scope(&self, scope: &Scope) -> Result<RecordStream> {
        Ok(export::export(&self.store, ScopeRef::of(scope), None))
    }

    async fn import_scope(
        &self,
        scope: &Scope,
        records: RecordStream,
        options: ImportOptions,
    ) -> Result<ImportOutcome> {
        let target = ScopeRef::of(scope);
        uses::used(&self.store, &target, true).await?;
        import::import(&self.store, &target, records, options).await
    }
}

impl PostgresProvider {
    /// The embedder, if the server can compare vectors.
    fn embedder(&self) -> Option<&dyn Embedder> {
        self.store.vector.as_ref()?;
        self.embedder.as_deref()
    }

    fn vectors<'a>(&'a self, target: &'a ScopeRef) -> ScopeVectors<'a> {
        ScopeVectors { store: &self.store, target }
    }

    fn refuse_embedding(&self, operation: &'static str, embed: Embed) -> Result<()> {
        match embed {
            Embed::Always if self.embedder().is_none() => Err(vector_unsupported(operation)),
            Embed::Always | Embed::Auto | Embed::Never => Ok(()),
        }
    }

    /// Embeds the result of an increment or a reducer, if there is an embedder.
    async fn embed_modified(
        &self,
        target: &ScopeRef,
        key: &Key,
        version: u64,
        text: Option<String>,
    ) -> Embedding {
        let (Some(embedder), Some(text)) = (self.embedder(), text) else { return Embedding::Skipped };
        let item = ToEmbed::new(key.clone(), version, text);
        embed_written(&self.vectors(target), embedder, item).await
    }
}
