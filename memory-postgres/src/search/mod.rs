//! Search over one scope, in one snapshot: by words, by vectors, or both.

mod answer;
pub(crate) mod filter;
pub(crate) mod index;
mod vectors;
mod words;

use std::collections::HashMap;

use memory_core::embed::ask;
use memory_core::limits::{HYBRID_POOL, RANK_POOL};
use memory_core::{
    EmbedRole, Embedder, EmbeddingModel, Key, Result, SearchMode, SearchQuery, SearchResults, Timestamp,
};
use tokio_postgres::types::Type;
use tokio_postgres::{IsolationLevel, Row};

use self::answer::Answer;
use self::vectors::Near;
use self::words::Words;
use crate::connect::{Connection, Transaction};
use crate::error::Effect;
use crate::kv::embed::MAX_VECTOR;
use crate::kv::outcome::dimension_mismatch;
use crate::kv::row::{column, time, unsigned};
use crate::kv::target::{ModelValues, Target, Value};
use crate::kv::vector_unsupported;
use crate::store::Store;

/// A key with its similarities.
#[derive(Clone, Debug)]
struct Match {
    key: Key,
    lexical: Option<f64>,
    near: Option<Near>,
}

/// The scope as the snapshot has it.
#[derive(Clone, Copy, Debug)]
struct Searched {
    space: i64,
    /// Live entries, and words of theirs.
    entries: u64,
    tokens: u64,
    /// Vectors of any model.
    vectors: u64,
    now: Timestamp,
    /// The number of the embedder's model; `None`: nobody has vectors of it.
    model: Option<i32>,
    /// Whether the scope's vectors of that model have an index.
    indexed: bool,
}

/// SRC, VEC, HYB, RNK, DED.
pub(crate) async fn search(
    store: &Store,
    target: &Target,
    embedder: Option<&dyn Embedder>,
    mut query: SearchQuery,
) -> Result<SearchResults> {
    query.mode = match (query.mode, embedder) {
        (SearchMode::Lexical | SearchMode::Auto, None) => SearchMode::Lexical,
        (SearchMode::Vector | SearchMode::Hybrid, None) => return Err(vector_unsupported("search")),
        (SearchMode::Auto, Some(_)) => SearchMode::Hybrid,
        (mode, Some(_)) => mode,
    };
    let model = embedder.map(Embedder::model);
    let by_vectors = embedder.filter(|_| query.mode != SearchMode::Lexical);
    let (numbers, found) = match by_vectors {
        Some(embedder) => {
            let connection = store.connections.read().await?;
            let reading = Reading::Connection(&connection);
            let search = Search { store, reading, target, query: &query, model };
            // EMB-2, before a query is embedded in vain.
            let (found, other) = search.looked_at().await?;
            if let Some(other) = other {
                return Err(dimension_mismatch(Some(i64::from(other)), Some(embedder.model())));
            }
            drop(connection);
            (ask(embedder, &[&query.text], EmbedRole::Query).await?.into_iter().next(), found)
        }
        None => (None, None),
    };
    let mut connection = store.connections.take().await?;
    if let (Some(numbers), Some(found)) = (&numbers, found)
        && is_simple(&query, &found)
        && numbers.len() <= MAX_VECTOR
    {
        // All in one statement, which is a snapshot of its own.
        let reading = Reading::Connection(&connection);
        return Search { store, reading, target, query: &query, model }.simple(found, numbers).await;
    }
    let snapshot = connection.transaction(IsolationLevel::RepeatableRead, true).await?;
    let reading = Reading::Snapshot(&snapshot);
    let results = Search { store, reading, target, query: &query, model }.run(numbers.as_deref()).await;
    snapshot.rollback().await;
    results
}

/// Whether the nearest are the hits, whatever else is known of them, and are found by comparing.
fn is_simple(query: &SearchQuery, found: &Searched) -> bool {
    query.mode == SearchMode::Vector
        && query.dedup.is_none()
        && is_by_similarity(query)
        && !found.indexed
        && found.model.is_some()
}

/// Where a search reads: in a snapshot that its statements share, or where each has its own.
#[derive(Clone, Copy)]
enum Reading<'a> {
    Snapshot(&'a Transaction<'a>),
    Connection(&'a Connection),
}

impl Reading<'_> {
    async fn query(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.query(sql, values).await,
            Self::Connection(connection) => connection.query(sql, values, Effect::None).await,
        }
    }

    /// Planned for these very values, and not kept.
    async fn query_once(&self, sql: &str, values: &[Value<'_>]) -> Result<Vec<Row>> {
        match self {
            Self::Snapshot(snapshot) => snapshot.query_once(sql, values).await,
            Self::Connection(connection) => connection.query_once(sql, values).await,
        }
    }

    /// Settings for what follows; where each statement stands alone there is nothing to set them for.
    async fn set(&self, settings: &str) -> Result<()> {
        match self {
            Self::Snapshot(snapshot) => snapshot.batch(settings).await,
            Self::Connection(_) => Ok(()),
        }
    }
}

/// One search.
struct Search<'a> {
    store: &'a Store,
    reading: Reading<'a>,
    target: &'a Target,
    query: &'a SearchQuery,
    model: Option<&'a EmbeddingModel>,
}

impl Search<'_> {
    async fn run(&self, numbers: Option<&[f32]>) -> Result<SearchResults> {
        let query = self.query;
        let by_words = query.mode != SearchMode::Vector;
        // Under way at the same time, on one connection.
        let (searched, found) = tokio::try_join!(self.searched(), async {
            if by_words { self.find_words().await } else { Ok(words::Found::default()) }
        })?;
        let Some(searched) = searched.filter(|searched| searched.entries > 0) else {
            return Ok(SearchResults::new(Vec::new(), query.mode));
        };
        let words = found.score(searched.entries, searched.tokens);
        let model = searched.model.filter(|_| searched.vectors > 0);
        let most = most(query);
        let mut limit = match query.dedup {
            // Few of the best are duplicates, as a rule.
            Some(_) if model.is_some() && query.mode != SearchMode::Hybrid && is_by_similarity(query) => {
                query.top_k.saturating_mul(2).saturating_add(32).min(most)
            }
            _ => most,
        };
        loop {
            let nearest = match (numbers, model) {
                (Some(numbers), Some(model)) => self.nearest(&searched, model, numbers, limit).await?,
                _ => Vec::new(),
            };
            let matches = self.matches(&searched, &words, nearest, numbers, limit).await?;
            let more = limit < most && matches.len() >= limit;
            let answer =
                Answer { store: self.store, reading: self.reading, target: self.target, searched, query };
            if let Some(results) = answer.of(matches, more, HashMap::new()).await? {
                return Ok(results);
            }
            limit = most;
        }
    }

    /// The scope, and its vectors of the same model in another length, if it has any.
    async fn looked_at(&self) -> Result<(Option<Searched>, Option<i32>)> {
        let (texts, model) = (self.target.texts(), ModelValues::from(self.model));
        let now = self.store.time.parameter();
        let [tenant, kind, name] = self.target.values(&texts);
        let [provider, model_name, dimensions] = model.values();
        let values: [Value<'_>; 7] =
            [tenant, kind, name, (&now, Type::INT8), provider, model_name, dimensions];
        let rows = self.reading.query(&self.store.statements.searched, &values).await?;
        let Some(row) = rows.first() else { return Ok((None, None)) };
        let searched = Searched {
            space: column(row, 0, "space")?,
            entries: unsigned(row, 1, "counter")?,
            tokens: unsigned(row, 2, "counter")?,
            vectors: unsigned(row, 3, "counter")?,
            now: time(column(row, 4, "time")?)?,
            model: column(row, 5, "model")?,
            indexed: column(row, 6, "index")?,
        };
        Ok((Some(searched), column(row, 7, "model")?))
    }

    async fn searched(&self) -> Result<Option<Searched>> {
        Ok(self.looked_at().await?.0)
    }

    /// The nearest are the hits: both come with one statement.
    async fn simple(&self, searched: Searched, numbers: &[f32]) -> Result<SearchResults> {
        let (Some(model), query) = (searched.model, self.query) else {
            return Ok(SearchResults::new(Vec::new(), self.query.mode));
        };
        let (nearest, entries) = self.with_entries(&searched, model, numbers, query.top_k).await?;
        let matches = nearest
            .into_iter()
            .map(|near| Match { key: near.key.clone(), lexical: None, near: Some(near) })
            .collect();
        let answer =
            Answer { store: self.store, reading: self.reading, target: self.target, searched, query };
        let results = answer.of(matches, false, entries).await?;
        Ok(results.unwrap_or_else(|| SearchResults::new(Vec::new(), query.mode)))
    }

    /// The best by words together with the nearest, each with both its similarities.
    async fn matches(
        &self,
        searched: &Searched,
        words: &Words,
        nearest: Vec<Near>,
        numbers: Option<&[f32]>,
        limit: usize,
    ) -> Result<Vec<Match>> {
        let mut matches: Vec<Match> = nearest
            .into_iter()
            .map(|near| Match { key: near.key.clone(), lexical: words.score_of(&near.key), near: Some(near) })
            .collect();
        if self.query.mode == SearchMode::Vector {
            return Ok(matches);
        }
        let known: std::collections::HashSet<Key> = matches.iter().map(|found| found.key.clone()).collect();
        let rest: Vec<&(Key, f64)> =
            words.best.iter().take(limit).filter(|(key, _)| !known.contains(key)).collect();
        let mut near = match (numbers, searched.model.filter(|_| searched.vectors > 0)) {
            (Some(numbers), Some(model)) => {
                let keys: Vec<&str> = rest.iter().map(|(key, _)| key.as_str()).collect();
                self.near_of(searched, model, numbers, &keys).await?
            }
            _ => HashMap::new(),
        };
        matches.extend(rest.into_iter().map(|(key, score)| Match {
            key: key.clone(),
            lexical: Some(*score),
            near: near.remove(key.as_str()),
        }));
        Ok(matches)
    }
}

fn is_by_similarity(query: &SearchQuery) -> bool {
    query.rank.is_similarity_only() && query.rank.similarity == 1.0
}

/// How many may be hits. All that are ranked, where the order does not follow from similarity alone (a weight may round
/// two similarities into one, and then the tie is another), or where some may be left out as duplicates.
fn most(query: &SearchQuery) -> usize {
    match query.mode {
        SearchMode::Hybrid | SearchMode::Auto => HYBRID_POOL,
        _ if is_by_similarity(query) && query.dedup.is_none() => query.top_k,
        _ => RANK_POOL,
    }
}
