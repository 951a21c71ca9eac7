//! `forget`: a tenant, a scope or a key, everywhere; facts of a conversational store; or a note or row of shared state.

use clap::{Args, ValueEnum};
use memory::Access;
use memory::conversations::check_writable;
use memory::forget::{
    AuditPolicy, ForgetPolicy, ForgetReport, ForgetStep, SnapshotPolicy, StepOutcome, abandon, dry_run,
    forget, interrupted, resume,
};
use memory::governed::{Bucket, Eraser, Trust, is_id};
use memory_core::layer::{FactId, Forget};
use memory_core::{EraseTarget, Error, Key};
use serde_json::json;

use crate::commands::governed::{self, SpaceArgs};
use crate::terminal::{Context, CredentialArgs, Exit, Failure, Opened, Origin, Out, Settings, counted};

const NONE: &str = "no `forget` was interrupted";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Snapshots {
    /// Replace each that contains it by one that does not
    Rewrite,
    /// Delete each that contains it
    Delete,
    /// Only list them
    Report,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Audit {
    /// Keep the records as they are
    Keep,
    /// Replace names and contents in them
    Redact,
}

#[derive(Args, Debug)]
pub(crate) struct ForgetArgs {
    /// Forget facts instead, by the ids that `recall` and `facts` print
    #[arg(value_name = "ID", conflicts_with_all = ["all", "key", "resume", "abandon", "dry_run"])]
    ids: Vec<String>,
    /// Forget every fact of the scope instead
    #[arg(long, conflicts_with_all = ["key", "resume", "abandon", "dry_run"])]
    all: bool,
    /// Only this key of the scope
    #[arg(long)]
    key: Option<String>,
    /// Only print what would be forgotten
    #[arg(long)]
    dry_run: bool,
    /// Confirm: this cannot be undone
    #[arg(long)]
    yes: bool,
    /// Forget a note of shared state instead, with what was derived from it, by the id that `note` prints
    #[arg(long, value_name = "ID", conflicts_with_all = ["ids", "all", "key", "resume", "abandon", "row"])]
    note: Option<String>,
    /// Forget a row of shared state instead, with what depends on it
    #[arg(long, value_name = "BUCKET/ID", value_parser = typed_row, conflicts_with_all = ["ids", "all", "key", "resume", "abandon"])]
    row: Option<(Bucket, String)>,
    /// Complete what an interrupted `forget` began: what was stored in its target since goes too
    #[arg(long, conflicts_with = "key")]
    resume: bool,
    /// Give up what an interrupted `forget` began: what is still there stays
    #[arg(long, conflicts_with_all = ["key", "resume", "dry_run"])]
    abandon: bool,
    /// What to do with snapshots that contain it
    #[arg(long, value_enum, default_value = "rewrite")]
    snapshots: Snapshots,
    /// What to do with audit records about it
    #[arg(long, value_enum, default_value = "keep")]
    audit: Audit,
    #[command(flatten)]
    credentials: CredentialArgs,
    #[command(flatten)]
    space: SpaceArgs,
}

impl ForgetArgs {
    /// Whether it only completes or abandons an interrupted `forget`.
    pub(crate) const fn resumes(&self) -> bool {
        self.resume || self.abandon
    }
}

pub(crate) async fn run(context: &Context, args: ForgetArgs, out: &mut Out) -> Result<Exit, Failure> {
    if args.all || !args.ids.is_empty() {
        return facts(context, args, out).await;
    }
    if args.note.is_some() || args.row.is_some() {
        return shared(context, args, out).await;
    }
    // Checked before opening the store, because the target may be missing.
    let settings = context.settings()?;
    let target = if args.resumes() { None } else { Some(target(context, &settings, &args)?) };
    if !(args.yes || args.dry_run || args.resumes()) {
        return Err(unconfirmed());
    }
    let memory = match args.resumes() {
        true => settings.open_to_resume(Access::Existing).await?,
        false => settings.open(Access::Existing).await?,
    };
    let opened = Opened { memory, settings };
    let places = opened.settings.places(&opened.memory).await?;
    if args.abandon {
        return given_up(&abandon(&places)?, out);
    }
    let policy = ForgetPolicy::default()
        .with_snapshots(match args.snapshots {
            Snapshots::Rewrite => SnapshotPolicy::Rewrite,
            Snapshots::Delete => SnapshotPolicy::Delete,
            Snapshots::Report => SnapshotPolicy::Report,
        })
        .with_audit(match args.audit {
            Audit::Keep => AuditPolicy::Keep,
            Audit::Redact => AuditPolicy::Redact,
        });
    let run = opened.run(&args.credentials)?;
    let memory = &opened.memory;
    let reports = match &target {
        None => {
            let interrupted = interrupted(&places)?;
            if !out.is_json() {
                interrupted
                    .iter()
                    .try_for_each(|(target, _)| out.line(format!("interrupted: {}", named(target))))?;
            }
            if args.dry_run {
                let mut reports = Vec::new();
                for (target, policy) in &interrupted {
                    reports.push(dry_run(memory, target, &places, *policy).await?);
                }
                reports
            } else {
                resume(memory, &places, Some(&run)).await?
            }
        }
        Some(target) if args.dry_run => vec![dry_run(memory, target, &places, policy).await?],
        Some(target) => vec![forget(memory, target, &places, policy, Some(&run)).await?],
    };
    for report in &reports {
        out.tell(report, |out| tell(report, out))?;
    }
    if reports.is_empty() && !out.is_json() {
        out.line(NONE)?;
    }
    let complete = reports.iter().all(|report| report.dry_run || report.is_complete());
    Ok(if complete { Exit::Ok } else { Exit::Partial })
}

/// The targets whose interrupted forgets were abandoned.
fn given_up(targets: &[EraseTarget], out: &mut Out) -> Result<Exit, Failure> {
    let named: Vec<String> = targets.iter().map(named).collect();
    out.tell(&json!({ "abandoned": named }), |out| match named.as_slice() {
        [] => out.line(NONE),
        named => named.iter().try_for_each(|name| out.line(format!("given up: {name}"))),
    })?;
    Ok(Exit::Ok)
}

fn named(target: &EraseTarget) -> String {
    match target {
        EraseTarget::Scope(scope) => format!("the scope {scope}"),
        EraseTarget::Key { scope, key } => format!("the key {key} of {scope}"),
        other => format!("the tenant {}", other.tenant()),
    }
}

fn unconfirmed() -> Failure {
    Failure::invalid("this cannot be undone: check what would be forgotten with --dry-run, then give --yes")
}

/// A row as typed: `issues/redis_timeout`.
pub(crate) fn typed_row(typed: &str) -> Result<(Bucket, String), String> {
    let found = typed.split_once('/').and_then(|(bucket, id)| {
        let bucket = Bucket::ALL.into_iter().find(|known| known.as_str() == bucket)?;
        is_id(id).then(|| (bucket, id.to_owned()))
    });
    found.ok_or_else(|| "a row is BUCKET/ID, as issues/redis_timeout; `shared` lists them".to_owned())
}

/// What to forget. Only the command line decides that: no file, environment or earlier line.
fn target(context: &Context, settings: &Settings, args: &ForgetArgs) -> Result<EraseTarget, Failure> {
    if settings.scope_is_chosen() && context.is_typed(&["--agent", "--user", "--run", "--scope"]) {
        let scope = settings.scope.clone();
        return Ok(match &args.key {
            Some(name) => {
                let key = Key::new(name)?;
                check_writable(&key)?;
                EraseTarget::Key { scope, key }
            }
            None => EraseTarget::Scope(scope),
        });
    }
    if args.key.is_some() {
        return Err(Failure::invalid("name the scope of the key: --agent, --user, --run or --scope"));
    }
    if settings.tenant_origin == Origin::CommandLine && context.is_typed(&["--tenant"]) {
        return Ok(EraseTarget::Tenant(settings.tenant.clone()));
    }
    Err(Failure::invalid(
        "name what to forget: --user ID, --agent ID, --run ID or --scope KIND:ID, plus --key KEY for one entry, \
         or --tenant ID alone for all of a tenant",
    ))
}

fn tell(report: &ForgetReport, out: &mut Out) -> Result<(), Failure> {
    out.line(format!(
        "{} {} ({}): {}, {}, {}",
        if report.dry_run { "found, of the" } else { "forgotten: the" },
        report.target,
        report.digest,
        counted(report.entries, "entry"),
        counted(report.scopes, "scope"),
        counted(report.databases, "SQL database")
    ))?;
    let row = |step: &ForgetStep| {
        let outcome = match step.outcome {
            StepOutcome::Done => "done",
            StepOutcome::Nothing => "nothing there",
            StepOutcome::Found => "there",
            StepOutcome::Kept => "kept",
            StepOutcome::Remains => "remains",
            _ => "out of reach",
        };
        let path = step.path.as_ref().map(|path| path.display().to_string()).unwrap_or_default();
        let reason = step.reason.as_deref().unwrap_or_default().to_owned();
        [step.place.to_owned(), outcome.to_owned(), step.count.to_string(), path, reason]
    };
    let rows: Vec<[String; 5]> = report.steps.iter().map(row).collect();
    out.table(["PLACE", "OUTCOME", "COUNT", "WHERE", "WHY"], &rows)
}

/// Facts of a conversational store.
async fn facts(context: &Context, args: ForgetArgs, out: &mut Out) -> Result<Exit, Failure> {
    let what = if args.all {
        Forget::All
    } else {
        Forget::Ids(args.ids.into_iter().map(FactId::new).collect::<Result<_, Error>>()?)
    };
    let opened: Opened = context.open(Access::Existing).await?;
    let layer = opened.layer("forget")?;
    let run = opened.run(&args.credentials)?;
    let outcome = layer.forget(&run, opened.scope(), what).await?;
    out.tell(&outcome, |out| {
        match outcome.forgotten {
            Some(forgotten) => out.line(format!("forgotten: {forgotten}"))?,
            None => out.line("forgotten")?,
        }
        outcome.not_found.iter().try_for_each(|id| out.line(format!("not found: {id}")))?;
        outcome.remains.iter().try_for_each(|remains| out.line(format!("remains: {remains}")))
    })?;
    // Ends like `delete` of a missing key.
    let nothing = outcome.forgotten == Some(0) && !outcome.not_found.is_empty();
    Ok(if nothing { Exit::Nothing } else { Exit::Ok })
}

/// A note or a row of shared state.
async fn shared(context: &Context, args: ForgetArgs, out: &mut Out) -> Result<Exit, Failure> {
    if !(args.yes || args.dry_run) {
        return Err(unconfirmed());
    }
    let (opened, space) = governed::open(context, &args.space, Access::Existing).await?;
    let (eraser, person) = (Eraser::new(&space), governed::actor(&opened, Trust::Person));
    let forgotten = match (&args.note, &args.row) {
        (Some(note), _) => eraser.note(note, &person, args.dry_run).await?,
        (None, Some((bucket, id))) => eraser.row(*bucket, id, &person, args.dry_run).await?,
        (None, None) => return Err(Failure::invalid("name the note or the row")),
    };
    out.tell(&json!({ "dry_run": args.dry_run, "forgotten": forgotten }), |out| {
        for (bucket, id) in &forgotten.rows {
            out.line(format!("the row {bucket}/{id}"))?;
        }
        for (bucket, id) in &forgotten.changed {
            out.line(format!("of the row {bucket}/{id}, what the note gave it"))?;
        }
        out.line(format!(
            "{}: {}, {}, {}, {}",
            if args.dry_run { "would be forgotten" } else { "forgotten" },
            counted(forgotten.notes.len(), "note"),
            counted(forgotten.events.len(), "event"),
            counted(forgotten.rows.len(), "row"),
            counted(forgotten.pending.len(), "deferred write")
        ))?;
        if args.dry_run || forgotten.is_nothing() {
            return Ok(());
        }
        out.line("snapshots that were taken before still hold it")
    })?;
    Ok(if forgotten.is_nothing() { Exit::Nothing } else { Exit::Ok })
}
