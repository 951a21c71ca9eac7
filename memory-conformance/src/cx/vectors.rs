//! Shorthands for the cases about vectors.

use memory_core::embed::cosine;
use memory_core::{
    EmbedRole, Embedder as _, EmbeddingOwner, ModelStats, Reducer, ReembedOptions, ReembedOutcome, Result,
    Scope, ScopeStats, SearchMode, SearchQuery,
};

use crate::check::{CaseResult, Stop};
use crate::cx::entries::item;
use crate::cx::{Cx, hit_keys};
use crate::harness::embedder::TestEmbedder;

/// Skips the case if the provider does not use the fixture's embedder.
pub(crate) fn owned(cx: &Cx) -> CaseResult {
    if cx.capabilities().embedding == EmbeddingOwner::Embedder {
        Ok(())
    } else {
        Err(Stop::skipped("the provider embeds by itself, so its vectors are not known"))
    }
}

/// A search by vectors.
pub(crate) fn by_vector(text: &str) -> SearchQuery {
    SearchQuery::new(text).with_mode(SearchMode::Vector)
}

/// A search by both.
pub(crate) fn by_both(text: &str) -> SearchQuery {
    SearchQuery::new(text).with_mode(SearchMode::Hybrid)
}

/// A search by words.
pub(crate) fn by_words(text: &str) -> SearchQuery {
    SearchQuery::new(text).with_mode(SearchMode::Lexical)
}

/// Options of a step.
pub(crate) fn step(limit: usize, dry_run: bool) -> ReembedOptions {
    let mut options = ReembedOptions::default();
    (options.limit, options.dry_run) = (limit, dry_run);
    options
}

/// A model whose vectors have the same length as those of the fixture's model.
pub(crate) fn other_model() -> TestEmbedder {
    TestEmbedder::named("bag-of-words-2", TestEmbedder::DIMENSIONS)
}

/// The fixture's model with vectors of another length.
pub(crate) fn longer_model() -> TestEmbedder {
    TestEmbedder::named(TestEmbedder::new().model().model.as_str(), TestEmbedder::DIMENSIONS * 2)
}

impl Cx {
    /// The cosine of a query and a stored text by the fixture's embedder.
    pub(crate) fn cosine(&self, query: &str, text: &str) -> f64 {
        let embedder = self.embedder();
        cosine(&embedder.vector_as(query, EmbedRole::Query), &embedder.vector(text))
    }

    /// The keys that a search by vectors finds, in byte order.
    pub(crate) async fn near(&self, scope: &Scope, text: &str) -> Result<Vec<String>> {
        let hits = self.find(scope, by_vector(text).with_top_k(100)).await?;
        let mut keys: Vec<String> = hit_keys(&hits).into_iter().map(str::to_owned).collect();
        keys.sort();
        Ok(keys)
    }

    /// The score of a key in a search by vectors, if it is a hit.
    pub(crate) async fn near_score(&self, scope: &Scope, text: &str, key: &str) -> Result<Option<f64>> {
        let hits = self.find(scope, by_vector(text).with_top_k(100)).await?;
        Ok(hits.iter().find(|hit| hit.entry.key.as_str() == key).map(|hit| hit.score))
    }

    /// One step of a re-embedding.
    pub(crate) async fn reembed(&self, scope: &Scope, limit: usize) -> Result<ReembedOutcome> {
        self.kv().reembed(scope, step(limit, false)).await
    }

    /// A scope's statistics for the fixture's model, if it is listed.
    pub(crate) async fn current(&self, scope: &Scope) -> Result<Option<ModelStats>> {
        let stats = self.kv().stats(scope).await?;
        Ok(of_model(&stats, self.embedder()).cloned())
    }

    /// Every write that may embed, each with a separate key: its name and result.
    pub(crate) async fn every_write(&self, scope: &Scope) -> Vec<(&'static str, Result<()>)> {
        let bulk = async { self.bulk(scope, vec![item("bulk", "\"tea\"")?]).await };
        vec![
            ("set", self.set(scope, "set", "\"tea\"").await.map(drop)),
            ("bulk_insert", bulk.await.map(drop)),
            ("increment", self.increment(scope, "increment", 1).await.map(drop)),
            ("update", self.append(scope, "update").await),
        ]
    }

    async fn append(&self, scope: &Scope, name: &str) -> Result<()> {
        let item = crate::cx::json("\"tea\"")?;
        self.update(scope, name, Reducer::AppendDedupe(item)).await.map(drop)
    }
}

/// A scope's statistics for that model.
pub(crate) fn of_model<'a>(stats: &'a ScopeStats, embedder: &TestEmbedder) -> Option<&'a ModelStats> {
    stats.models.iter().find(|of| of.model == *embedder.model())
}
