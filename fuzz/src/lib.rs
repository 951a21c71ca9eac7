//! Fuzz targets: each a plain function over bytes, called by libFuzzer on nightly Rust and by `tests/replay.rs` on
//! stable Rust, with the seeds and mutations of them.
//!
//! A target panics on a broken promise. Where people write text it reads text, so that seeds can be read and written by
//! hand; an input that starts with a byte from 0x80 to 0xBF, which text never does, drives a [generator](generate)
//! instead.
#![allow(
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::unwrap_used,
    reason = "a target panics when a promise is broken"
)]

pub mod generate;
pub mod mutate;
pub mod oracle;
pub mod store;
pub mod support;

/// A fuzz target.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name: the binary libFuzzer runs, and the folder of its seeds.
    pub name: &'static str,
    /// Tries one input; panics on a broken promise.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($(#[$doc:meta])* $folder:ident: $($name:ident)*;)*) => {
        $($(#[$doc])* pub mod $folder { $(pub mod $name;)* })*

        /// Every target.
        pub const TARGETS: &[Target] = &[$($(Target { name: stringify!($name), run: $folder::$name::run }),*),*];
    };
}

targets! {
    /// The contracts' own parsers and pure functions.
    contracts: analyzer cursor filter governed ids_times json lexical_index reduce segment sql_value;
    /// Input from people, models and services.
    product: audit config embed_reply facts_reply graph_databases graph_json http import mcp records snapshot tool url;
    /// Agents' SQL.
    statements: sql_sandbox validator_postgres validator_sqlite;
}
