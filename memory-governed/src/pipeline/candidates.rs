//! The rows that a note may refer to.

use memory_core::{Result, Timestamp};

use crate::bucket::Bucket;
use crate::columns::{id_column, table};
use crate::interpret::Context;
use crate::projection::{Row, read, rows};
use crate::request::WriteRequest;
use crate::seams::Candidate;
use crate::store::{Session, int};

/// Buckets whose rows notes refer to.
const REFERRED: [Bucket; 3] = [Bucket::Constraints, Bucket::Issues, Bucket::Decisions];
const LIVE: &str = "WHERE status IN ('open', 'active')";

/// Ended rows whose words count, the latest.
const ENDED: u64 = 400;

/// Open issues, active constraints, active decisions of that time.
pub(super) async fn context(session: &Session<'_>, observed_at: Timestamp) -> Result<Context> {
    let mut live = Vec::new();
    for bucket in REFERRED {
        live.extend(rows(session, bucket, LIVE, &[]).await?);
    }
    let shown = live.iter().map(|row| (row.bucket, row.id.as_str(), row.title(), row.valid_from));
    Ok(Context::of(shown, observed_at))
}

/// The live rows of a request's bucket, the latest that have ended, and the row it names.
pub(super) async fn candidates(session: &Session<'_>, request: &WriteRequest) -> Result<Vec<Candidate>> {
    let mut found = rows(session, request.bucket, LIVE, &[]).await?;
    let (table, id) = (table(request.bucket), id_column(request.bucket));
    let ended = format!(
        "WHERE {id} IN (SELECT {id} FROM {table} WHERE status NOT IN ('open', 'active') ORDER BY last_event DESC LIMIT ?)"
    );
    found.extend(rows(session, request.bucket, &ended, &[int(ENDED)]).await?);
    if let Some(id) = &request.target_id
        && found.iter().all(|row| row.id != *id)
    {
        found.extend(read(session, request.bucket, id).await?);
    }
    Ok(found.into_iter().map(Row::candidate).collect())
}
