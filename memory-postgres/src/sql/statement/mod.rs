//! Running one statement.

pub(crate) mod arguments;
pub(crate) mod execute;
pub(crate) mod parameter_types;
pub(crate) mod run;
pub(crate) mod verdicts;
