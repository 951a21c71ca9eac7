//! Shared state of several agents: `note`, `promote`, `shared`, `why`, `pending`, `review`, `rebuild`, `verify`.

mod deciding;
mod ledger;
mod notes;
mod reading;

use std::sync::Arc;

use clap::{Args, ValueEnum};
use memory::Access;
use memory::governed::{self, Actor, Bucket, Space, Trust};
use memory_core::Result;

use crate::terminal::{Context, Opened};

pub(crate) use deciding::{PendingArgs, ReviewArgs, pending, review};
pub(crate) use ledger::{VerifyArgs, rebuild, verify};
pub(crate) use notes::{NoteArgs, PromoteArgs, note, promote};
pub(crate) use reading::{SharedArgs, WhyArgs, shared, why};

/// Which shared space.
#[derive(Args, Clone, Debug)]
pub(crate) struct SpaceArgs {
    /// The shared space of the tenant
    #[arg(long, global = true, value_name = "NAME", default_value = governed::DEFAULT_SPACE)]
    space: String,
}

/// A bucket, as it is typed.
#[derive(Clone, Copy, Debug, ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum BucketName {
    /// The one plan
    Plan,
    /// Restrictions
    Constraints,
    /// Problems
    Issues,
    /// Choices
    Decisions,
    /// Measurements
    Results,
    /// Where each task stands
    TaskState,
    /// Reusable knowledge
    Learnings,
}

impl From<BucketName> for Bucket {
    fn from(name: BucketName) -> Self {
        match name {
            BucketName::Plan => Self::Plan,
            BucketName::Constraints => Self::Constraints,
            BucketName::Issues => Self::Issues,
            BucketName::Decisions => Self::Decisions,
            BucketName::Results => Self::Results,
            BucketName::TaskState => Self::TaskState,
            BucketName::Learnings => Self::Learnings,
        }
    }
}

/// Opens the store and its space. Only `Access::Create` creates the space; otherwise a missing one reads as empty.
pub(super) async fn open(context: &Context, args: &SpaceArgs, access: Access) -> Result<(Opened, Space)> {
    let opened = context.open(access).await?;
    let (tenant, provider) = (&opened.settings.tenant, Arc::new(opened.memory.clone()));
    let space = if access == Access::Create || Space::is_made(provider, tenant, &args.space).await? {
        governed::open(&opened.memory, tenant, &args.space).await?
    } else {
        governed::open(&opened.settings.empty().await?, tenant, &args.space).await?
    };
    Ok((opened, space))
}

/// The person at this terminal, with the trust that the command gives.
pub(super) fn actor(opened: &Opened, trust: Trust) -> Actor {
    Actor { agent: opened.scope().id.as_str().to_owned(), run: "terminal".to_owned(), trust }
}
