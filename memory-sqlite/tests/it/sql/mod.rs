//! The SQL facet: what the conformance suite cannot see from outside.

mod cancel;
mod dump;
#[cfg(unix)]
mod files;
#[cfg(target_os = "linux")]
mod full_disk;
#[cfg(unix)]
mod processes;
#[cfg(unix)]
mod quotas;
mod statements;
mod transactions;
