//! What a target holds of a scope, what is done about it, and how one is filled.

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

/// What happens to a facet of a scope that holds something else than the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OnDifferent {
    /// Nothing is written at all: the operation ends with `conflict` before it begins.
    #[default]
    Refuse,
    /// It is left as it is.
    Skip,
    /// The source's takes its place.
    Replace,
}

/// What is to be done about a facet of a scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::snapshot) enum Step {
    /// The source says nothing of it, or the target serves it not and nothing is lost.
    None,
    /// There is nothing: it is filled.
    Fill,
    /// It is different: replaced.
    Replace,
    /// It is different, and the source has nothing: removed.
    Remove,
    /// It is the same.
    Same,
    /// It is different and stays.
    Keep,
    /// It is different, which ends everything.
    Conflict,
}

impl Step {
    pub(in crate::snapshot) fn writes(self) -> bool {
        matches!(self, Self::Fill | Self::Replace | Self::Remove)
    }

    /// Counts the scope where it belongs.
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

/// Decides by what both sides hold.
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

/// A store that is written to.
pub(in crate::snapshot) struct Target<'a> {
    pub(in crate::snapshot) backend: Option<&'a dyn Backend>,
    pub(in crate::snapshot) sql: Option<(&'a dyn SqlFacet, SqlDialect)>,
    /// Whether it judges how old a copy is.
    pub(in crate::snapshot) erases: bool,
}

impl<'a> Target<'a> {
    /// # Errors
    /// `capability_unsupported` for a store that cannot take a scope's entries whole.
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

    /// The database of this dialect.
    pub(in crate::snapshot) fn sql_of(&self, dialect: SqlDialect) -> Option<&'a dyn SqlFacet> {
        self.sql.filter(|(_, own)| *own == dialect).map(|(sql, _)| sql)
    }

    /// The entries that the scope holds; `None`: none.
    pub(in crate::snapshot) async fn entries(
        &self,
        scope: &Scope,
        control: &Control,
    ) -> Result<Option<EntriesDigest>> {
        Ok(self.entries_but(scope, |_| false, control).await?.0)
    }

    /// The entries that the scope holds, without those that are apart; `None`: no others. And those.
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

    /// What is to be done about the entries.
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

    /// Stores the entries of a scope, whole or not at all.
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

/// What is to be done about a database.
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

/// The database that the scope holds; `None`: none.
pub(in crate::snapshot) async fn database(
    sql: &dyn SqlFacet,
    scope: &Scope,
    control: &Control,
) -> Result<Option<SqlDigest>> {
    digest_of_dump(sql.dump(scope).await?, control).await
}

/// Makes a scope's database; what of it the target refused.
pub(in crate::snapshot) async fn put_database(
    sql: &dyn SqlFacet,
    scope: &Scope,
    step: Step,
    dump: DumpStream,
    taken_at: Option<Timestamp>,
) -> Result<RestoreOutcome> {
    let mode = if step == Step::Replace { RestoreMode::Replace } else { RestoreMode::IntoEmpty };
    // What the dump itself said it could not hold is told with the scope already.
    sql.restore(scope, dump, RestoreOptions::default().with_mode(mode).with_taken_at(taken_at)).await
}

/// Whether an error is about what a scope holds, so that others can go on, and not about the store, the file or a wish
/// to stop.
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
            "{count} scopes hold something else than the source{named}; nothing was written: choose whether they are \
             kept or replaced, or restore into an empty store"
        ),
    )
    .with_detail("scopes", count)
}
