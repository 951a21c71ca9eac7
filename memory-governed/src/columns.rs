//! The members of each bucket's rows: what a request may give, and what a table keeps.

use crate::bucket::Bucket;

/// What a member holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Text that is not blank.
    Text,
    /// The id of a row.
    Id,
    Real,
    /// A number from 0 to 1.
    Share,
    /// An object, a list or text.
    Json,
    /// One of [`TASK_STATUSES`], kept in the column `status`.
    Status,
}

/// A member of a payload, and its column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) required: bool,
}

const fn must(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, required: true }
}

const fn may(name: &'static str, kind: Kind) -> Column {
    Column { name, kind, required: false }
}

/// What an `invalidate` may say: the row that replaces the one that ends.
pub(crate) const SUCCESSOR: &[Column] = &[may(SUPERSEDED_BY, Kind::Id)];
/// The member's name.
pub(crate) const SUPERSEDED_BY: &str = "superseded_by";

/// The member that names who works on a task.
pub(crate) const OWNER: &str = "owner_agent";

/// What a task's status may be.
pub const TASK_STATUSES: [&str; 5] = ["pending", "in_progress", "blocked", "done", "failed"];

/// Statuses of rows that have not ended.
pub(crate) const LIVE: [&str; 3] = ["open", "active", "current"];

/// The members of a bucket's payload; the first required one is the row's content.
pub(crate) const fn columns(bucket: Bucket) -> &'static [Column] {
    use Kind::{Id, Json, Real, Share, Status, Text};
    match bucket {
        Bucket::Plan => const { &[must("plan_json", Json)] },
        Bucket::Constraints => const { &[must("text", Text), may("scope", Text)] },
        Bucket::Issues => {
            const {
                &[
                    must("title", Text),
                    may("description", Text),
                    may("severity", Text),
                    may("entity_type", Text),
                    may("entity_id", Text),
                ]
            }
        }
        Bucket::Decisions => const { &[must("statement", Text), may("rationale", Text), may("scope", Text)] },
        Bucket::Results => {
            const {
                &[
                    must("metric_name", Text),
                    must("metric_value", Real),
                    may("experiment_id", Text),
                    may("baseline_value", Real),
                    may("notes", Text),
                ]
            }
        }
        Bucket::TaskState => {
            const { &[must("status", Status), may("phase", Text), may(OWNER, Text), may("blockers_json", Json)] }
        }
        Bucket::Learnings => {
            const {
                &[
                    must("statement", Text),
                    may("title", Text),
                    may("category", Text),
                    may("scope", Text),
                    may("confidence", Share),
                    may("source_issue_id", Id),
                ]
            }
        }
    }
}

/// The member with a row's content, if that is text.
pub(crate) fn main_text(bucket: Bucket) -> Option<&'static str> {
    columns(bucket)
        .iter()
        .find(|column| column.required && column.kind == Kind::Text)
        .map(|column| column.name)
}

/// The name of a bucket's table.
pub(crate) const fn table(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Plan => "shared_plan",
        Bucket::Constraints => "shared_constraints",
        Bucket::Issues => "shared_issues",
        Bucket::Decisions => "shared_decisions",
        Bucket::Results => "shared_results",
        Bucket::TaskState => "shared_task_state",
        Bucket::Learnings => "shared_learnings",
    }
}

/// The column of a row's id.
pub(crate) const fn id_column(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Plan => "target_id",
        Bucket::TaskState => "task_id",
        _ => "id",
    }
}

/// The column of a row's revision; a plan's is its version.
pub(crate) const fn rev_column(bucket: Bucket) -> &'static str {
    match bucket {
        Bucket::Plan => "version",
        _ => "rev",
    }
}
