//! Forgetting a tenant, a scope or a key: in the store, and everywhere else that holds a copy.
//!
//! [`forget`] covers queued writes in a fallback's journal, the store (both of a pair), drift backups, the snapshots in
//! the ledger, audit files, and the facts of a conversational layer. It records the target before the first step, so it
//! can be resumed ([`resume`]). Its report says what was done, what was left and what could not be reached.
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
pub use steps::{abandon, dry_run, forget, interrupted, resume, unfinished};
