//! The authorizer: decides about every action of a statement that the engine compiles.

mod hook;
mod watch;

pub(super) use hook::install;
pub(super) use watch::{Denied, Phase, Watch, is_shadow};
