//! Vectors as rows, written in the same transactions as their entries.

use memory_core::{EmbeddingModel, Key, RecordVector, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::numbers::{decode, encode};
use crate::commit::batch::Batch;
use crate::commit::feed::{StoredVector, TextEdit};
use crate::commit::scope::{Space, Target};
use crate::error::{Fault, Unreadable, malformed};
use crate::file::column::signed;

/// A vector to store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NewVector<'a> {
    pub(crate) model: &'a EmbeddingModel,
    /// The embedded text, if it is not the entry's search text.
    pub(crate) text: Option<&'a str>,
    pub(crate) numbers: &'a [f32],
}

/// The entry that vectors are stored for, as seen in the transaction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Owner<'a> {
    pub(crate) key: &'a Key,
    pub(crate) version: u64,
    pub(crate) expires_at: Option<Timestamp>,
}

/// Vectors added and removed by one change of a scope.
#[derive(Debug, Default)]
pub(crate) struct Put {
    gone: Vec<i64>,
    stored: Vec<StoredVector>,
}

impl Batch<'_> {
    /// Replaces an entry's vectors. [`end_vectors`](Self::end_vectors) must follow.
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
            put.stored.push(StoredVector { id, model });
        }
        space.vectors += vectors.len() as u64;
        Ok(())
    }

    /// Records what was put as one change of the scope.
    pub(crate) fn end_vectors(&mut self, target: &Target, space: &mut Space, put: Put) {
        if put.stored.is_empty() && put.gone.is_empty() {
            return;
        }
        space.changes += 1;
        space.touch();
        self.publish_vectors(&target.digest, space, put.gone, put.stored);
        self.publish_text(&target.digest, space, || TextEdit::None);
    }

    /// The number of a model, assigned now if it has none.
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
}

/// The number of a model; `None` if the file has no vector of it.
pub(crate) fn model_id(connection: &Connection, model: &EmbeddingModel) -> rusqlite::Result<Option<i64>> {
    connection
        .prepare_cached("SELECT id FROM model WHERE provider = ?1 AND name = ?2 AND dimensions = ?3")?
        .query_row(params![model.provider, model.model, signed(model.dimensions as u64)], |row| row.get(0))
        .optional()
}

/// Whether an entry of the scope has a vector, but none of this model (`None`: the file has none of it). Looks at the
/// first vector of another model, and continues only past entries that have vectors of both.
pub(crate) fn has_stale(connection: &Connection, space: i64, model: Option<i64>) -> rusqlite::Result<bool> {
    let look = |order: &str| {
        connection
            .prepare_cached(&format!(
                "SELECT EXISTS (SELECT 1 FROM vector v WHERE v.space = ?1 AND v.model {order} ?2 AND NOT EXISTS \
                 (SELECT 1 FROM vector w WHERE w.space = v.space AND w.key = v.key AND w.model = ?2))"
            ))?
            .query_row(params![space, model.unwrap_or(0)], |row| row.get(0))
    };
    Ok(look(">")? || look("<")?)
}

/// The vectors of an entry, as exported.
pub(crate) fn of_entry(
    connection: &Connection,
    space: i64,
    key: &str,
) -> Result<Vec<RecordVector>, Unreadable> {
    let mut statement = connection.prepare_cached(
        "SELECT m.provider, m.name, m.dimensions, v.text, v.data FROM vector v JOIN model m ON m.id = v.model \
         JOIN entry e ON e.space = v.space AND e.key = v.key AND e.version = v.version \
         WHERE v.space = ?1 AND v.key = ?2 ORDER BY m.provider, m.name, m.dimensions",
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
