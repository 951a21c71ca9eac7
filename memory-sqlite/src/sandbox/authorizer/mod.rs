//! The authorizer: what the engine asks before it compiles a statement, and what it is answered.

mod hook;
mod watch;

pub(super) use hook::install;
pub(super) use watch::{Denied, Phase, SHADOWS, Watch};
