//! Refuses vectors whose length differs from that of the stored ones, before anything is written.

use memory_core::{EmbeddingModel, Error, ErrorKind, ScopeDigest, Timestamp};
use rusqlite::{Connection, OptionalExtension as _, params};

use super::state::ScopeState;
use crate::commit::batch::Batch;
use crate::commit::scope::Space;
use crate::error::{Fault, Unreadable};
use crate::file::column::signed;

impl Batch<'_> {
    /// Refuses a model whose vectors differ in length from those of the same model in the scope (EMB-2).
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

/// Like [`Batch::check_dimensions`], for a search.
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
            "the scope holds vectors of this model with another length, so nothing was written; configure the \
             model's own dimensions, or move the scope to them with `reembed`",
        )
        .with_detail("expected", other)
        .with_detail("actual", model.dimensions)
        .into()),
    }
}
