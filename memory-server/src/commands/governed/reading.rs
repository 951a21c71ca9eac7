//! `shared` and `why`: rows, their past, and the reasons for their state.

use clap::Args;
use memory::Access;
use memory::governed::{AsOf, Bucket, Row, SharedMemory, Why};
use memory_core::{Error, Timestamp};

use super::{BucketName, SpaceArgs, open};
use crate::commands::typed_row;
use crate::terminal::{Context, Exit, Failure, Out, values};

#[derive(Args, Debug)]
pub(crate) struct SharedArgs {
    /// The bucket; default: all
    bucket: Option<BucketName>,
    /// Why this row is so: its events with their notes, and what depends on it
    #[arg(long, value_name = "ID", requires = "bucket")]
    why: Option<String>,
    /// Also rows that have ended
    #[arg(long, conflicts_with_all = ["as_of", "known_at", "why"])]
    ended: bool,
    /// What held at this time, as 2026-01-31T09:30:00Z or a date
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "why")]
    as_of: Option<Timestamp>,
    /// What was known at this time, as 2026-01-31T09:30:00Z or a date
    #[arg(long, value_name = "TIME", value_parser = values::time, conflicts_with = "why")]
    known_at: Option<Timestamp>,
    #[command(flatten)]
    space: SpaceArgs,
}

pub(crate) async fn shared(context: &Context, args: SharedArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (_opened, space) = open(context, &args.space, Access::Read).await?;
    let shared = SharedMemory::new(&space);
    if let (Some(bucket), Some(id)) = (args.bucket, &args.why) {
        return explain(&shared, &[bucket.into()], id, out).await;
    }
    let buckets = args.bucket.map_or_else(|| Bucket::ALL.to_vec(), |bucket| vec![bucket.into()]);
    let at = AsOf { valid: args.as_of, recorded: args.known_at };
    let mut rows = Vec::new();
    for bucket in buckets {
        rows.extend(match at {
            AsOf { valid: None, recorded: None } => shared.bucket(bucket, args.ended).await?,
            at => shared.as_of(bucket, at).await?,
        });
    }
    out.tell(&rows, |out| {
        let cells = |row: &Row| {
            let said: Vec<String> =
                row.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
            [row.bucket.to_string(), row.id.clone(), status(row), row.rev.to_string(), said.join(", ")]
        };
        out.table(["BUCKET", "ID", "STATUS", "REV", "SAYS"], &rows.iter().map(cells).collect::<Vec<_>>())
    })?;
    Ok(Exit::Ok)
}

#[derive(Args, Debug)]
pub(crate) struct WhyArgs {
    /// The row: its id, or BUCKET/ID where rows of several buckets have that id
    #[arg(value_name = "ID")]
    row: String,
    #[command(flatten)]
    space: SpaceArgs,
}

pub(crate) async fn why(context: &Context, args: WhyArgs, out: &mut Out) -> Result<Exit, Failure> {
    let (buckets, id) = match args.row.contains('/') {
        true => typed_row(&args.row).map(|(bucket, id)| (vec![bucket], id)).map_err(Error::invalid)?,
        false => (Bucket::ALL.to_vec(), args.row),
    };
    let (_opened, space) = open(context, &args.space, Access::Read).await?;
    explain(&SharedMemory::new(&space), &buckets, &id, out).await
}

/// Prints the history of the row with this id, in one of these buckets.
async fn explain(
    shared: &SharedMemory,
    buckets: &[Bucket],
    id: &str,
    out: &mut Out,
) -> Result<Exit, Failure> {
    let mut found: Option<(Bucket, Why)> = None;
    for bucket in buckets {
        let why = shared.why(*bucket, id).await?;
        if why.row.is_none() && why.events.is_empty() {
            continue;
        }
        if let Some((other, _)) = &found {
            return Err(Error::invalid(format!(
                "rows of several buckets have that id; name one of them: {other}/{id} or {bucket}/{id}"
            ))
            .into());
        }
        found = Some((*bucket, why));
    }
    let Some((_, why)) = found else {
        return Err(Error::not_found("no event is about a row of that id").into());
    };
    out.tell(&why, |out| tell_why(&why, out))?;
    Ok(Exit::Ok)
}

/// A row's status, and what replaced it.
fn status(row: &Row) -> String {
    match &row.superseded_by {
        Some(successor) => format!("{} by {successor}", row.status),
        None => row.status.clone(),
    }
}

fn tell_why(why: &Why, out: &mut Out) -> Result<(), Failure> {
    if let Some(row) = &why.row {
        out.line(format!("{} {}: {}, revision {}", row.bucket, row.id, status(row), row.rev))?;
    }
    for one in &why.events {
        let event = &one.event;
        out.line(format!(
            "{}  {} {} by {} at {} ({}; {})",
            event.seq,
            event.operation,
            event.target_id,
            event.actor.agent,
            event.observed_at,
            event.source_ref.reason,
            one.projection
        ))?;
        out.line(format!("   {}", one.words.as_deref().unwrap_or("(erased)")))?;
    }
    for (bucket, id) in &why.dependents {
        out.line(format!("depends on it: {bucket} {id}"))?;
    }
    Ok(())
}
