//! `drift`: changes that other programs made to a scope, and how a run can continue.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use memory::drift::Backups;
use memory::drift::backup::{Backup, BackupInfo, Difference, Restored};
use memory::sqlite::{RepairOptions, Repaired};
use memory::{Access, Clock as _, DriftPolicy, DriftState, DriftToken, OpenContext};
use memory_core::{Backend, Error, ErrorKind, Retry};
use serde::Serialize;
use serde_json::json;

use crate::terminal::{Context, Exit, Failure, Opened, Out, alone, bytes, counted};

#[derive(Args, Debug)]
pub(crate) struct DriftArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    #[command(flatten)]
    Scope(ScopeAction),
    /// Repair a SQLite file that is refused because another program changed its triggers, indexes or views; every scope
    /// then counts as changed
    Repair {
        /// Only print what would be done
        #[arg(long)]
        dry_run: bool,
        /// Keep the vectors: correct only if nothing was written while the triggers were missing
        #[arg(long)]
        keep_vectors: bool,
    },
}

/// The subcommands that work on one scope.
#[derive(Debug, Subcommand)]
enum ScopeAction {
    /// Show the scope's token, its drift policy and the backups made before writes were refused
    Status,
    /// List the keys that differ between a backup and the store; exit code 8 if any do
    Diff {
        /// The backup [default: the newest of the scope]
        backup: Option<PathBuf>,
    },
    /// Accept the scope as it is: refused writes pass when sent again, as long as the scope stays in that state
    Ack {
        /// The token that `status` prints, or `actual` of the refusal
        token: DriftToken,
    },
    /// Restore the scope from a backup; its present contents are backed up first
    Restore {
        /// The backup
        backup: PathBuf,
        /// Only print what would change
        #[arg(long)]
        dry_run: bool,
    },
}

#[derive(Serialize)]
struct Status {
    scope: String,
    policies: Vec<DriftPolicy>,
    token: DriftToken,
    acknowledged: Option<DriftToken>,
    folder: Option<PathBuf>,
    backups: Vec<BackupInfo>,
}

pub(crate) async fn run(context: &Context, args: &DriftArgs, out: &mut Out) -> Result<Exit, Failure> {
    let action = match &args.action {
        Action::Scope(action) => action,
        // Does not open the store, because opening would be refused.
        Action::Repair { dry_run, keep_vectors } => {
            let options = RepairOptions::default().with_dry_run(*dry_run).with_keep_vectors(*keep_vectors);
            return repair(context, options, out).await;
        }
    };
    let access = match action {
        ScopeAction::Status | ScopeAction::Diff { .. } => Access::Read,
        ScopeAction::Ack { .. } | ScopeAction::Restore { .. } => Access::Existing,
    };
    let opened = context.open(access).await?;
    alone(&opened.memory, "drift")?;
    let backend = opened.backend("drift")?;
    match action {
        ScopeAction::Status => status(&opened, backend, out).await,
        ScopeAction::Diff { backup } => diff(&opened, backend, backup.as_ref(), out).await,
        ScopeAction::Ack { token } => ack(&opened, backend, *token, out).await,
        ScopeAction::Restore { backup, dry_run } => restore(&opened, backend, backup, *dry_run, out).await,
    }
}

async fn repair(context: &Context, options: RepairOptions, out: &mut Out) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Report<'a> {
        #[serde(flatten)]
        repaired: &'a Repaired,
        dry_run: bool,
    }
    let (url, base_dir) = context.settings()?.backend_url()?;
    let mut open = OpenContext::default();
    open.base_dir = base_dir;
    let work = move || memory::sqlite::repair(&url, &open, options);
    let repaired = tokio::task::spawn_blocking(work)
        .await
        .map_err(|error| Error::internal("the repair stopped because of a bug").with_source(error))??;
    let dry_run = options.dry_run;
    out.tell(&Report { repaired: &repaired, dry_run }, |out| tell(&repaired, dry_run, out))?;
    Ok(Exit::Ok)
}

fn tell(repaired: &Repaired, dry_run: bool, out: &mut Out) -> Result<(), Failure> {
    if repaired.is_clean() {
        return out.line(format!(
            "nothing to repair: the triggers are intact, and the counters of {} are right",
            counted(repaired.scopes, "scope")
        ));
    }
    if dry_run {
        out.line("nothing was written; without --dry-run the repair does this:")?;
    }
    for object in &repaired.removed {
        out.line(format!("removed    {} {}: {}", object.kind, object.name, object.sql))?;
    }
    for title in &repaired.made {
        out.line(format!("recreated  {title}"))?;
    }
    if let Some(format) = repaired.updated_from {
        out.line(format!("updated    from format {format}"))?;
    }
    out.line(format!(
        "counted    {}, of which {} had wrong counters",
        counted(repaired.scopes, "scope"),
        repaired.miscounted
    ))?;
    if repaired.changed > 0 {
        out.line(format!(
            "changed    {}: new tokens, and new versions of {}, so that values read before must be read again before they are \
             overwritten",
            counted(repaired.changed, "scope"),
            counted(repaired.entries, "entry")
        ))?;
    }
    if repaired.vectors > 0 {
        out.line(format!(
            "removed    {}, maybe outdated; `memory reembed` computes what is missing, one scope at a time",
            counted(repaired.vectors, "vector")
        ))?;
    }
    Ok(())
}

/// The folder of backups.
fn backups(opened: &Opened) -> Result<Arc<Backups>, Error> {
    let folder = opened.memory.drift_backups().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the store has no folder for scope backups; a SQLite file has one beside it",
        )
        .with_retry(Retry::Never)
    })?;
    Ok(Arc::new(Backups::new(folder)))
}

async fn status(opened: &Opened, backend: &dyn Backend, out: &mut Out) -> Result<Exit, Failure> {
    let scope = opened.scope();
    let DriftState { token, .. } = backend.drift_state(scope).await?;
    let (folder, acknowledged, list) = match backups(opened) {
        Ok(backups) => {
            (Some(backups.root().to_owned()), backups.acknowledged(&scope.digest()), backups.list(scope)?)
        }
        Err(_) => (None, None, Vec::new()),
    };
    let status = Status {
        scope: scope.to_string(),
        policies: opened.memory.capabilities().drift,
        token,
        acknowledged,
        folder,
        backups: list,
    };
    if out.is_json() {
        out.document(&status)?;
        return Ok(Exit::Ok);
    }
    let policies: Vec<&str> = status.policies.iter().map(|policy| policy.as_str()).collect();
    out.line(format!("scope     {}", status.scope))?;
    out.line(format!("serves    {}", policies.join(", ")))?;
    out.line(format!("token     {}", status.token))?;
    if let Some(token) = status.acknowledged {
        out.line(format!("acked     {token}"))?;
    }
    if let Some(folder) = &status.folder {
        out.line(format!("backups   {} in {}", status.backups.len(), folder.display()))?;
    }
    let row = |info: &BackupInfo| {
        let state = if info.resolved { "cleared" } else { "open" };
        [info.timestamp.to_string(), state.to_owned(), bytes(info.bytes), info.path.display().to_string()]
    };
    let rows: Vec<[String; 4]> = status.backups.iter().map(row).collect();
    if !rows.is_empty() {
        out.table(["TIME", "DRIFT", "SIZE", "FILE"], &rows)?;
    }
    Ok(Exit::Ok)
}

/// A backup of this scope, by its path or by its name in the store's folder of backups, which is all a model is told.
/// The backup of another scope is refused.
async fn load(opened: &Opened, path: &std::path::Path) -> Result<Backup, Failure> {
    let own = match backups(opened) {
        Ok(backups) if !path.exists() && path.components().count() == 1 => {
            backups.list(opened.scope())?.into_iter().map(|info| info.path).find(|own| own.ends_with(path))
        }
        _ => None,
    };
    let path = own.as_deref().unwrap_or(path);
    // An unreadable backup does not say which scope it belongs to.
    let failed = |error| Failure::File(format!("{} cannot be read", path.display()), error);
    std::fs::metadata(path).map_err(failed)?;
    let backup = Backup::load(path).await?;
    if backup.scope != *opened.scope() {
        return Err(Failure::invalid(format!(
            "the backup is of {}, but the scope is {}; name the backup's scope with --tenant, --agent, --user or --run",
            backup.scope,
            opened.scope()
        )));
    }
    Ok(backup)
}

async fn diff(
    opened: &Opened,
    backend: &dyn Backend,
    backup: Option<&PathBuf>,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let path = match backup {
        Some(path) => path.clone(),
        None => {
            let newest = backups(opened)?.list(opened.scope())?.into_iter().next();
            newest.map(|info| info.path).ok_or_else(|| {
                Error::invalid(
                    "the scope has no backup to compare with: no write to it was refused because of drift; name a file",
                )
            })?
        }
    };
    let difference = load(opened, &path).await?.difference(backend).await?;
    show(&difference, out)?;
    Ok(if difference == Difference::default() { Exit::Ok } else { Exit::Failed })
}

fn show(difference: &Difference, out: &mut Out) -> Result<(), Failure> {
    if out.is_json() {
        return out.document(difference);
    }
    for (mark, keys) in [("~", &difference.changed), ("-", &difference.vanished), ("+", &difference.appeared)]
    {
        for key in keys {
            out.line(format!("{mark} {key}"))?;
        }
    }
    Ok(())
}

async fn ack(
    opened: &Opened,
    backend: &dyn Backend,
    token: DriftToken,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let state = backend.drift_state(opened.scope()).await?;
    if state.token != token {
        return Err(Error::new(
            ErrorKind::Conflict,
            "the scope has changed since that token; check again with `drift status` and `drift diff`",
        )
        .with_detail("actual", state.token.to_string())
        .into());
    }
    backups(opened)?.acknowledge(opened.scope(), token)?;
    out.tell(&json!({ "acknowledged": token }), |out| {
        out.line(format!(
            "{} is accepted as it is; refused writes succeed when they are sent again",
            opened.scope()
        ))
    })?;
    Ok(Exit::Ok)
}

async fn restore(
    opened: &Opened,
    backend: &dyn Backend,
    path: &std::path::Path,
    dry_run: bool,
    out: &mut Out,
) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Report {
        #[serde(flatten)]
        restored: Restored,
        saved: Option<PathBuf>,
    }
    let backup = load(opened, path).await?;
    if dry_run {
        show(&backup.difference(backend).await?, out)?;
        return Ok(Exit::Ok);
    }
    let saved = match backups(opened) {
        Ok(backups) => {
            let now = memory::system::SystemClock.now();
            let saved = Arc::clone(&backups).save(backend, opened.scope(), None, None, now).await?.path;
            // No writer waits for this backup to be resolved.
            backups.resolve(&saved);
            Some(saved)
        }
        Err(_) => None,
    };
    let restored = backup.restore(backend, &opened.memory.capabilities()).await?;
    if out.is_json() {
        out.document(&Report { restored, saved })?;
        return Ok(Exit::Ok);
    }
    let Restored { imported, deleted, .. } = restored;
    out.line(format!(
        "{} is restored from the backup: {} recreated, {} restored, {deleted} deleted",
        opened.scope(),
        counted(imported.created, "entry"),
        imported.replaced
    ))?;
    if let Some(saved) = saved {
        out.line(format!("its previous contents are in {}", saved.display()))?;
    }
    Ok(Exit::Ok)
}
