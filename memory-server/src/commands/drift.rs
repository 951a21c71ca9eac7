//! `drift`: what became of a scope that somebody else changed, and how a run goes on.

use std::path::PathBuf;
use std::sync::Arc;

use clap::{Args, Subcommand};
use memory::drift::Backups;
use memory::drift::backup::{Backup, BackupInfo, Difference, Restored};
use memory::{Clock as _, DriftPolicy, DriftState, DriftToken};
use memory_core::{Backend, Error, ErrorKind, Retry};
use serde::Serialize;

use super::{Context, Opened};
use crate::failure::{Exit, Failure};
use crate::output::{Out, bytes};

/// Options of `drift`.
#[derive(Args, Debug)]
pub(crate) struct DriftArgs {
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// The scope's token, what the store refuses writes for, and the backups made before writes were refused
    Status,
    /// Keys that differ between a backup and the store; exit code 1 where some do
    Diff {
        /// The backup [default: the newest of the scope]
        backup: Option<PathBuf>,
    },
    /// Take the scope as it is: writes that were refused pass when they are sent again, as long as it is in that state
    Ack {
        /// The token that `status` shows, or that the refusal had in `actual`
        token: DriftToken,
    },
    /// Make the scope hold what a backup holds; what it holds now is saved first
    Restore {
        /// The backup
        backup: PathBuf,
        /// Only say what would change
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

/// `memory drift`.
pub(crate) async fn run(context: &Context, args: &DriftArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open().await?;
    let backend = opened.backend("drift")?;
    match &args.action {
        Action::Status => status(&opened, backend, out).await,
        Action::Diff { backup } => diff(&opened, backend, backup.as_ref(), out).await,
        Action::Ack { token } => ack(&opened, backend, *token, out).await,
        Action::Restore { backup, dry_run } => restore(&opened, backend, backup, *dry_run, out).await,
    }
}

/// The folder of backups.
fn backups(opened: &Opened) -> Result<Arc<Backups>, Error> {
    let folder = opened.memory.drift_backups().ok_or_else(|| {
        Error::new(
            ErrorKind::Unsupported,
            "the store has no folder for backups of scopes; those of a SQLite file are beside it",
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

/// A backup of this scope: what a file says is another one's is not compared with it.
async fn load(opened: &Opened, path: &std::path::Path) -> Result<Backup, Failure> {
    let backup = Backup::load(path).await?;
    if backup.scope != *opened.scope() {
        return Err(Failure::invalid(format!(
            "the backup is of {}, and the scope is {}; name that one with --tenant, --agent, --user or --run",
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
                Error::new(
                    ErrorKind::NotFound,
                    "the scope has no backup: no write to it was refused for drift",
                )
                .with_retry(Retry::Never)
            })?
        }
    };
    let difference = load(opened, &path).await?.difference(backend).await?;
    show(&difference, out)?;
    Ok(if difference == Difference::default() { Exit::Ok } else { Exit::No })
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
    #[derive(Serialize)]
    struct Acknowledged {
        acknowledged: DriftToken,
    }
    let state = backend.drift_state(opened.scope()).await?;
    if state.token != token {
        return Err(Error::new(
            ErrorKind::Conflict,
            "the scope is not in the state of that token any more; look again with `drift status` and `drift diff`",
        )
        .with_detail("actual", state.token.to_string())
        .into());
    }
    backups(opened)?.acknowledge(opened.scope(), token)?;
    if out.is_json() {
        out.document(&Acknowledged { acknowledged: token })?;
    } else {
        out.line(format!(
            "{} is taken as it is; writes that were refused pass when they are sent again",
            opened.scope()
        ))?;
    }
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
            // Nobody waits for it to be cleared.
            backups.resolve(&saved);
            Some(saved)
        }
        Err(_) => None,
    };
    let restored = backup.restore(backend, opened.memory.capabilities().erase).await?;
    if out.is_json() {
        out.document(&Report { restored, saved })?;
        return Ok(Exit::Ok);
    }
    let Restored { imported, deleted, .. } = restored;
    out.line(format!(
        "{} holds what the backup holds: {} entries made again, {} put back, {deleted} deleted",
        opened.scope(),
        imported.created,
        imported.replaced
    ))?;
    if let Some(saved) = saved {
        out.line(format!("what it held before is in {}", saved.display()))?;
    }
    Ok(Exit::Ok)
}
