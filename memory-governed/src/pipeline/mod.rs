//! From notes to shared state: promotion, the one write path, and what waits.

mod allowed;
mod candidates;
mod inputter;
mod outcome;
mod promotion;
mod queue;
mod review;
mod settle;
mod target;

pub use inputter::Inputter;
pub use outcome::{Held, Outcome, Promotion, Report};
pub use promotion::PromotionPipeline;
pub use queue::{Pending, PendingMemoryQueue, PendingStatus};
pub use review::Review;
