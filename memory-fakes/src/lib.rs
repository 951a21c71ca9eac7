//! Services that tests talk to.
//!
//! - [`http`]: a server that answers, drips, stalls or resets as it is told, with a clock, ids and a timer that tests
//!   steer;
//! - [`mem0`] and [`mem9`]: the services as they were recorded, with their holes;
//! - [`asked`]: requests taken apart, a fake put behind HTTP, the recorded pairs;
//! - [`unusable`]: replies that nothing may be made of;
//! - `strangers` (feature of that name): tenants who must never meet.

#![allow(
    missing_docs,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "only tests use it: they stop at what they did not expect"
)]

pub mod asked;
pub mod http;
pub mod mem0;
pub mod mem9;
#[cfg(feature = "strangers")]
pub mod strangers;
pub mod unusable;

pub use crate::asked::{Answer, Asked, Fake, key_file, recorded, run_of, sent, serve};
