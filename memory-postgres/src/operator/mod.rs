//! What an operator runs: once for setup, and again when something is wrong.

mod doctor;
mod provision;
mod report;
mod sql_doctor;

pub use doctor::doctor;
pub use provision::{Provisioned, provision, rekey, script};
pub use report::{Finding, Report, Status};
