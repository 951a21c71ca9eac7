//! The rows that a note may refer to.

use memory_core::Result;

use crate::bucket::Bucket;
use crate::projection::{read, rows};
use crate::request::WriteRequest;
use crate::seams::{Candidate, Context};
use crate::store::Session;

/// Buckets whose rows notes refer to.
const REFERRED: [Bucket; 3] = [Bucket::Constraints, Bucket::Issues, Bucket::Decisions];

/// Open issues, active constraints, active decisions.
pub(super) async fn context(session: &Session<'_>) -> Result<Context> {
    let mut context = Context::default();
    for bucket in REFERRED {
        context.rows.extend(live(session, bucket).await?);
    }
    Ok(context)
}

async fn live(session: &Session<'_>, bucket: Bucket) -> Result<Vec<Candidate>> {
    let live = rows(session, bucket, "WHERE status IN ('open', 'active')", &[]).await?;
    Ok(live.into_iter().map(crate::projection::Row::candidate).collect())
}

/// The live rows of a request's bucket, and the row it names even if that has ended.
pub(super) async fn candidates(session: &Session<'_>, request: &WriteRequest) -> Result<Vec<Candidate>> {
    let mut candidates = live(session, request.bucket).await?;
    if let Some(id) = &request.target_id
        && candidates.iter().all(|candidate| candidate.id != *id)
        && let Some(row) = read(session, request.bucket, id).await?
    {
        candidates.push(row.candidate());
    }
    Ok(candidates)
}
