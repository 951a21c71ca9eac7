//! Migrating from one store to another.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use memory_core::sql::{DumpStream, SqlFacet};
use memory_core::{
    Backend, Error, Provider, Record, RecordStream, Result, Scope, Stream, Taken, TenantId, TombstonesOf,
};
use serde::Serialize;

use super::control::{Control, Progress};
use super::format::digest::{EntriesDigest, EntriesHash, digest_of_dump, skipped_in, without_feed};
use super::report::{FacetReport, NotCarried, ScopeNote, add, add_lost};
use super::scopes::{Found, Walk};
use super::target::apply::{
    OnDifferent, Step, Target, conflict, database, is_of_the_scope, put_database, sql_step,
};
use super::target::last_use::Ages;
use super::target::only_in_target::OnlyInTarget;
use super::target::tombstones::{ScopeTombstones, carry};
use crate::stream::next;

/// What to migrate, and what may be replaced.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct MigrateOptions {
    /// What to do with a facet of a scope that differs in the target.
    pub on_different: OnDifferent,
    /// Only this tenant's scopes; `None`: every tenant's, if the source lists them.
    pub tenant: Option<TenantId>,
    /// Only this scope.
    pub scope: Option<Scope>,
    /// Compare, and write nothing.
    pub dry_run: bool,
    /// Remove scopes that only the target has, once everything else is copied.
    pub delete_extra: bool,
}

impl MigrateOptions {
    memory_core::setters! {
        with_on_different(on_different: OnDifferent);
        with_tenant(tenant: Option<TenantId>);
        with_scope(scope: Option<Scope>);
        with_dry_run(dry_run: bool);
        with_delete_extra(delete_extra: bool);
    }
}

/// The result of a migration.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct MigrateReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// Scopes checked.
    pub scopes: u64,
    /// The outcomes for these scopes' entries.
    pub entries: FacetReport,
    /// The outcomes for these scopes' databases.
    pub databases: FacetReport,
    /// Records stored.
    pub records: u64,
    /// Facets that were copied and found equal on both sides.
    pub verified: u64,
    /// Facets that differ after copying, because one side was written to in the meantime or does not preserve what it
    /// is given.
    pub mismatched: u64,
    /// The first thousand of them.
    pub mismatched_scopes: Vec<ScopeNote>,
    /// Scopes whose content in the target differs.
    pub conflicts: u64,
    /// The first thousand of them.
    pub conflicting_scopes: Vec<Scope>,
    /// Scopes whose content in the target differs and was kept, as requested.
    pub kept: u64,
    /// The first thousand of them.
    pub kept_scopes: Vec<Scope>,
    /// Scopes with content, in the migrated facets, only in the target; `None` if unknown, because the target does not
    /// list its tenants.
    pub only_in_target: Option<u64>,
    /// The first thousand of them.
    pub only_in_target_scopes: Vec<Scope>,
    /// How many of them were deleted, as requested, or would be.
    pub deleted_extra: u64,
    /// Facets that could not be read or stored; the target's were not changed.
    pub failed: u64,
    /// The first thousand of them.
    pub failed_scopes: Vec<ScopeNote>,
    /// Records left out because the target has forgotten them.
    pub forgotten_records: u64,
    /// What could not be copied, for the first thousand scopes.
    pub not_carried: Vec<NotCarried>,
}

impl MigrateReport {
    /// Whether everything requested is the same in the target as in the source. Anything else that the target has is in
    /// `only_in_target`.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.conflicts == 0 && self.mismatched == 0 && self.failed == 0 && self.not_carried.is_empty()
    }

    /// The outcome for a facet. If it cannot be read or stored, that is noted and nothing is done with it.
    fn step(&mut self, scope: &Scope, done: Result<Step>) -> Result<Step> {
        match done {
            Err(error) if is_of_the_scope(&error) => {
                add(&mut self.failed, &mut self.failed_scopes, ScopeNote::new(scope, &error));
                Ok(Step::None)
            }
            done => done,
        }
    }

    fn verified(&mut self, scope: &Scope, is_same: bool, what: &str) {
        if is_same {
            self.verified += 1;
            return;
        }
        let mut note = ScopeNote::new(scope, &Error::conflict(None));
        note.reason = format!("{what} differ on both sides after the copy; run it again while nobody writes");
        add(&mut self.mismatched, &mut self.mismatched_scopes, note);
    }
}

/// Copies every durable scope of one store to another. The source is only read.
///
/// # Behavior
/// - SNP-21: Scopes are copied one by one, as a snapshot and its restore would copy them; the source is only read.
/// - SNP-22: Running it again resumes it: what is the same on both sides is left alone.
/// - SNP-23: After each facet is copied, the target is compared with the source, and a difference is listed.
/// - SNP-24: Scopes that only the target holds are counted and named, and removed only on request, after all else is copied.
/// - SNP-1, SNP-2, SNP-14 to SNP-19: What is copied, and how it is stored, follows the rules of [`write()`](super::write())
///   and [`restore`](super::restore).
///
/// # Errors
/// `conflict` for scopes with different content in the target; `capability_unsupported` for a store that cannot import
/// a scope as a whole, for a source that does not list its tenants, and for such a target if extra scopes are to be
/// removed; `unavailable` if it was stopped; the stores' errors.
pub async fn migrate(
    from: &dyn Provider,
    to: &dyn Provider,
    options: &MigrateOptions,
    control: &Control,
) -> Result<MigrateReport> {
    let moving = Moving { from, to, target: Target::new(to)?, options, control };
    if options.delete_extra && !moving.tells_extra() {
        return Err(Error::unsupported("tenants", to.name()));
    }
    if options.dry_run || options.on_different == OnDifferent::Refuse {
        let mut planned = moving.pass(false).await?;
        planned.dry_run = options.dry_run;
        if options.dry_run {
            moving.extra(&mut planned).await?;
            return Ok(planned);
        }
        if planned.conflicts > 0 {
            return Err(conflict(planned.conflicts, planned.conflicting_scopes.first()));
        }
    }
    let of = match (&options.scope, &options.tenant) {
        (Some(scope), _) => TombstonesOf::Scope(scope.clone()),
        (None, Some(tenant)) => TombstonesOf::Tenant(tenant.clone()),
        (None, None) => TombstonesOf::Store,
    };
    carry(from, &of, to).await?;
    let mut report = moving.pass(true).await?;
    moving.extra(&mut report).await?;
    Ok(report)
}

struct Moving<'a> {
    from: &'a dyn Provider,
    to: &'a dyn Provider,
    target: Target<'a>,
    options: &'a MigrateOptions,
    control: &'a Control,
}

impl Moving<'_> {
    async fn pass(&self, applies: bool) -> Result<MigrateReport> {
        let mut report = MigrateReport::default();
        let mut progress = Progress::default();
        let mut ages = Ages::new(self.from);
        let mut walk = Walk::new(self.from, self.options.tenant.as_ref(), self.options.scope.as_ref());
        while let Some(found) = walk.next().await? {
            self.control.go_on()?;
            let mut what = Vec::new();
            let mut buried = ScopeTombstones::of(self.to, &found.scope).await?;
            if let Some(at) = buried.whole {
                buried.source_is_before = ages.is_before(&found.scope, at).await?;
            }
            let entries = self.entries(&found, &buried, applies, &mut report, &mut what).await;
            let entries = report.step(&found.scope, entries)?;
            entries.count(&mut report.entries);
            let sql = self.sql(&found, &buried, applies, &mut report, &mut what).await;
            let sql = report.step(&found.scope, sql)?;
            sql.count(&mut report.databases);
            if [entries, sql].contains(&Step::Conflict) {
                add(&mut report.conflicts, &mut report.conflicting_scopes, found.scope.clone());
            }
            if [entries, sql].contains(&Step::Keep) {
                add(&mut report.kept, &mut report.kept_scopes, found.scope.clone());
            }
            add_lost(&mut report.not_carried, &found.scope, what);
            report.scopes += 1;
            progress.scopes += 1;
            progress.entries = report.records;
            self.control.show(&progress);
        }
        Ok(report)
    }

    fn tells_extra(&self) -> bool {
        OnlyInTarget::can_be_told(self.to, self.options.tenant.as_ref(), self.options.scope.as_ref())
    }

    /// SNP-24.
    async fn extra(&self, report: &mut MigrateReport) -> Result<()> {
        if !self.tells_extra() {
            return Ok(());
        }
        let MigrateOptions { tenant, scope, delete_extra, dry_run, .. } = self.options;
        let mut extras =
            OnlyInTarget::new((self.from, self.to), tenant.as_ref(), scope.as_ref(), self.control);
        let mut count = 0;
        while let Some(scope) = extras.next(*delete_extra && !dry_run).await? {
            add(&mut count, &mut report.only_in_target_scopes, scope);
            report.deleted_extra += u64::from(*delete_extra);
        }
        report.only_in_target = Some(count);
        Ok(())
    }

    /// The digest of those records of a scope that the target accepts, and how many others there are.
    async fn digest(
        &self,
        scope: &Scope,
        source: &dyn Backend,
        buried: &ScopeTombstones,
    ) -> Result<(EntriesDigest, u64)> {
        let hash = Arc::new(Mutex::new(Passed::default()));
        let mut records: RecordStream = Box::pin(Digested {
            records: source.export_scope(scope).await?,
            buried: buried.clone(),
            hash: Arc::clone(&hash),
            control: self.control.clone(),
        });
        while let Some(record) = next(&mut records).await {
            drop(record?);
        }
        Ok(std::mem::take(&mut *hash.lock().unwrap_or_else(PoisonError::into_inner)).end())
    }

    async fn entries(
        &self,
        found: &Found,
        buried: &ScopeTombstones,
        applies: bool,
        report: &mut MigrateReport,
        what: &mut Vec<String>,
    ) -> Result<Step> {
        let (Some(source), scope) = (self.from.backend(), &found.scope) else { return Ok(Step::None) };
        if self.target.backend.is_none() {
            if found.entries.is_some() {
                what.push("the entries: the target stores none".to_owned());
            }
            return Ok(Step::None);
        }
        let held = self.target.entries(scope, self.control).await?;
        let step = match (&held, found.entries) {
            (None, None) => return Ok(Step::None),
            (None, Some(_)) if buried.is_none() => Step::Fill,
            (held, _) => {
                let (wanted, left_out) = self.digest(scope, source, buried).await?;
                if wanted.entries == 0 && (left_out > 0 || buried.source_is_before) {
                    // Everything in the target was written after it forgot all that the source has.
                    if applies {
                        report.forgotten_records += left_out;
                    }
                    return Ok(Step::None);
                }
                self.target.entries_step(&wanted, held.as_ref(), self.options.on_different)
            }
        };
        if !applies || !step.writes() {
            return Ok(step);
        }
        let hash = Arc::new(Mutex::new(Passed::default()));
        let records = Digested {
            records: source.export_scope(scope).await?,
            buried: buried.clone(),
            hash: Arc::clone(&hash),
            control: self.control.clone(),
        };
        report.records +=
            self.target.put_entries(scope, step, Box::pin(records), Taken::Undated).await?.created;
        let hash = std::mem::take(&mut *hash.lock().unwrap_or_else(PoisonError::into_inner));
        let (copied, left_out) = hash.end();
        report.forgotten_records += left_out;
        let stored = self.target.entries(scope, self.control).await?.unwrap_or_default();
        let mut is_same = copied.same_content(&stored) || copied.entries == 0 && stored.entries == 0;
        if !is_same {
            // Entries that have expired since are gone on both sides.
            let (now, _) = self.digest(scope, source, buried).await?;
            is_same = now.same_content(&stored);
        }
        report.verified(scope, is_same, "the entries");
        Ok(step)
    }

    async fn sql(
        &self,
        found: &Found,
        buried: &ScopeTombstones,
        applies: bool,
        report: &mut MigrateReport,
        what: &mut Vec<String>,
    ) -> Result<Step> {
        let (Some(source), Some(dialect)) = (self.from.sql(), self.from.capabilities().sql_dialect) else {
            return Ok(Step::None);
        };
        let scope = &found.scope;
        let Some(facet) = self.target.sql_of(dialect) else {
            if found.sql.is_some() {
                what.push("the SQL database: the target serves none in its dialect".to_owned());
            }
            return Ok(Step::None);
        };
        if buried.source_is_before {
            if found.sql.is_some() {
                what.push(
                    "the SQL database: the target has forgotten the scope, but the source has not".to_owned(),
                );
            }
            return Ok(Step::None);
        }
        let held = database(facet, scope, self.control).await?;
        let told = Arc::default();
        let wanted = match found.sql {
            Some(_) => digest_of_dump(self.heard(source, scope, &told).await?, self.control).await?,
            None => None,
        };
        let step = sql_step(wanted.as_ref(), held.as_ref(), self.options.on_different);
        if !applies || !step.writes() {
            // What no dump contains is missing in the target, however often this runs.
            what.append(&mut taken(&told));
            return Ok(step);
        }
        if step == Step::Remove {
            facet.drop_sql_scope(scope).await?;
            return Ok(step);
        }
        let told = Arc::default();
        let dump = self.heard(source, scope, &told).await?;
        let refused = put_database(facet, scope, step, dump, None).await?.skipped;
        let mut lost = taken(&told);
        let refuses = refused.iter().any(|one| !lost.contains(one));
        lost.extend(refused);
        lost.dedup();
        what.append(&mut lost);
        if !refuses {
            let stored = database(facet, scope, self.control).await?;
            let now = database(source, scope, self.control).await?;
            let is_same = now.map(|digest| digest.content) == stored.map(|digest| digest.content);
            report.verified(scope, is_same, "the SQL database");
        }
        Ok(step)
    }

    /// The dump of a scope's database, collecting what it says it does not contain.
    async fn heard(&self, source: &dyn SqlFacet, scope: &Scope, told: &Told) -> Result<DumpStream> {
        let dump = source.dump(scope).await?;
        Ok(Box::pin(Heard { dump, told: Arc::clone(told), control: self.control.clone() }))
    }
}

fn taken(told: &Told) -> Vec<String> {
    std::mem::take(&mut *told.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Totals of a stream of records.
#[derive(Default)]
struct Passed {
    hash: EntriesHash,
    left_out: u64,
}

impl Passed {
    fn end(self) -> (EntriesDigest, u64) {
        (EntriesDigest::of(&self.hash.end()), self.left_out)
    }
}

/// Digests the records that the target accepts.
struct Digested {
    records: RecordStream,
    buried: ScopeTombstones,
    hash: Arc<Mutex<Passed>>,
    control: Control,
}

impl Stream for Digested {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Err(stopped) = self.control.go_on() {
                return Poll::Ready(Some(Err(stopped)));
            }
            let item = ready!(self.records.as_mut().poll_next(context));
            let Some(Ok(mut record)) = item else { return Poll::Ready(item) };
            let mut passed = self.hash.lock().unwrap_or_else(PoisonError::into_inner);
            if self.buried.leaves_out(&record.entry.key, record.entry.updated_at) {
                passed.left_out += 1;
                continue;
            }
            record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
            let hashed = passed.hash.add_line(b"", &mut record);
            drop(passed);
            return Poll::Ready(Some(hashed.map(|()| record)));
        }
    }
}

/// Most omissions reported from one scope's dump.
const MAX_REPORTED: usize = 1_000;

/// What a dump says it does not contain.
type Told = Arc<Mutex<Vec<String>>>;

/// A dump whose lines about omissions are collected.
struct Heard {
    dump: DumpStream,
    told: Told,
    control: Control,
}

impl Stream for Heard {
    type Item = Result<Vec<u8>>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if let Err(stopped) = self.control.go_on() {
            return Poll::Ready(Some(Err(stopped)));
        }
        let item = ready!(self.dump.as_mut().poll_next(context));
        if let Some(Ok(line)) = &item
            && let Some(what) = skipped_in(without_feed(line))
        {
            let mut told = self.told.lock().unwrap_or_else(PoisonError::into_inner);
            if told.len() < MAX_REPORTED {
                told.push(what);
            }
        }
        Poll::Ready(item)
    }
}
