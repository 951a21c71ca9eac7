//! The kinds of shared state, and what can be done to each.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A kind of shared state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Bucket {
    /// The one plan, `main`: replaced as a whole, its version grows.
    Plan,
    /// Restrictions: active or invalidated.
    Constraints,
    /// Problems: open or resolved.
    Issues,
    /// Choices: active or superseded.
    Decisions,
    /// Measurements and outcomes: only added.
    Results,
    /// The state of each task: the latest observation wins.
    TaskState,
    /// Reusable knowledge: only added.
    Learnings,
}

/// What a write does to a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Operation {
    /// Create the row, or change the given members.
    Upsert,
    /// Add a row.
    Append,
    /// End an issue.
    Resolve,
    /// End a constraint or a decision.
    Invalidate,
    /// Open an issue again that was resolved by mistake.
    Reopen,
    /// Decide a deferred write without changing a row. Never requested by a note.
    Review,
}

impl Bucket {
    /// Every bucket.
    pub const ALL: [Self; 7] = [
        Self::Plan,
        Self::Constraints,
        Self::Issues,
        Self::Decisions,
        Self::Results,
        Self::TaskState,
        Self::Learnings,
    ];

    /// The name in JSON and in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Plan => "plan",
            Self::Constraints => "constraints",
            Self::Issues => "issues",
            Self::Decisions => "decisions",
            Self::Results => "results",
            Self::TaskState => "task_state",
            Self::Learnings => "learnings",
        }
    }

    /// The operations it has.
    #[must_use]
    pub const fn operations(self) -> &'static [Operation] {
        match self {
            Self::Plan | Self::TaskState => &[Operation::Upsert],
            Self::Constraints => &[Operation::Upsert, Operation::Invalidate],
            Self::Issues => &[Operation::Upsert, Operation::Resolve, Operation::Reopen],
            Self::Decisions => &[Operation::Append, Operation::Invalidate],
            Self::Results | Self::Learnings => &[Operation::Append],
        }
    }
}

impl Operation {
    /// The name in JSON and in tables.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Upsert => "upsert",
            Self::Append => "append",
            Self::Resolve => "resolve",
            Self::Invalidate => "invalidate",
            Self::Reopen => "reopen",
            Self::Review => "review",
        }
    }

    /// Whether it ends or reopens a row, so that it must be certain which row is meant.
    #[must_use]
    pub const fn is_lifecycle(self) -> bool {
        matches!(self, Self::Resolve | Self::Invalidate | Self::Reopen)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}
