//! Fuzz targets: each a plain function over bytes, called by libFuzzer on nightly Rust and by `tests/replay.rs` on stable
//! Rust over the seeds and small changes of them.
//!
//! A target panics when a promise is broken. It reads its input as text where people would write text, so that a seed
//! can be read and written by hand; an input that starts with a byte from 0x80 to 0xBF, which no text does, drives a
//! [generator](generate) instead.

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
    /// Tries one input; panics where a promise is broken.
    pub run: fn(&[u8]),
}

macro_rules! targets {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        $($(#[$doc])* pub mod $name;)*

        /// Every target.
        pub const TARGETS: &[Target] = &[$(Target { name: stringify!($name), run: $name::run }),*];
    };
}

targets! {
    analyzer,
    audit,
    config,
    cursor,
    embed_reply,
    filter,
    ids_times,
    import,
    json,
    lexical_index,
    mcp,
    records,
    reduce,
    snapshot,
    sql_sandbox,
    sql_value,
    tool,
    url,
    validator_postgres,
    validator_sqlite,
}
