//! What is forgotten is in no file beside the store, whenever the process that forgets it dies.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "tests stop at what they did not expect"
)]

mod kill;
mod modes;
mod places;
mod seed;
