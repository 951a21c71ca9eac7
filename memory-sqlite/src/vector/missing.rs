//! The entries of a scope that lack a vector of a model.

use std::sync::Arc;

use memory_core::backend::embedding::{Missing, ToEmbed};
use memory_core::embed::CHUNK_BYTES;
use memory_core::json::Json;
use memory_core::limits::MAX_TEXT_BYTES;
use memory_core::scope::successor;
use memory_core::{EmbeddingModel, Key, Result, ScopeDigest, Timestamp};
use rusqlite::{Connection, Row, params};

use super::rows::model_id;
use crate::commit::scope::Target;
use crate::commit::store::Store;
use crate::error::{Unreadable, malformed};
use crate::file::column::unsigned;
use crate::kv::state::ScopeState;

/// Enough of a value's text to tell, nearly always, that it is not blank.
const GLANCE_BYTES: usize = 64;

/// The first entries after a key that have a text to embed but no vector of the model. Keys that begin with `except`
/// are skipped.
pub(super) async fn first(
    store: &Arc<Store>,
    model: &EmbeddingModel,
    target: &Target,
    (except, after): (&str, &str),
    limit: usize,
) -> Result<Missing> {
    let (digest, model, of_store) = (target.digest, model.clone(), Arc::clone(store));
    let except = except.to_owned();
    let from = if after.is_empty() { String::new() } else { successor(after) };
    store
        .workers
        .run(move |connection| {
            let (mut items, mut bytes) = (Vec::new(), 0_usize);
            each(connection, &digest, &model, (&except, &from), of_store.clock.now(), |row| {
                let Some(item) = to_embed(row)? else { return Ok(true) };
                bytes += item.text.len();
                items.push(item);
                Ok(items.len() < limit && bytes < CHUNK_BYTES)
            })?;
            let last = items.last().map(|item: &ToEmbed| String::from(item.key.clone()));
            Ok(Missing { items, last })
        })
        .await
}

fn to_embed(row: &Row<'_>) -> Result<Option<ToEmbed>, Unreadable> {
    let key = Key::new(row.get::<_, String>(0)?).map_err(|_| malformed("key"))?;
    let version = unsigned(row.get(1)?, "version")?;
    // What another model embedded, if that was not the search text.
    if let Some(text) = row.get::<_, Option<String>>(4)? {
        return Ok(ToEmbed::new(key, version, text).map(ToEmbed::with_text_apart));
    }
    let text = match row.get::<_, Option<String>>(2)? {
        Some(text) => text,
        None => value(row)?.search_text(MAX_TEXT_BYTES),
    };
    Ok(ToEmbed::new(key, version, text))
}

fn value(row: &Row<'_>) -> Result<Json, Unreadable> {
    let text = row.get_ref(3)?.as_str().map_err(|_| malformed("value"))?;
    Ok(Json::parse(text).map_err(|_| malformed("value"))?)
}

/// How many entries have no vector of the model, and a text to embed.
pub(super) async fn count(
    store: &Arc<Store>,
    model: &EmbeddingModel,
    target: &Target,
    except: &str,
) -> Result<u64> {
    let (digest, model, of_store) = (target.digest, model.clone(), Arc::clone(store));
    let except = except.to_owned();
    store
        .workers
        .run(move |connection| Ok(count_now(connection, &digest, &model, &except, of_store.clock.now())?))
        .await
}

fn count_now(
    connection: &Connection,
    digest: &ScopeDigest,
    model: &EmbeddingModel,
    except: &str,
    now: Timestamp,
) -> Result<u64, Unreadable> {
    let mut count = 0;
    each(connection, digest, model, (except, ""), now, |row| {
        let text = |column| row.get_ref(column)?.as_str_or_null().map_err(|_| malformed("text").into());
        let found: Result<_, Unreadable> = text(4).and_then(|apart| Ok(apart.or(text(2)?)));
        let blank = match found? {
            Some(text) => text.trim().is_empty(),
            None => {
                let value = value(row)?;
                value.search_text(GLANCE_BYTES).trim().is_empty()
                    && value.search_text(MAX_TEXT_BYTES).trim().is_empty()
            }
        };
        count += u64::from(!blank);
        Ok(true)
    })?;
    Ok(count)
}

/// Visits the live entries without a vector of the model in key order, until `visit` returns false.
fn each(
    connection: &Connection,
    digest: &ScopeDigest,
    model: &EmbeddingModel,
    (except, from): (&str, &str),
    now: Timestamp,
    mut visit: impl FnMut(&Row<'_>) -> Result<bool, Unreadable>,
) -> Result<(), Unreadable> {
    let snapshot = connection.unchecked_transaction()?;
    let Some(state) = ScopeState::read(&snapshot, digest)? else { return Ok(()) };
    // No model has the number 0.
    let model = model_id(&snapshot, model)?.unwrap_or(0);
    let mut statement = snapshot.prepare_cached(
        "SELECT e.key, e.version, coalesce(e.text, b.text), coalesce(e.value, b.value), \
         (SELECT v.text FROM vector v WHERE v.space = e.space AND v.key = e.key AND v.version = e.version \
          AND v.text IS NOT NULL ORDER BY v.id LIMIT 1) \
         FROM entry e LEFT JOIN body b ON b.id = e.body \
         WHERE e.space = ?1 AND e.key >= ?2 AND (e.expires_at IS NULL OR e.expires_at > ?3) \
         AND (?5 = '' OR substr(e.key, 1, length(?5)) <> ?5) \
         AND NOT EXISTS (SELECT 1 FROM vector v WHERE v.space = e.space AND v.key = e.key AND v.model = ?4 \
         AND v.version = e.version) \
         ORDER BY e.key",
    )?;
    let mut rows = statement.query(params![state.space, from, now.as_millis(), model, except])?;
    while let Some(row) = rows.next()? {
        if !visit(row)? {
            break;
        }
    }
    Ok(())
}
