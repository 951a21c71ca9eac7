//! Restoring a snapshot.

use std::io::{BufRead, Seek};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use memory_core::{
    Clock as _, Error, ImportOutcome, Key, Provider, Record, Result, Scope, SqlDialect, Taken, TenantId,
    Timestamp, Tombstone,
};
use serde::Serialize;

use super::control::Control;
use super::format::digest::{EntriesDigest, EntriesHash, SqlDigest};
use super::format::lines::Section;
use super::format::scanner::{Item, Scanner};
use super::report::{FacetReport, NotCarried, ScopeNote, add, add_lost};
use super::target::apply::{
    OnDifferent, Step, Target, conflict, database, is_of_the_scope, put_database, sql_step,
};
use super::target::streams::{Beside, Dump, File, Records, lock};
use super::target::tombstones::ScopeTombstones;
use crate::system::SystemClock;

/// What to restore, and what may be replaced.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct RestoreOptions {
    /// What to do with a facet of a scope whose content differs.
    pub on_different: OnDifferent,
    /// Only this tenant's scopes.
    pub tenant: Option<TenantId>,
    /// Only this scope.
    pub scope: Option<Scope>,
    /// Check the file and report what would be done.
    pub dry_run: bool,
    /// The current time, for entries that have expired since; `None` for this host's clock.
    pub now: Option<Timestamp>,
}

impl RestoreOptions {
    memory_core::setters! {
        with_on_different(on_different: OnDifferent);
        with_tenant(tenant: Option<TenantId>);
        with_scope(scope: Option<Scope>);
        with_dry_run(dry_run: bool);
        with_now(now: Option<Timestamp>);
    }

    fn takes(&self, scope: &Scope) -> bool {
        self.tenant.as_ref().is_none_or(|tenant| *tenant == scope.tenant)
            && self.scope.as_ref().is_none_or(|only| only == scope)
    }
}

/// The result of a restore.
#[derive(Clone, Debug, Default, Serialize)]
#[non_exhaustive]
pub struct RestoreReport {
    /// Whether nothing was written.
    pub dry_run: bool,
    /// When the snapshot was taken.
    pub taken_at: Option<Timestamp>,
    /// Scopes of the snapshot that were checked.
    pub scopes: u64,
    /// The outcomes for these scopes' entries.
    pub entries: FacetReport,
    /// The outcomes for these scopes' databases.
    pub databases: FacetReport,
    /// Records stored.
    pub records: u64,
    /// Scopes whose content differs; they are restored only if requested.
    pub conflicts: u64,
    /// The first thousand of them.
    pub conflicting_scopes: Vec<Scope>,
    /// Scopes whose content differs and was kept, as requested.
    pub kept: u64,
    /// The first thousand of them.
    pub kept_scopes: Vec<Scope>,
    /// Scopes that the snapshot names but does not contain.
    pub skipped: u64,
    /// The first thousand of them.
    pub skipped_scopes: Vec<ScopeNote>,
    /// Facets that the target refused; they were not changed.
    pub failed: u64,
    /// The first thousand of them.
    pub failed_scopes: Vec<ScopeNote>,
    /// Scopes left unchanged because they were forgotten after the snapshot was taken.
    pub forgotten: u64,
    /// The first thousand of them.
    pub forgotten_scopes: Vec<Scope>,
    /// Records of other scopes left out because their keys were forgotten.
    pub forgotten_records: u64,
    /// What could not be restored, for the first thousand scopes.
    pub not_carried: Vec<NotCarried>,
}

impl RestoreReport {
    /// Whether everything requested is in the store.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.conflicts == 0 && self.skipped == 0 && self.failed == 0 && self.not_carried.is_empty()
    }

    fn failed(&mut self, scope: &Scope, error: &Error) {
        add(&mut self.failed, &mut self.failed_scopes, ScopeNote::new(scope, error));
    }
}

/// Restores a snapshot into a store.
///
/// Reads the whole file before writing anything, and again while writing. Occupies a thread of the executor while it
/// reads and digests.
///
/// # Behavior
/// - SNP-11: A file that is truncated, reordered, changed in any bit or not of this format is `corrupt`.
/// - SNP-12: The whole file is read and checked before anything is written, and again as it is applied.
/// - SNP-13: Nothing in a file makes a reader use more memory than one line and what the import holds.
/// - SNP-14: The entries of a scope are stored in one transaction, and so is its SQL database.
/// - SNP-15: An empty facet is filled, and one that already holds the same is left alone; otherwise the caller chooses.
/// - SNP-16: Restoring again changes nothing; a restore that was stopped or killed continues when it is run again.
/// - SNP-17: Entries keep value, metadata, source, text, times, expiry, access count and vectors, and in a scope that was
///   never written their versions.
/// - SNP-18: What the target cannot take is listed by scope, and the rest is restored.
/// - SNP-19: A SQL database is replaced in one transaction.
/// - SNP-20: A restore can be limited to a tenant or a scope; a dry run writes nothing.
///
/// # Errors
/// `corrupt` for an invalid snapshot; `conflict` for scopes with different content; `capability_unsupported` for a
/// store that cannot import a scope as a whole; `unavailable` if it was stopped; the store's errors. Scopes before the
/// error are restored.
pub async fn restore<R: BufRead + Seek + Send + 'static>(
    to: &dyn Provider,
    file: R,
    options: &RestoreOptions,
    control: &Control,
) -> Result<RestoreReport> {
    let target = Target::new(to)?;
    let scanner = Scanner::open(file)?;
    let taken_at = scanner.header.created_at;
    let start = scanner.mark();
    let mut restoring = Restoring {
        provider: to,
        target,
        taken: taken_at,
        file: Arc::new(Mutex::new(scanner)),
        options,
        control,
        now: options.now.unwrap_or_else(|| SystemClock.now()),
    };
    // Find all conflicts before writing anything.
    let plans = options.dry_run || options.on_different == OnDifferent::Refuse;
    let mut planned = restoring.pass(if plans { Pass::Plan } else { Pass::Check }).await?;
    planned.dry_run = options.dry_run;
    planned.taken_at = Some(taken_at);
    if options.dry_run {
        return Ok(planned);
    }
    if planned.conflicts > 0 {
        return Err(conflict(planned.conflicts, planned.conflicting_scopes.first()));
    }
    lock(&restoring.file).rewind(start)?;
    let mut report = restoring.pass(Pass::Apply).await?;
    report.taken_at = Some(taken_at);
    Ok(report)
}

/// The purpose of reading the file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Pass {
    /// Checking the file.
    Check,
    /// Find out what would be done.
    Plan,
    /// Restoring.
    Apply,
}

struct Restoring<'a, R> {
    provider: &'a dyn Provider,
    /// When the snapshot was taken, but not before its own tombstones, in case two clocks differ.
    taken: Timestamp,
    target: Target<'a>,
    file: File<R>,
    options: &'a RestoreOptions,
    control: &'a Control,
    now: Timestamp,
}

/// A scope of the file, with its digests.
struct Read {
    scope: Scope,
    /// Covers the records that have not expired; `None` if the snapshot does not cover entries.
    entries: Option<EntriesDigest>,
    /// `None` if the snapshot does not cover databases; inner `None` if the scope has none.
    sql: Option<Option<SqlDigest>>,
    not_carried: Vec<String>,
    /// How many records were left out.
    forgotten: u64,
}

enum Met {
    Scope(Box<Read>),
    Skipped(ScopeNote),
}

/// What was read between scopes.
enum Between {
    Scope(Scope),
    Tombstones(Vec<Tombstone>),
    End,
}

impl<R: BufRead + Seek + Send + 'static> Restoring<'_, R> {
    async fn pass(&mut self, pass: Pass) -> Result<RestoreReport> {
        let mut report = RestoreReport::default();
        loop {
            let before = lock(&self.file).mark();
            let scope = match self.between()? {
                Between::End => break,
                Between::Tombstones(tombstones) => {
                    self.bury(&tombstones, pass).await?;
                    continue;
                }
                Between::Scope(scope) => scope,
            };
            let judged = pass != Pass::Check && self.options.takes(&scope);
            let buried = if judged {
                ScopeTombstones::of(self.provider, &scope).await?
            } else {
                ScopeTombstones::default()
            };
            let read = match self.read_scope(scope, pass, &buried)? {
                Met::Skipped(note) => {
                    if self.options.takes(&note.scope) {
                        add(&mut report.skipped, &mut report.skipped_scopes, note);
                    }
                    continue;
                }
                Met::Scope(read) => read,
            };
            self.control.show(lock(&self.file).progress());
            if !self.options.takes(&read.scope) {
                continue;
            }
            report.scopes += 1;
            if pass == Pass::Check {
                continue;
            }
            if buried.covers(self.taken) {
                add(&mut report.forgotten, &mut report.forgotten_scopes, read.scope);
                continue;
            }
            report.forgotten_records += read.forgotten;
            let (mut what, dialect) = (read.not_carried.clone(), lock(&self.file).header.sql_dialect);
            // The snapshot knows nothing of entries written under a key after it was forgotten.
            let mut later = Vec::new();
            let entries = match (&read.entries, self.target.backend) {
                (Some(wanted), Some(_)) => {
                    let is_later = |key: &Key| buried.leaves_out(key, self.taken);
                    let (held, apart) = self.target.entries_but(&read.scope, is_later, self.control).await?;
                    later = apart;
                    self.target.entries_step(wanted, held.as_ref(), self.options.on_different)
                }
                (Some(wanted), None) if wanted.entries > 0 => {
                    what.push(format!("{} entries: the target stores none", wanted.entries));
                    Step::None
                }
                _ => Step::None,
            };
            let sql = match (&read.sql, dialect.and_then(|dialect| self.target.sql_of(dialect))) {
                (Some(wanted), Some(facet)) => {
                    let held = database(facet, &read.scope, self.control).await?;
                    sql_step(wanted.as_ref(), held.as_ref(), self.options.on_different)
                }
                (Some(Some(_)), None) => {
                    what.push("the SQL database: the target serves none in its dialect".to_owned());
                    Step::None
                }
                _ => Step::None,
            };
            if entries == Step::Conflict || sql == Step::Conflict {
                add(&mut report.conflicts, &mut report.conflicting_scopes, read.scope.clone());
            }
            if entries == Step::Keep || sql == Step::Keep {
                add(&mut report.kept, &mut report.kept_scopes, read.scope.clone());
            }
            let done = match pass {
                Pass::Apply if entries.writes() || sql.writes() => {
                    let after = lock(&self.file).mark();
                    lock(&self.file).rewind(before)?;
                    let later = (&buried, later);
                    let done = self.apply(&read.scope, (entries, sql), later, &mut report, &mut what).await?;
                    lock(&self.file).rewind(after)?;
                    done
                }
                _ => (entries, sql),
            };
            done.0.count(&mut report.entries);
            done.1.count(&mut report.databases);
            add_lost(&mut report.not_carried, &read.scope, what);
        }
        Ok(report)
    }

    fn between(&self) -> Result<Between> {
        Ok(match lock(&self.file).next()? {
            Item::Scope(scope) => Between::Scope(scope),
            Item::Tombstones(tombstones) => Between::Tombstones(tombstones),
            // The reader allows nothing else here.
            _ => Between::End,
        })
    }

    /// FGT-41. Tombstones in the file are older than the file, whatever the clocks say.
    async fn bury(&mut self, tombstones: &[Tombstone], pass: Pass) -> Result<()> {
        let later = |at: Timestamp| at.checked_add(Duration::from_millis(1)).unwrap_or(Timestamp::MAX);
        let least = tombstones.iter().map(|tombstone| later(tombstone.at)).max();
        self.taken = least.map_or(self.taken, |least| self.taken.max(least));
        if pass == Pass::Apply && self.target.erases {
            self.provider.bury(tombstones).await?;
        }
        Ok(())
    }

    /// Reads a scope to its end and checks it.
    fn read_scope(&self, scope: Scope, pass: Pass, buried: &ScopeTombstones) -> Result<Met> {
        let mut file = lock(&self.file);
        let has_sql = file.header.sections.contains(&Section::Sql);
        let mut read = Read {
            scope,
            entries: None,
            sql: has_sql.then_some(None),
            not_carried: Vec::new(),
            forgotten: 0,
        };
        let mut living = EntriesHash::default();
        loop {
            self.control.go_on()?;
            match file.next()? {
                Item::Record(record) if buried.leaves_out(&record.entry.key, self.taken) => {
                    read.forgotten += 1;
                }
                Item::Record(mut record) => {
                    if pass != Pass::Check && !record.entry.is_expired(self.now) {
                        living.add_line(b"", &mut record)?;
                    }
                }
                Item::EntriesEnd => {
                    read.entries = Some(EntriesDigest::of(&std::mem::take(&mut living).end()));
                }
                Item::SqlEnd(end) => read.sql = Some(SqlDigest::of(&end)),
                Item::ScopeEnd(end) => {
                    read.not_carried = end.not_carried;
                    return Ok(Met::Scope(Box::new(read)));
                }
                Item::ScopeSkipped(skipped) => {
                    let mut note = ScopeNote::new(&read.scope, &Error::internal(skipped.reason));
                    note.code = skipped.code;
                    return Ok(Met::Skipped(note));
                }
                Item::Scope(_) | Item::Tombstones(_) | Item::SqlBegin | Item::Sql(_) | Item::End => {}
            }
        }
    }

    /// Carries out the decisions; returns what was done.
    async fn apply(
        &self,
        scope: &Scope,
        (entries, sql): (Step, Step),
        (buried, later): (&ScopeTombstones, Vec<Record>),
        report: &mut RestoreReport,
        what: &mut Vec<String>,
    ) -> Result<(Step, Step)> {
        let (mut done_entries, mut done_sql) = (entries, sql);
        let begin = lock(&self.file).mark();
        if entries.writes() {
            let beside = later.len() as u64;
            match self.put_entries(scope, entries, buried, later).await {
                Ok(outcome) => report.records += outcome.created.saturating_sub(beside),
                Err(error) if is_of_the_scope(&error) => {
                    report.failed(scope, &error);
                    done_entries = Step::None;
                }
                Err(error) => return Err(of_scope(error, scope)),
            }
        }
        if sql.writes() {
            lock(&self.file).rewind(begin)?;
            match self.apply_sql(scope, sql).await {
                Ok(skipped) => {
                    for one in skipped {
                        if !what.contains(&one) {
                            what.push(one);
                        }
                    }
                }
                Err(error) if is_of_the_scope(&error) => {
                    report.failed(scope, &error);
                    done_sql = Step::None;
                }
                Err(error) => return Err(of_scope(error, scope)),
            }
        }
        Ok((done_entries, done_sql))
    }

    /// FGT-40.
    async fn put_entries(
        &self,
        scope: &Scope,
        step: Step,
        buried: &ScopeTombstones,
        later: Vec<Record>,
    ) -> Result<ImportOutcome> {
        let records = Records::of(&self.file, self.control);
        if later.is_empty() {
            return self.target.put_entries(scope, step, Box::pin(records), Taken::At(self.taken)).await;
        }
        let (later, buried) = (later.into_iter(), buried.clone());
        let taken = Taken::At(buried.after());
        let records = Beside { records, buried, taken: self.taken, later };
        self.target.put_entries(scope, Step::Replace, Box::pin(records), taken).await
    }

    async fn apply_sql(&self, scope: &Scope, step: Step) -> Result<Vec<String>> {
        let dialect: Option<SqlDialect> = lock(&self.file).header.sql_dialect;
        let Some(facet) = dialect.and_then(|dialect| self.target.sql_of(dialect)) else {
            return Err(Error::internal("there is no SQL facet of the dialect"));
        };
        if step == Step::Remove {
            facet.drop_sql_scope(scope).await?;
            return Ok(Vec::new());
        }
        let lines = Dump::of(&self.file, self.control);
        let taken_at = self.target.erases.then_some(self.taken);
        let outcome = put_database(facet, scope, step, Box::pin(lines), taken_at).await?;
        let mut skipped = outcome.skipped;
        if outcome.forgotten {
            skipped.push("the SQL database: the scope was forgotten meanwhile".to_owned());
        }
        Ok(skipped)
    }
}

/// Adds the scope to an error.
fn of_scope(error: Error, scope: &Scope) -> Error {
    if error.details().contains_key("scope") {
        return error;
    }
    error.with_detail("scope", serde_json::to_value(scope).unwrap_or_default())
}
