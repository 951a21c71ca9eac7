//! What a target's scope contains, what to do about it, and filling it.

use memory_core::sql::{DumpStream, RestoreMode, RestoreOptions, RestoreOutcome};
use memory_core::{
    Atomicity, Backend, Error, ErrorKind, ImportOptions, ImportOutcome, Key, ListQuery, OnExisting, Provider,
    Record, RecordStream, Result, Scope, SqlDialect, SqlFacet, Taken, Timestamp,
};
use serde::{Deserialize, Serialize};

use super::super::control::Control;
use super::super::format::digest::{EntriesDigest, EntriesHash, SqlDigest, digest_of_dump};
use super::super::report::FacetReport;
use crate::stream::next;

/// What to do with a facet of a scope that differs from the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDifferent {
    /// Write nothing at all: the operation ends with `conflict` before it starts.
    #[default]
    Refuse,
    /// Keep it.
    Skip,
    /// Replace it with the source's.
    Replace,
}

/// The decision about a facet of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::snapshot) enum Step {
    /// The source does not cover it, or the target does not serve it and nothing is lost.
    None,
    /// It is empty: fill it.
    Fill,
    /// It differs: replace it.
    Replace,
    /// It differs, and the source is empty: remove it.
    Remove,
    /// It is equal.
    Same,
    /// It differs: keep it.
    Keep,
    /// It differs: abort everything.
    Conflict,
}

impl Step {
    pub(in crate::snapshot) fn writes(self) -> bool {
        matches!(self, Self::Fill | Self::Replace | Self::Remove)
    }

    /// Counts the scope in the report.
    pub(in crate::snapshot) fn count(self, report: &mut FacetReport) {
        match self {
            Self::Fill => report.restored += 1,
            Self::Replace | Self::Remove => report.replaced += 1,
            Self::Same => report.unchanged += 1,
            Self::Keep => report.kept += 1,
            Self::None | Self::Conflict => {}
        }
    }
}

/// Decides from the content of both sides.
fn decide(source_empty: bool, target_empty: bool, same: bool, on_different: OnDifferent) -> Step {
    if same {
        return if source_empty { Step::None } else { Step::Same };
    }
    match (target_empty, on_different) {
        (true, _) => Step::Fill,
        (false, OnDifferent::Replace) if source_empty => Step::Remove,
        (false, OnDifferent::Replace) => Step::Replace,
        (false, OnDifferent::Skip) => Step::Keep,
        (false, OnDifferent::Refuse) => Step::Conflict,
    }
}

/// A store to write to.
pub(in crate::snapshot) struct Target<'a> {
    pub(in crate::snapshot) backend: Option<&'a dyn Backend>,
    pub(in crate::snapshot) sql: Option<(&'a dyn SqlFacet, SqlDialect)>,
    /// Whether it takes the age of a copy into account.
    pub(in crate::snapshot) erases: bool,
}

impl<'a> Target<'a> {
    pub(in crate::snapshot) fn new(provider: &'a dyn Provider) -> Result<Self> {
        let capabilities = provider.capabilities();
        if provider.backend().is_some() && !capabilities.atomic_import {
            return Err(
                Error::unsupported("import_scope", provider.name()).with_detail("option", "atomicity")
            );
        }
        let target = Self {
            backend: provider.backend(),
            sql: provider.sql().zip(capabilities.sql_dialect),
            erases: capabilities.erase,
        };
        if target.backend.is_none() && target.sql.is_none() {
            return Err(Error::unsupported("restore", provider.name()));
        }
        Ok(target)
    }

    /// The SQL facet, if it has this dialect.
    pub(in crate::snapshot) fn sql_of(&self, dialect: SqlDialect) -> Option<&'a dyn SqlFacet> {
        self.sql.filter(|(_, own)| *own == dialect).map(|(sql, _)| sql)
    }

    /// The scope's entries; `None` if it has none.
    pub(in crate::snapshot) async fn entries(
        &self,
        scope: &Scope,
        control: &Control,
    ) -> Result<Option<EntriesDigest>> {
        Ok(self.entries_but(scope, |_| false, control).await?.0)
    }

    /// The scope's entries without the separate ones (`None` if there are no others), and the separate ones.
    pub(in crate::snapshot) async fn entries_but(
        &self,
        scope: &Scope,
        is_apart: impl Fn(&Key) -> bool,
        control: &Control,
    ) -> Result<(Option<EntriesDigest>, Vec<Record>)> {
        let Some(backend) = self.backend else { return Ok((None, Vec::new())) };
        if backend.list(scope, ListQuery::default().with_limit(1)).await?.entries.is_empty() {
            return Ok((None, Vec::new()));
        }
        let (mut hash, mut apart) = (EntriesHash::default(), Vec::new());
        let mut records = backend.export_scope(scope).await?;
        while let Some(record) = next(&mut records).await {
            control.go_on()?;
            let record = record?;
            if is_apart(&record.entry.key) {
                apart.push(record);
            } else {
                hash.add(record)?;
            }
        }
        let digest = EntriesDigest::of(&hash.end());
        Ok(((digest.entries > 0).then_some(digest), apart))
    }

    /// The decision about the entries.
    pub(in crate::snapshot) fn entries_step(
        &self,
        wanted: &EntriesDigest,
        held: Option<&EntriesDigest>,
        on_different: OnDifferent,
    ) -> Step {
        if self.backend.is_none() {
            return Step::None;
        }
        let same = match held {
            Some(held) => held.same_content(wanted),
            None => wanted.entries == 0,
        };
        decide(wanted.entries == 0, held.is_none(), same, on_different)
    }

    /// Stores the entries of a scope, completely or not at all.
    pub(in crate::snapshot) async fn put_entries(
        &self,
        scope: &Scope,
        step: Step,
        records: RecordStream,
        taken: Taken,
    ) -> Result<ImportOutcome> {
        let Some(backend) = self.backend else { return Err(Error::internal("there is no key/value facet")) };
        let atomicity = if step == Step::Fill { Atomicity::Scope } else { Atomicity::Replacement };
        let options = ImportOptions::default().with_on_existing(OnExisting::Fail).with_atomicity(atomicity);
        let options = if self.erases { options.with_taken(taken) } else { options };
        backend.import_scope(scope, records, options).await
    }
}

/// The decision about a database.
pub(in crate::snapshot) fn sql_step(
    wanted: Option<&SqlDigest>,
    held: Option<&SqlDigest>,
    on_different: OnDifferent,
) -> Step {
    let same = match (wanted, held) {
        (Some(wanted), Some(held)) => wanted.content == held.content,
        (None, None) => true,
        _ => false,
    };
    decide(wanted.is_none(), held.is_none(), same, on_different)
}

/// The scope's database; `None` if it has none.
pub(in crate::snapshot) async fn database(
    sql: &dyn SqlFacet,
    scope: &Scope,
    control: &Control,
) -> Result<Option<SqlDigest>> {
    digest_of_dump(sql.dump(scope).await?, control).await
}

/// Creates a scope's database; returns what the target refused.
pub(in crate::snapshot) async fn put_database(
    sql: &dyn SqlFacet,
    scope: &Scope,
    step: Step,
    dump: DumpStream,
    taken_at: Option<Timestamp>,
) -> Result<RestoreOutcome> {
    let mode = if step == Step::Replace { RestoreMode::Replace } else { RestoreMode::IntoEmpty };
    // What the dump itself could not contain has already been reported with the scope.
    sql.restore(scope, dump, RestoreOptions::default().with_mode(mode).with_taken_at(taken_at)).await
}

/// Whether an error is about a scope's content, so that other scopes can continue, rather than about the store, the
/// file or a stop.
pub(in crate::snapshot) fn is_of_the_scope(error: &Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::InvalidArgument
            | ErrorKind::TooLarge
            | ErrorKind::QuotaExceeded
            | ErrorKind::StatementRefused
            | ErrorKind::ResultTooLarge
            | ErrorKind::WrongType
            | ErrorKind::Unsupported
    )
}

/// `conflict` for scopes that differ.
pub(in crate::snapshot) fn conflict(count: u64, first: Option<&Scope>) -> Error {
    let named = first.map(|scope| format!(", {scope} first")).unwrap_or_default();
    Error::new(
        ErrorKind::Conflict,
        format!(
            "{count} scopes differ from the source{named}; nothing was written: choose whether they are \
             kept or replaced (`--on-existing`), or restore into an empty store"
        ),
    )
    .with_detail("scopes", count)
}
