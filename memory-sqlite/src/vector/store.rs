//! Vectors as rows, written and removed in the transactions of their entries.

use memory_core::{
    EmbeddingModel, Error, ErrorKind, Key, ModelStats, RecordVector, Result, ScopeDigest, Timestamp,
};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::feed::Stored;
use super::{decode, encode};
use crate::batch::{Batch, Fault, Space, Target};
use crate::error::malformed;
use crate::row::{self, Unreadable, signed};
use crate::search::cache::ScopeState;

/// A vector to store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewVector<'a> {
    pub(crate) model: &'a EmbeddingModel,
    /// The text that was embedded, where it is not the entry's search text.
    pub(crate) text: Option<&'a str>,
    pub(crate) numbers: &'a [f32],
}

/// The entry that vectors are stored for, as it is in the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) key: &'a Key,
    pub(crate) version: u64,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Vectors that came and went by one change of a scope.
#[derive(Debug, Default)]
pub(crate) struct Put {
    gone: Vec<i64>,
    stored: Vec<Stored>,
}

impl Batch<'_> {
    /// Removes the vectors of a key and names them. Where the scope has none, nothing is asked of the database.
    pub(crate) fn remove_vectors(&mut self, space: &mut Space, key: &str) -> rusqlite::Result<Vec<i64>> {
        if space.vectors == 0 {
            return Ok(Vec::new());
        }
        let gone = self
            .statement("DELETE FROM vector WHERE space = ?1 AND key = ?2 RETURNING id")?
            .query_map(params![space.id, key], |row| row.get(0))?
            .collect::<rusqlite::Result<Vec<i64>>>()?;
        if !gone.is_empty() {
            space.vectors = space.vectors.saturating_sub(gone.len() as u64);
            space.touch();
            self.wrote(gone.len());
        }
        Ok(gone)
    }

    /// Gives an entry its vectors, in place of those it had. [`end_vectors`](Self::end_vectors) must follow.
    pub(crate) fn put_vectors(
        &mut self,
        space: &mut Space,
        owner: Owner<'_>,
        vectors: &[NewVector<'_>],
        put: &mut Put,
    ) -> Result<(), Fault> {
        put.gone.extend(self.remove_vectors(space, owner.key.as_str())?);
        for vector in vectors {
            let model = self.model(vector.model)?;
            let data = encode(vector.numbers);
            self.wrote(1 + data.len() / 4_096);
            let id = self
                .statement(
                    "INSERT INTO vector (space, model, key, version, expires_at, text, data) \
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
                )?
                .insert(params![
                    space.id,
                    model,
                    owner.key.as_str(),
                    signed(owner.version),
                    owner.expires_at.map(Timestamp::as_millis),
                    vector.text,
                    data
                ])?;
            put.stored.push(Stored { id, model });
        }
        space.vectors += vectors.len() as u64;
        Ok(())
    }

    /// Counts what was put as one change of the scope.
    pub(crate) fn end_vectors(&mut self, target: &Target, space: &mut Space, put: Put) {
        if put.stored.is_empty() && put.gone.is_empty() {
            return;
        }
        space.changes += 1;
        space.touch();
        self.tell_vectors(&target.digest, space, put.gone, put.stored);
        self.tell_of_vectors_alone(&target.digest, space);
    }

    /// The number of a model, which it gets now if it has none.
    fn model(&mut self, model: &EmbeddingModel) -> rusqlite::Result<i64> {
        if let Some(id) = model_id(self.connection(), model)? {
            return Ok(id);
        }
        self.wrote(2);
        self.statement("INSERT INTO model (provider, name, dimensions) VALUES (?1, ?2, ?3)")?.insert(params![
            model.provider,
            model.model,
            signed(model.dimensions as u64)
        ])
    }

    /// EMB-2: refuses a model whose vectors are not as long as those that the scope holds of it.
    pub(crate) fn check_dimensions(
        &self,
        space: &Space,
        model: &EmbeddingModel,
        now: Timestamp,
    ) -> Result<(), Fault> {
        if space.vectors == 0 {
            return Ok(());
        }
        Ok(check_dimensions(self.connection(), space.id, model, now)?)
    }
}

/// As [`Batch::check_dimensions`], for a search.
pub(crate) fn check_searched(
    connection: &Connection,
    digest: &ScopeDigest,
    model: &EmbeddingModel,
    now: Timestamp,
) -> Result<(), Unreadable> {
    match ScopeState::read(connection, digest)? {
        Some(state) if state.vectors > 0 => check_dimensions(connection, state.space, model, now),
        _ => Ok(()),
    }
}

fn check_dimensions(
    connection: &Connection,
    space: i64,
    model: &EmbeddingModel,
    now: Timestamp,
) -> Result<(), Unreadable> {
    let other: Option<i64> = connection
        .prepare_cached(
            "SELECT m.dimensions FROM model m WHERE m.provider = ?1 AND m.name = ?2 AND m.dimensions <> ?3 \
             AND EXISTS (SELECT 1 FROM vector v WHERE v.space = ?4 AND v.model = m.id \
             AND (v.expires_at IS NULL OR v.expires_at > ?5)) LIMIT 1",
        )?
        .query_row(
            params![model.provider, model.model, signed(model.dimensions as u64), space, now.as_millis()],
            |row| row.get(0),
        )
        .optional()?;
    match other {
        None => Ok(()),
        Some(other) => Err(Error::new(
            ErrorKind::DimensionMismatch,
            "the scope holds vectors of this model with another length and nothing was written; configure the \
             model's own dimensions, or move the scope to them with `reembed`",
        )
        .with_detail("expected", other)
        .with_detail("actual", model.dimensions)
        .into()),
    }
}

/// The number of a model; `None`: the file has no vector of it.
pub(crate) fn model_id(connection: &Connection, model: &EmbeddingModel) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM model WHERE provider = ?1 AND name = ?2 AND dimensions = ?3")?
        .query_row(params![model.provider, model.model, signed(model.dimensions as u64)], |row| row.get(0))
        .optional()
}

/// The vectors of an entry as an export has them.
pub(crate) fn of_entry(
    connection: &Connection,
    space: i64,
    key: &str,
) -> Result<Vec<RecordVector>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT m.provider, m.name, m.dimensions, v.text, v.data FROM vector v JOIN model m ON m.id = v.model \
         JOIN entry e ON e.space = v.space AND e.key = v.key AND e.version = v.version \
         WHERE v.space = ?1 AND v.key = ?2 ORDER BY v.id",
    )?;
    let mut rows = statement.query(params![space, key])?;
    let mut vectors = Vec::new();
    while let Some(row) = rows.next()? {
        let dimensions = usize::try_from(row.get::<_, i64>(2)?).map_err(|_| malformed("model"))?;
        let model = EmbeddingModel { provider: row.get(0)?, model: row.get(1)?, dimensions };
        let data = row.get_ref(4)?.as_blob().map_err(|_| malformed("vector"))?;
        let vector = decode(data, dimensions)?;
        vectors.push(RecordVector { model, vector, text: row.get(3)? });
    }
    Ok(vectors)
}

/// What [`stats`] is asked about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Counted {
    pub(crate) space: i64,
    /// Live entries.
    pub(crate) entries: u64,
    /// Whether rows may have expired.
    pub(crate) expiring: bool,
    /// Whether there are vectors at all.
    pub(crate) vectors: bool,
}

/// Vectors of live entries by model, the embedder's own also where there are none, in order of the model.
pub(crate) fn stats(
    connection: &Connection,
    counted: Counted,
    own: Option<&EmbeddingModel>,
    now: Timestamp,
) -> Result<Vec<ModelStats>, Unreadable> {
    let mut models = std::collections::BTreeMap::new();
    if let Some(own) = own.filter(|_| counted.entries > 0) {
        models.insert(own.clone(), 0);
    }
    if counted.vectors {
        let mut all = connection.prepare_cached(
            "SELECT m.provider, m.name, m.dimensions, c.rows, c.model FROM \
             (SELECT model, count(*) AS rows FROM vector WHERE space = ?1 GROUP BY model) c \
             JOIN model m ON m.id = c.model",
        )?;
        // Few have expired but are still there.
        let mut expired = connection.prepare_cached(
            "SELECT count(*) FROM entry e CROSS JOIN vector v ON v.space = e.space AND v.key = e.key AND v.model = ?2 \
             WHERE e.space = ?1 AND e.expires_at <= ?3",
        )?;
        let mut rows = all.query([counted.space])?;
        while let Some(row) = rows.next()? {
            let dimensions = usize::try_from(row.get::<_, i64>(2)?).map_err(|_| malformed("model"))?;
            let model = EmbeddingModel { provider: row.get(0)?, model: row.get(1)?, dimensions };
            let mut count: i64 = row.get(3)?;
            if counted.expiring {
                let gone: i64 = expired
                    .query_row(params![counted.space, row.get::<_, i64>(4)?, now.as_millis()], |row| {
                        row.get(0)
                    })?;
                count -= gone;
            }
            let count = row::unsigned(count, "count")?;
            if count > 0 {
                models.insert(model, count);
            }
        }
    }
    Ok(models
        .into_iter()
        .map(|(model, rows)| {
            let bytes = rows.saturating_mul(4).saturating_mul(model.dimensions as u64);
            let mut stats = ModelStats::new(model, rows, bytes);
            stats.missing = counted.entries.saturating_sub(rows);
            stats
        })
        .collect())
}
