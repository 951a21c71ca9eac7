//! `snapshot`, `restore` and `migrate`.

use std::fs::File;
use std::io::BufReader;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use clap::{Args, ValueEnum};
use memory::snapshot::{
    self, Control, FacetReport, MigrateOptions, MigrateReport, NotCarried, OnDifferent, RestoreOptions,
    ScopeNote, SnapshotOptions,
};
use memory::{Access, Scope, TenantId};
use memory_core::{Error, Result as CoreResult};
use serde::Serialize;

use crate::terminal::{
    Context, Exit, Failure, NAMED, Origin, Out, Progress, Settings, bytes, counted, more, note,
};

/// How the report describes scopes that were not touched.
const KEPT: &str = "scopes differ and were kept";

/// What to do with a scope whose contents differ.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnExisting {
    /// Write nothing
    Refuse,
    /// Keep the scope as it is
    Skip,
    /// Replace the scope
    Replace,
}

impl From<OnExisting> for OnDifferent {
    fn from(on_existing: OnExisting) -> Self {
        match on_existing {
            OnExisting::Refuse => Self::Refuse,
            OnExisting::Skip => Self::Skip,
            OnExisting::Replace => Self::Replace,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct SnapshotArgs {
    /// The file to write, readable by its owner only; it appears once it is complete
    #[arg(required_unless_present = "list")]
    file: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long)]
    overwrite: bool,
    /// Leave out scopes larger than this, and list them [default: `max_scope_bytes` under [snapshot] of memory.toml, else none]
    #[arg(long, value_name = "BYTES")]
    max_scope_bytes: Option<u64>,
    /// List the snapshots written of the store instead
    #[arg(long, conflicts_with_all = ["file", "overwrite", "max_scope_bytes"])]
    list: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreArgs {
    /// A file that `memory snapshot` wrote
    file: PathBuf,
    /// What to do with a scope whose contents differ from the snapshot
    #[arg(long, value_enum, default_value = "refuse")]
    on_existing: OnExisting,
    /// Check the whole file and print what would be done
    #[arg(long)]
    dry_run: bool,
}

#[derive(Args, Debug)]
pub(crate) struct MigrateArgs {
    /// The store to copy from: a URL, or a name under [backends] of memory.toml; it is only read
    from: String,
    /// The store to copy to
    to: String,
    /// What to do with a scope whose contents differ in the target
    #[arg(long, value_enum, default_value = "refuse")]
    on_existing: OnExisting,
    /// Compare both stores and print what would be done; a missing target is not created
    #[arg(long)]
    dry_run: bool,
    /// Remove scopes that exist only in the target, once everything else is copied
    #[arg(long)]
    delete_extra: bool,
}

/// What the command line limits the work to: a scope, a tenant, or nothing.
fn limits(settings: &Settings) -> (Option<TenantId>, Option<Scope>) {
    let tenant = (settings.tenant_origin == Origin::CommandLine).then(|| settings.tenant.clone());
    (tenant, settings.scope_is_chosen().then(|| settings.scope.clone()))
}

/// Shows progress, and stops when interrupted.
fn control(context: &Context, words: &'static str) -> Control {
    let control = Control::default();
    let (asked, stop) = (control.clone(), context.stop());
    tokio::spawn(async move {
        stop.asked().await;
        asked.stop();
    });
    let shown = Mutex::new(Progress::new(context.is_quiet()));
    control.with_progress(move |progress| {
        shown.lock().unwrap_or_else(PoisonError::into_inner).update(progress.bytes, || {
            format!(
                "{words} {}, {}, {}",
                counted(progress.scopes, "scope"),
                counted(progress.entries, "entry"),
                bytes(progress.bytes)
            )
        });
    })
}

/// An interrupt is not a failure.
fn ended<T>(done: CoreResult<T>) -> Result<Option<T>, Failure> {
    match done {
        Ok(done) => Ok(Some(done)),
        Err(error) if error.details().contains_key("stopped") => Ok(None),
        Err(error) => Err(error.into()),
    }
}

pub(crate) async fn snapshot(context: &Context, args: SnapshotArgs, out: &mut Out) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let Some(path) = args.file else {
        let entries =
            settings.ledger_alone().await?.map(|ledger| ledger.entries()).transpose()?.unwrap_or_default();
        if entries.is_empty() {
            // A store that is gone still has its snapshots listed; one that never existed is an error.
            drop(settings.open(Access::Read).await?);
        }
        if out.is_json() {
            for entry in &entries {
                out.document(entry)?;
            }
        } else {
            let row = |entry: &snapshot::LedgerEntry| {
                let there = if entry.path.is_file() { "" } else { "gone" };
                [
                    entry.created_at.to_string(),
                    bytes(entry.bytes),
                    there.to_owned(),
                    entry.path.display().to_string(),
                ]
            };
            out.table(["TAKEN", "SIZE", "", "FILE"], &entries.iter().map(row).collect::<Vec<_>>())?;
        }
        return Ok(Exit::Ok);
    };
    let memory = settings.open(Access::Read).await?;
    let ledger = settings.ledger(&memory).await?;
    let (tenant, scope) = limits(&settings);
    let configured = settings.config.as_ref().and_then(|config| config.file().snapshot.max_scope_bytes);
    let options = SnapshotOptions::default()
        .with_tenant(tenant)
        .with_scope(scope)
        .with_max_scope_bytes(args.max_scope_bytes.or(configured));
    let file = settings.file_options(args.overwrite)?.with_ledger(ledger);
    let control = control(context, "written:");
    let written = snapshot::to_file(&memory, &path, &options, &file, &control).await;
    let Some(report) = ended(written)? else { return Ok(Exit::Interrupted) };
    #[derive(Serialize)]
    struct Document<'a> {
        file: String,
        #[serde(flatten)]
        report: &'a snapshot::SnapshotReport,
    }
    out.tell(&Document { file: path.display().to_string(), report: &report }, |out| {
        out.line(format!(
            "{} with {}, {} and {} written to {}: {}",
            counted(report.scopes, "scope"),
            counted(report.entries, "entry"),
            counted(report.vectors, "vector"),
            counted(report.databases, "SQL database"),
            path.display(),
            bytes(report.bytes)
        ))?;
        out.named("not in it", report.skipped, &report.skipped_scopes, noted)?;
        name_lost(out, &report.not_carried)
    })?;
    if settings.scope_is_chosen() && report.scopes + report.skipped == 0 {
        note(&format!("{} is empty, and so is the snapshot", settings.scope));
        return Ok(Exit::Nothing);
    }
    Ok(if report.is_complete() { Exit::Ok } else { Exit::Partial })
}

pub(crate) async fn restore(context: &Context, args: RestoreArgs, out: &mut Out) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let failed = |error| Failure::File(format!("{} cannot be read", args.file.display()), error);
    let found = std::fs::metadata(&args.file).map_err(failed)?;
    if !found.is_file() {
        return Err(Failure::invalid(
            "restore reads its file more than once, so it must be a regular file, not a pipe or a folder",
        ));
    }
    let file = BufReader::with_capacity(1 << 16, File::open(&args.file).map_err(failed)?);
    let memory = match args.dry_run {
        true => settings.open_unmade(Access::Read).await?,
        false => settings.open(Access::Create).await?,
    };
    let (tenant, scope) = limits(&settings);
    let options = RestoreOptions::default()
        .with_tenant(tenant)
        .with_scope(scope)
        .with_on_different(args.on_existing.into())
        .with_dry_run(args.dry_run);
    let control = control(context, "read:");
    let done = snapshot::restore(&memory, file, &options, &control).await;
    let Some(report) = ended(done)? else { return Ok(Exit::Interrupted) };
    out.tell(&report, |out| {
        out.line(format!(
            "{} of the snapshot{}",
            counted(report.scopes, "scope"),
            match (report.dry_run, report.conflicts) {
                (false, _) => ":",
                (true, 0) => "; nothing was written. A restore would do this:",
                (true, _) => {
                    "; nothing was written. A restore would refuse, since scopes differ. With --on-existing skip it would do this:"
                }
            }
        ))?;
        name_facets(out, &report.entries, &report.databases)?;
        out.named("scopes differ", report.conflicts, &report.conflicting_scopes, Scope::to_string)?;
        out.named(KEPT, report.kept, &report.kept_scopes, Scope::to_string)?;
        name_forgotten(out, report.forgotten, report.forgotten_records)?;
        out.named("not in the snapshot", report.skipped, &report.skipped_scopes, noted)?;
        out.named("not taken", report.failed, &report.failed_scopes, noted)?;
        name_lost(out, &report.not_carried)
    })?;
    Ok(if report.is_complete() { Exit::Ok } else { Exit::Partial })
}

pub(crate) async fn migrate(context: &Context, args: MigrateArgs, out: &mut Out) -> Result<Exit, Failure> {
    if context.is_typed(&["--url", "--backend"]) {
        return Err(Failure::invalid(
            "migrate takes its two stores as FROM and TO; leave --url and --backend out",
        ));
    }
    let side = |side: &'static str| move |error: Error| of_side(side, error);
    let from = store(context, &args.from).map_err(side("source"))?;
    let to = store(context, &args.to).map_err(side("target"))?;
    let (tenant, scope) = limits(&from);
    let from = from.open(Access::Read).await.map_err(side("source"))?;
    let to = match args.dry_run {
        true => to.open_unmade(Access::Read).await,
        false => to.open(Access::Create).await,
    }
    .map_err(side("target"))?;
    let options = MigrateOptions::default()
        .with_tenant(tenant)
        .with_scope(scope)
        .with_on_different(args.on_existing.into())
        .with_dry_run(args.dry_run)
        .with_delete_extra(args.delete_extra);
    let control = control(context, "copied:");
    let Some(report) = ended(snapshot::migrate(&from, &to, &options, &control).await)? else {
        return Ok(Exit::Interrupted);
    };
    out.tell(&report, |out| {
        out.line(format!(
            "{} of the source{}",
            counted(report.scopes, "scope"),
            if report.dry_run { "; nothing was written. A migration would do this:" } else { ":" }
        ))?;
        name_facets(out, &report.entries, &report.databases)?;
        if !report.dry_run {
            out.line(format!("{} of scopes copied and verified", counted(report.verified, "facet")))?;
        }
        name_forgotten(out, 0, report.forgotten_records)?;
        out.named("differ after the copy", report.mismatched, &report.mismatched_scopes, noted)?;
        name_extra(out, &report)?;
        out.named("scopes differ", report.conflicts, &report.conflicting_scopes, Scope::to_string)?;
        out.named(KEPT, report.kept, &report.kept_scopes, Scope::to_string)?;
        out.named("not taken", report.failed, &report.failed_scopes, noted)?;
        name_lost(out, &report.not_carried)
    })?;
    Ok(if report.is_complete() { Exit::Ok } else { Exit::Partial })
}

/// A store by URL, or by its name in memory.toml. Ignores the environment.
fn store(context: &Context, named: &str) -> CoreResult<Settings> {
    let mut global = context.global().clone();
    (global.url, global.backend) = match named.contains(':') {
        true => (Some(named.to_owned()), None),
        false => (None, Some(named.to_owned())),
    };
    context.settings_of(&global)
}

/// Adds which of the two stores an error is about.
fn of_side(side: &str, error: Error) -> Error {
    let message = format!("the {side}: {}", error.message());
    error.retold(message)
}

fn name_facets(out: &mut Out, entries: &FacetReport, databases: &FacetReport) -> Result<(), Failure> {
    let row = |what: &str, facet: &FacetReport| {
        let FacetReport { restored, replaced, unchanged, kept, .. } = facet;
        [what.to_owned(), restored.to_string(), replaced.to_string(), unchanged.to_string(), kept.to_string()]
    };
    out.table(
        ["SCOPES BY", "FILLED", "REPLACED", "THE SAME", "KEPT"],
        &[row("entries", entries), row("SQL database", databases)],
    )
}

/// Prints counts only, because the names were forgotten.
fn name_forgotten(out: &mut Out, scopes: u64, records: u64) -> Result<(), Failure> {
    if scopes > 0 {
        out.line(format!("left as before, since forgotten meanwhile: {}", counted(scopes, "scope")))?;
    }
    if records > 0 {
        let of = if scopes > 0 { " of other scopes" } else { "" };
        out.line(format!("left out, since forgotten meanwhile: {}{of}", counted(records, "record")))?;
    }
    Ok(())
}

fn noted(ScopeNote { scope, reason, .. }: &ScopeNote) -> String {
    format!("{scope}: {reason}")
}

fn name_extra(out: &mut Out, report: &MigrateReport) -> Result<(), Failure> {
    let what = match (report.only_in_target, report.deleted_extra) {
        (None | Some(0), _) => return Ok(()),
        (Some(_), 0) => "scopes only in the target; --delete-extra removes them",
        _ if report.dry_run => "scopes only in the target, would be removed",
        _ => "scopes only in the target, removed",
    };
    let count = report.only_in_target.unwrap_or_default();
    out.named(what, count, &report.only_in_target_scopes, Scope::to_string)
}

fn name_lost(out: &mut Out, lost: &[NotCarried]) -> Result<(), Failure> {
    for NotCarried { scope, what, .. } in lost.iter().take(NAMED) {
        for one in what.iter().take(NAMED) {
            out.line(format!("left out of {scope}: {one}"))?;
        }
    }
    more(lost.len() as u64);
    Ok(())
}
