//! The progress of extracting facts from a conversation: the entry `~turn/extract`.

use serde::{Deserialize, Serialize};

/// What a model was asked, and what it cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
#[non_exhaustive]
pub struct Spent {
    /// Calls of the model.
    pub calls: u64,
    /// Tokens read, as far as the service counts them.
    pub input_tokens: u64,
    /// Tokens written, as far as the service counts them.
    pub output_tokens: u64,
    /// Bytes sent and received in calls whose tokens the service did not count.
    pub uncounted_bytes: u64,
}

impl Spent {
    /// Adds another's.
    pub fn add(&mut self, other: Self) {
        self.calls = self.calls.saturating_add(other.calls);
        self.input_tokens = self.input_tokens.saturating_add(other.input_tokens);
        self.output_tokens = self.output_tokens.saturating_add(other.output_tokens);
        self.uncounted_bytes = self.uncounted_bytes.saturating_add(other.uncounted_bytes);
    }
}

/// How far facts were derived.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Progress {
    /// The number of the first record not examined.
    pub(crate) next: u64,
    /// Turns that were set aside and will be retried, before those from `next` on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) again: Vec<u64>,
    /// How often the turns that are next have been tried.
    pub(crate) attempts: u32,
    /// How many turns to take at once, if fewer than usual.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) size: Option<usize>,
    /// When to try again, in milliseconds.
    pub(crate) not_before: i64,
    /// Who is at it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) claim: Option<Claim>,
    /// Turns that were given up.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) aside: Vec<Aside>,
    pub(crate) spent: Spent,
}

/// Who is working on it, and until when nobody else may begin.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claim {
    pub(crate) by: String,
    pub(crate) until: i64,
}

/// A turn that was given up. Contains no words.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Aside {
    pub(crate) n: u64,
    /// The code of the last error.
    pub(crate) code: String,
    /// When, in milliseconds.
    pub(crate) at: i64,
}

impl Progress {
    /// Removes forgotten turns. Returns whether it had any.
    pub(crate) fn forget(&mut self, gone: &dyn Fn(u64) -> bool) -> bool {
        let before = self.again.len() + self.aside.len();
        self.again.retain(|number| !gone(*number));
        self.aside.retain(|aside| !gone(aside.n));
        before != self.again.len() + self.aside.len()
    }

    /// Removes these turns from what waits.
    pub(crate) fn done_with(&mut self, numbers: &[u64], next: u64) {
        self.again.retain(|number| !numbers.contains(number));
        self.next = self.next.max(next);
        (self.attempts, self.size, self.not_before, self.claim) = (0, None, 0, None);
    }
}
