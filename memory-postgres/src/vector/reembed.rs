//! Moving a scope to the embedder's model, a bounded step at a time.

use memory_core::embed::is_of_the_text;
use memory_core::json::Json;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{Embedder, EmbeddingModel, Key, ReembedOptions, ReembedOutcome, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::{Effect, malformed};
use crate::store::Store;
use crate::store::columns::{column, unsigned};
use crate::store::parameters::{ModelValues, Value};
use crate::store::scope_ref::ScopeRef;
use crate::vector::embed;
use crate::vector::embed::{Done, Wanted};

/// Entries that one statement reads and that are embedded before the next.
const CHUNK: usize = 64;

/// EMB-4: embeds entries that lack a vector of the embedder's model.
pub(crate) async fn run(
    store: &Store,
    embedder: &dyn Embedder,
    target: &ScopeRef,
    options: ReembedOptions,
) -> Result<ReembedOutcome> {
    let mut outcome = ReembedOutcome::default();
    if !options.dry_run {
        let (mut left, mut after) = (options.limit, String::new());
        while left > 0 {
            let found = missing(store, embedder.model(), target, &after, true, left.min(CHUNK)).await?;
            let Some(last) = found.last else { break };
            after = last;
            let mut failure = None;
            for done in embed::many(store, embedder, target, found.wanted).await {
                match done {
                    Done::Stored => {
                        outcome.embedded += 1;
                        left = left.saturating_sub(1);
                    }
                    // The writer that overwrote it has embedded it.
                    Done::Overtaken => left = left.saturating_sub(1),
                    // It does not count against the limit, or it would block the entries behind it for ever.
                    Done::Failed(error) if is_of_the_text(&error) => outcome.failed += 1,
                    Done::Failed(error) => failure = Some(error),
                }
            }
            if let Some(error) = failure {
                return Err(error);
            }
        }
    }
    outcome.remaining = count(store, embedder.model(), target).await?;
    if options.dry_run {
        outcome.embedded = outcome.remaining.min(u64::try_from(options.limit).unwrap_or(u64::MAX));
    }
    Ok(outcome)
}

/// Entries without a vector.
struct Found {
    /// Those with a text to embed.
    wanted: Vec<Wanted>,
    /// The key of the last entry read, with a text or without; `None` at the end.
    last: Option<String>,
}

/// The first entries behind a key that have no vector of the model. Without `all`, only those of which the row alone
/// does not show that they have a text to embed.
async fn missing(
    store: &Store,
    model: &EmbeddingModel,
    target: &ScopeRef,
    after: &str,
    all: bool,
    limit: usize,
) -> Result<Found> {
    let model = ModelValues::from(Some(model));
    let now = store.time.parameter();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values = target.parameters([(&now, Type::INT8)]);
    values.extend(model.values());
    let own: [Value<'_>; 3] = [(&after, Type::TEXT), (&all, Type::BOOL), (&limit, Type::INT8)];
    values.extend(own);
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.missing, &values, Effect::None).await?;
    let last = rows.last().map(|row| column(row, 0, "key")).transpose()?;
    let wanted = rows.iter().filter_map(|row| wanted(row).transpose()).collect::<Result<Vec<_>>>()?;
    Ok(Found { wanted, last })
}

fn wanted(row: &Row) -> Result<Option<Wanted>> {
    let key = Key::new(column::<&str>(row, 0, "key")?).map_err(|_| malformed("key"))?;
    let version = unsigned(row, 1, "version")?;
    // The text that another model embedded, where that was not the search text.
    if let Some(text) = column::<Option<String>>(row, 2, "text")? {
        let wanted = Wanted::written(key, version, text);
        return Ok(wanted.map(|wanted| Wanted { apart: true, ..wanted }));
    }
    let text = match column::<Option<String>>(row, 3, "text")? {
        Some(text) => text,
        None => {
            let value = Json::parse(column::<&str>(row, 4, "value")?).map_err(|_| malformed("value"))?;
            value.search_text(MAX_TEXT_BYTES)
        }
    };
    Ok(Wanted::written(key, version, text))
}

/// How many entries have no vector of the model, but a text to embed.
async fn count(store: &Store, model: &EmbeddingModel, target: &ScopeRef) -> Result<u64> {
    // An entry with words has a text.
    let mut total = {
        let model = ModelValues::from(Some(model));
        let now = store.time.parameter();
        let mut values = target.parameters([(&now, Type::INT8)]);
        values.extend(model.values());
        let connection = store.connections.take().await?;
        let rows = connection.query(&store.statements.missing_count, &values, Effect::None).await?;
        rows.first().map(|row| unsigned(row, 0, "count")).transpose()?.unwrap_or_default()
    };
    let mut after = String::new();
    loop {
        let found = missing(store, model, target, &after, false, CHUNK).await?;
        let Some(last) = found.last else { return Ok(total) };
        after = last;
        total += u64::try_from(found.wanted.len()).unwrap_or(u64::MAX);
    }
}
