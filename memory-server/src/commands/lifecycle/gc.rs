//! `gc`: drops unused scopes and frees their space.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Args;
use memory::gc::{GcControl, GcOptions, GcPolicy, GcReport, GcVictim, NotEvicted, sweep};
use memory::system::SystemClock;
use memory::{Access, Config};

use crate::terminal::values::duration;
use crate::terminal::{
    Context, Exit, Failure, NAMED, Origin, Out, Progress, alone, bytes, counted, more, note,
};

#[derive(Args, Debug)]
#[command(
    after_help = "Without --idle and --max-bytes the policy is [gc] of memory.toml; without either no scope is dropped, \
                        and only free space is reclaimed."
)]
pub(crate) struct GcArgs {
    /// Drop scopes that were not used for this long, such as 30d
    #[arg(long, value_name = "TIME", value_parser = duration)]
    idle: Option<Duration>,
    /// Drop the largest idle scopes until the rest fits into this many bytes
    #[arg(long, value_name = "BYTES")]
    max_bytes: Option<u64>,
    /// With --max-bytes: keep scopes used within this time, however large [default: 1d]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    min_idle: Option<Duration>,
    /// Only print what would be dropped and why
    #[arg(long)]
    dry_run: bool,
    /// Write each scope to a file in this folder before dropping it
    #[arg(long, value_name = "DIR")]
    snapshot_to: Option<PathBuf>,
}

pub(crate) async fn run(context: &Context, args: GcArgs, out: &mut Out) -> Result<Exit, Failure> {
    let settings = context.settings()?;
    let config = Config::discover(context.global().config.as_deref())?;
    let section = config.as_ref().map(|config| config.file().gc.clone()).unwrap_or_default();
    let mut policy = match (args.idle, args.max_bytes) {
        (None, None) => section.policy(),
        (idle, max_bytes) => GcPolicy::default().with_idle(idle).with_max_bytes(max_bytes),
    };
    if let Some(min_idle) = args.min_idle {
        policy = policy.with_min_idle(min_idle);
    }
    let folder = args.snapshot_to.or_else(|| config.as_ref().and_then(Config::gc_snapshots));
    let tenant = (settings.tenant_origin == Origin::CommandLine).then(|| settings.tenant.clone());
    let auditor = match &config {
        Some(config) => config.auditor(Arc::new(SystemClock))?,
        None => None,
    };
    let is_on = policy.is_on();
    let memory = settings.open(Access::Existing).await?;
    alone(&memory, "gc")?;
    let ledger = if folder.is_some() { settings.ledger(&memory).await? } else { None };
    let options =
        GcOptions::new(policy).with_tenant(tenant).with_dry_run(args.dry_run).with_snapshots(folder, ledger);
    let report = sweep(&memory, &options, &SystemClock, &control(context).with_auditor(auditor)).await?;
    out.tell(&report, |out| tell(out, &report, is_on))?;
    Ok(match (report.stopped, report.is_complete()) {
        (true, _) => Exit::Interrupted,
        (false, true) => Exit::Ok,
        (false, false) => Exit::Partial,
    })
}

/// Shows progress, and stops between two scopes when interrupted.
fn control(context: &Context) -> GcControl {
    let shown = Mutex::new(Progress::new(context.is_quiet()));
    let control = GcControl::default().with_progress(move |progress| {
        shown.lock().unwrap_or_else(PoisonError::into_inner).update(progress.scopes, || {
            format!(
                "{} checked, {} dropped with {}",
                counted(progress.scopes, "scope"),
                progress.evicted,
                bytes(progress.evicted_bytes)
            )
        });
    });
    let (asked, stop) = (control.clone(), context.stop());
    tokio::spawn(async move {
        stop.asked().await;
        asked.stop();
    });
    control
}

fn tell(out: &mut Out, report: &GcReport, is_on: bool) -> Result<(), Failure> {
    let would = if report.dry_run { "would be dropped" } else { "dropped" };
    out.line(format!(
        "{} of {} {would}, {} of {}",
        report.evicted,
        counted(report.scopes, "scope"),
        bytes(report.evicted_bytes),
        bytes(report.bytes)
    ))?;
    if !is_on {
        note("no policy drops scopes; give --idle or --max-bytes, or set [gc] in memory.toml");
    }
    if report.within_slack > 0 {
        note(&format!(
            "used too recently for the store's precision, and dropped by a later run: {}",
            counted(report.within_slack, "scope")
        ));
    }
    let row = |victim: &GcVictim| {
        let (size, used) = (bytes(victim.bytes), victim.last_used_at.to_string());
        [victim.scope.to_string(), size, used, victim.reason.as_str().to_owned()]
    };
    let rows: Vec<_> = report.victims.iter().take(NAMED).map(row).collect();
    if !rows.is_empty() {
        out.table(["SCOPE", "SIZE", "LAST USED", "WHY"], &rows)?;
        more(report.evicted);
    }
    let kept = "kept, since they are in use or were used meanwhile";
    out.named(kept, report.kept, &report.kept_scopes, why)?;
    let doubtful = report.failed_scopes.iter().any(|failed| {
        failed.snapshot.is_some() || failed.why == memory_core::ErrorKind::OutcomeUnknown.code()
    });
    let failed = if doubtful { "failed; they were kept, except where noted" } else { "kept after a failure" };
    out.named(failed, report.failed, &report.failed_scopes, why)?;
    if report.over > 0 {
        out.line(format!("{} over --max-bytes, in scopes that were used too recently", bytes(report.over)))?;
    }
    if let Some(reclaimed) = report.reclaimed {
        out.line(format!(
            "reclaimed: {}, {} without an entry, {}, {} of ended runs; the database is {} smaller",
            counted(reclaimed.expired, "expired entry"),
            counted(reclaimed.vectors, "vector"),
            counted(reclaimed.unfinished, "unfinished removal"),
            counted(reclaimed.fences, "fence"),
            bytes(reclaimed.bytes)
        ))?;
    }
    Ok(())
}

/// Why a scope was not dropped.
fn why(stays: &NotEvicted) -> String {
    let why = stays.message.as_deref().unwrap_or(stays.why);
    let last = stays
        .snapshot
        .as_ref()
        .map(|path| format!("; it may have been dropped; its last snapshot is {}", path.display()));
    format!("{}: {why}{}", stays.scope, last.unwrap_or_default())
}
