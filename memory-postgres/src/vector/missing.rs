//! The entries of a scope that lack a vector of a model.

use memory_core::backend::embedding::{Missing, ToEmbed};
use memory_core::embed::CHUNK_TEXTS;
use memory_core::json::Json;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::{EmbeddingModel, Key, Result};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use crate::error::{Effect, malformed};
use crate::store::Store;
use crate::store::columns::{column, unsigned};
use crate::store::parameters::{ModelValues, Value};
use crate::store::scope_ref::ScopeRef;

/// The first entries after a key that have no vector of the model. Keys that begin with `except` are skipped. Without
/// `all`, only entries whose row alone does not show whether they have a text to embed.
pub(crate) async fn first(
    store: &Store,
    model: &EmbeddingModel,
    target: &ScopeRef,
    (except, after): (&str, &str),
    all: bool,
    limit: usize,
) -> Result<Missing> {
    let model = ModelValues::from(Some(model));
    let now = store.time.parameter();
    let limit = i64::try_from(limit).unwrap_or(i64::MAX);
    let mut values = target.parameters([(&now, Type::INT8)]);
    values.extend(model.values());
    let own: [Value<'_>; 4] =
        [(&except, Type::TEXT), (&after, Type::TEXT), (&all, Type::BOOL), (&limit, Type::INT8)];
    values.extend(own);
    let connection = store.connections.take().await?;
    let rows = connection.query(&store.statements.missing, &values, Effect::None).await?;
    let last = rows.last().map(|row| column(row, 0, "key")).transpose()?;
    let items = rows.iter().filter_map(|row| to_embed(row).transpose()).collect::<Result<Vec<_>>>()?;
    Ok(Missing { items, last })
}

fn to_embed(row: &Row) -> Result<Option<ToEmbed>> {
    let key = Key::new(column::<&str>(row, 0, "key")?).map_err(|_| malformed("key"))?;
    let version = unsigned(row, 1, "version")?;
    // The text that another model embedded, if that was not the search text.
    if let Some(text) = column::<Option<String>>(row, 2, "text")? {
        return Ok(ToEmbed::new(key, version, text).map(ToEmbed::with_text_apart));
    }
    let text = match column::<Option<String>>(row, 3, "text")? {
        Some(text) => text,
        None => {
            let value = Json::parse(column::<&str>(row, 4, "value")?).map_err(|_| malformed("value"))?;
            value.search_text(MAX_TEXT_BYTES)
        }
    };
    Ok(ToEmbed::new(key, version, text))
}

/// How many entries have no vector of the model, but a text to embed.
pub(crate) async fn count(
    store: &Store,
    model: &EmbeddingModel,
    target: &ScopeRef,
    except: &str,
) -> Result<u64> {
    // An entry with words has a text.
    let mut total = {
        let model = ModelValues::from(Some(model));
        let now = store.time.parameter();
        let mut values = target.parameters([(&now, Type::INT8)]);
        values.extend(model.values());
        values.push((&except, Type::TEXT));
        let connection = store.connections.take().await?;
        let rows = connection.query(&store.statements.missing_count, &values, Effect::None).await?;
        rows.first().map(|row| unsigned(row, 0, "count")).transpose()?.unwrap_or_default()
    };
    let mut after = String::new();
    loop {
        let found = first(store, model, target, (except, &after), false, CHUNK_TEXTS).await?;
        let Some(last) = found.last else { return Ok(total) };
        after = last;
        total += u64::try_from(found.items.len()).unwrap_or(u64::MAX);
    }
}
