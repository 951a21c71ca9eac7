//! Facet 2: conversation in, facts out.
//!
//! The layer assigns ids, is lossy by design and may be asynchronous. It is not a key/value store.

mod adding;
mod content;
mod context;
mod fact;
mod ids;
mod queries;

use std::fmt::Debug;

use async_trait::async_trait;

use crate::error::Result;
use crate::scope::{RunContext, Scope};

pub use adding::{
    AddOptions, AddOutcome, AddStatus, MAX_CAPTION_BYTES, MAX_MESSAGE_ID_BYTES, MAX_MESSAGES,
    MAX_MESSAGES_BYTES, MAX_SPEAKER_BYTES, MAX_SUPERSEDED, Message, Role,
};
pub use context::{ContextBlock, ContextSource, MAX_CONTEXT_TOKENS, approximate_tokens, printable};
pub use fact::{Fact, ScoreKind, Share};
pub use ids::{EventId, FactId, MAX_REMOTE_ID_BYTES};
pub use queries::{
    EventStatus, FactsPage, FactsQuery, Forget, ForgetOutcome, MAX_FACTS_CURSOR_BYTES, RecallQuery,
};

/// Conversational memory: messages go in, facts come out.
///
/// The caller's [`RunContext`] carries per-run credentials; its tenant is the scope's.
#[async_trait]
pub trait MemoryLayer: Send + Sync + Debug {
    /// Adds messages. Requires `Capabilities::memory_layer`.
    ///
    /// # Behavior
    /// - LAY-1: The scope learns what a user's message says, in the layer's words: `recall` finds it and `facts`
    ///   lists it.
    /// - LAY-2: With `layer_sync`, `add` returns when the work is done: it never answers `Pending`, and the next
    ///   call of any handle sees what was learned.
    /// - LAY-3: Without `layer_sync`, `add` may answer `Pending`. With `layer_events` it then names an event, and
    ///   `event` reports `Pending` until it reports `Done` or `Failed`. Once it reports `Done`, the facts are
    ///   learned.
    /// - LAY-4: With `layer_ids`, `Done` names exactly the facts that this `add` stored, each once; all of them are
    ///   facts of the scope. Without it, `Done` names none.
    /// - LAY-5: An `add` without anything worth keeping succeeds and names no fact that does not exist: success
    ///   does not mean that something was stored.
    /// - LAY-6: `infer: false` stores the words of each user and assistant message as a separate fact, byte for
    ///   byte. It needs `layer_verbatim`; without it the call is refused with `capability_unsupported` and
    ///   `details.option`.
    /// - LAY-7: The metadata of an `add` is attached to every fact it stored; that of a message, if the layer keeps
    ///   messages apart, to its own fact alone. It needs `layer_metadata`; without it
    ///   the call is refused with `capability_unsupported` and `details.option`. A layer may reserve names, which
    ///   it refuses with `invalid_argument`.
    /// - LAY-8: Words and metadata are data. Filters, wildcards, ids and logic words in them (`*`, `{"AND": …}`,
    ///   `user_id`, `$or`) neither widen nor redirect what is stored or found.
    /// - LAY-9: Adding the same words again is no error, and what was learned stays learned.
    /// - LAY-10: System and tool messages, blank messages and speakers' names do not disturb the messages beside
    ///   them.
    /// - LAY-85 to LAY-88: `supersedes` ends the facts that it names in favour of the one message that is added.
    /// - LAY-100: What was superseded by a fact that is gone can be superseded again, and holds again once it is confirmed.
    /// - LAY-94, LAY-95: `confirms`, and the same words said again, move the `confirmed_at` of facts.
    /// - LAY-89: With a `ttl`, facts are invisible from their expiry on.
    /// - LAY-103: With `again` and `supersedes`, other words under the same id take the place of the first.
    /// - LAY-90 to LAY-93: With `layer_idempotent`, the same message added again is one fact, and what was forgotten
    ///   is left out unless `again` asks for it; the outcome counts both.
    /// - LAY-11: An `add` that may have stored all or a part is `Unknown` and is not retried.
    /// - LAY-50 to LAY-54: No call shows, changes or counts a fact of another scope.
    ///
    /// # Errors
    /// `unavailable` if nothing was stored. A write with an unknown outcome is not an error but [`AddStatus::Unknown`].
    async fn add(
        &self,
        run: &RunContext,
        scope: &Scope,
        messages: &[Message],
        options: AddOptions,
    ) -> Result<AddOutcome>;

    /// Finds facts, best first, of this scope alone. Requires `Capabilities::memory_layer`.
    ///
    /// # Behavior
    /// - LAY-12: A fact that contains all words of the question ranks above facts that contain few of them.
    /// - LAY-13: At most `top_k` facts are returned, and no fact twice.
    /// - LAY-14: Scores are finite and never increase along the answer; `score_kind` is `none` if and only if there
    ///   is no score. `cosine` and `similarity` scores are 0 to 1.
    /// - LAY-15: A threshold is applied once, to a similarity. It needs `layer_threshold`; without it the call is
    ///   refused with `capability_unsupported` and `details.option`. With `cosine` and `similarity` scores, no fact
    ///   below it is returned. With `rank` scores, the layer applies it to the underlying similarity and never to
    ///   the rank. A threshold never adds facts, and a threshold of one half keeps the fact that says what was asked
    ///   in the same words.
    /// - LAY-16: A scope that learned nothing answers with no facts and no error.
    /// - LAY-17: Recalling and listing change nothing.
    /// - LAY-87: With `as_of`, it finds the facts that held at that time.
    /// - LAY-97: What was learned with another embedding model is found by its words.
    /// - LAY-96: With `unconfirmed_since`, it finds only what nobody said or confirmed from that time on.
    ///
    /// # Errors
    /// `unavailable`, `timeout`, `corrupt` for a reply that cannot be trusted.
    async fn recall(&self, run: &RunContext, scope: &Scope, query: RecallQuery) -> Result<Vec<Fact>>;

    /// Asks about work in progress. Requires `Capabilities::layer_events`.
    ///
    /// # Behavior
    /// - LAY-3: Without `layer_sync`, `add` may answer `Pending`. With `layer_events` it then names an event, and
    ///   `event` reports `Pending` until it reports `Done` or `Failed`. Once it reports `Done`, the facts are
    ///   learned.
    /// - LAY-20: An event belongs to the scope it was created in. In another scope it is `not_found`, like an event
    ///   that never existed, and nothing about it is revealed.
    /// - LAY-21: An event that is done stays done, with the same facts, until they are forgotten.
    /// - LAY-22: Failed work is reported as `Failed`, with a reason.
    ///
    /// # Errors
    /// `not_found` for an unknown event, or one of another scope.
    async fn event(&self, run: &RunContext, scope: &Scope, id: &EventId) -> Result<EventStatus>;

    /// Forgets facts of this scope. Requires `Capabilities::layer_forget`.
    ///
    /// # Behavior
    /// - LAY-30: With `layer_forget`, the named facts are neither recalled nor listed once `forget` has returned;
    ///   all others stay.
    /// - LAY-31: An id that is not a fact of this scope (unknown, malformed, or another scope's) is returned in
    ///   `not_found`, and whatever it names is untouched.
    /// - LAY-32: `forgotten`, if reported, counts the facts that existed and are gone.
    /// - LAY-33: `Forget::All` leaves nothing in the scope and does not touch other scopes. It succeeds on an empty
    ///   scope.
    /// - LAY-34: Forgetting again is no error: ids that are gone are `not_found`.
    /// - LAY-35: What was forgotten can be learned again, by an `add` with `again`.
    /// - LAY-36: A `forget` that may have forgotten some, or may go on forgetting, fails with `outcome_unknown` and
    ///   never with an error that means that nothing was done.
    /// - LAY-37: `remains` says what the service keeps of the words all the same, and until when.
    ///
    /// # Errors
    /// `outcome_unknown` if some facts may be gone.
    async fn forget(&self, run: &RunContext, scope: &Scope, what: Forget) -> Result<ForgetOutcome>;

    /// Lists facts of this scope. Requires `Capabilities::memory_layer`.
    ///
    /// # Behavior
    /// - LAY-40: Together, the pages of `facts` contain each fact once, if nothing changes between them. No page
    ///   exceeds `limit`; every page but the last has a cursor.
    /// - LAY-41: A cursor of another scope, or one that the listing did not return, is `invalid_argument`.
    /// - LAY-42: A fact has the same id and words wherever it is returned.
    /// - LAY-43: If facts have an `order`, they are listed by it.
    /// - LAY-44: With a `session`, the pages contain the facts of that session alone. Requires
    ///   `Capabilities::layer_sessions`.
    ///
    /// # Errors
    /// `invalid_argument` for a foreign cursor.
    async fn facts(&self, run: &RunContext, scope: &Scope, query: FactsQuery) -> Result<FactsPage>;
}
