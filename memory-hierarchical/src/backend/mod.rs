//! Which backend keeps memories: chosen by flag, environment and what is on disk, as in the reference implementation.
//! Nothing here reads the process's environment.

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
