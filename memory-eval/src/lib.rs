//! Quality of retrieval, measured through a provider as its users reach it.
//!
//! - [`locomo`] reads the LoCoMo dialogues: turns, questions, and the turns that hold the evidence.
//! - [`evaluate`] stores the turns, asks the questions through `search`, and reports [`metrics`].
//!
//! What is measured and how is in `docs/evaluation.md`.

mod abstain;
mod bootstrap;
mod evaluate;
pub mod locomo;
pub mod metrics;
mod report;

pub use abstain::{Abstaining, Figures, Judged, Point, Share};
pub use bootstrap::{Interval, mean_interval};
pub use evaluate::{EvalOptions, Progress, evaluate};
pub use report::{Category, Measures, Paired, Report, Timing};
