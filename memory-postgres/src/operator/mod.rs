//! What an operator does once, and looks at when something is wrong.

mod agents;
mod doctor;
mod provision;

pub use doctor::{Finding, Report, Status, doctor};
pub use provision::{Provisioned, provision, rekey, script};
