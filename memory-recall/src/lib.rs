//! Conversations on any key/value provider: [`Recall`] gives it the facet [`MemoryLayer`](memory_core::MemoryLayer).
//!
//! - Turns are kept whole, with speaker, role, session, order, time and the turn they answer. Nothing is paraphrased.
//! - They are entries of the caller's scope, under a [reserved prefix](RESERVED_PREFIX): its quota, expiry, snapshots and
//!   forgetting apply to them, and other processes see them at once.
//! - `recall` ranks them by one linear score ([`rank`]) over an index in memory that holds no text. One read of the
//!   store tells whether the index is current; if not, only what is new is read.
//!
//! `docs/spec/layer.md` numbers the behaviours of the facet, `docs/spec/recall.md` specifies what this crate stores.

mod add;
mod cache;
mod changes;
mod counts;
mod derived;
pub mod extract;
mod forget;
mod known;
mod layer;
mod plan;
mod provider;
pub mod rank;
mod recall;
mod records;
mod reembed;
mod store;

pub use plan::AddPlan;
pub use provider::advertise;
pub use recall::{DEFAULT_MEMORY_BYTES, Recall, RecallOptions};
pub use records::{ConversationEntry, ConversationHead, KnownFact, fact_of_message, known_facts};
pub use reembed::{TurnVectorStats, TurnVectors};
pub use store::keys::{RESERVED_PREFIX, SOURCE, is_reserved};
