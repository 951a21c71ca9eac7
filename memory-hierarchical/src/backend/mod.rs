//! Which backend keeps memories: a choice by flag, environment and what is on disk, as the reference makes it. Nothing here
//! reads the process's environment.

mod choice;
mod detect;
mod environment;
mod paths;
mod probe;
mod resolve;

pub use choice::BackendChoice;
pub use environment::Environment;
pub use paths::Paths;
pub use resolve::{ChosenBy, Resolved, resolve_backend, resolve_transfer_backend};
