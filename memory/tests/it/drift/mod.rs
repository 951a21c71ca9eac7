//! The drift guard, scenario by scenario, with the sentences of `docs/spec/drift.md`. The number in a name is that of a
//! list of known mistakes of such guards. The files next to this one need no foreign SQL and run on each engine.

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
