//! Forgetting a tenant, a scope or a key: in the store, and in everything beside it that holds a copy.
//!
//! [`forget`] reaches what waits in the journal of a fallback, the store (both of a pair), backups that drift left, the
//! snapshots that the ledger knows, audit files, and the facts of a conversational layer. It notes the target before the
//! first step and can be run again ([`resume`]). What it did, what it left and what it could not reach is in its report.
//! `docs/spec/forget.md` numbers the behaviours.

mod audit;
mod intent;
mod places;
mod policy;
mod report;
mod snapshots;
mod steps;
mod store;

pub use audit::FORGOTTEN;
pub use places::Places;
pub use policy::{AuditPolicy, ForgetPolicy, SnapshotPolicy};
pub use report::{ForgetReport, ForgetStep, StepOutcome};
pub use steps::{dry_run, forget, resume, unfinished};
