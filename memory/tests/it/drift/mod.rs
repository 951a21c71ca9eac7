//! The drift guard, scenario by scenario: `docs/spec/drift.md` has the sentences. A name's number is that of the list of
//! what such guards are known to get wrong. The files beside this one need no SQL of a stranger and run on each engine.

#[cfg(feature = "postgres")]
mod postgres;
mod sqlite;
