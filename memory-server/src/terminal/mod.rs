//! What the command lines of `memory` and `memory-lab` share: global options, the store they name, output, progress and exit
//! codes. It is not an interface for other crates.

mod context;
mod credentials;
mod failure;
mod input;
mod log;
mod output;
mod pages;
mod program;
mod progress;
mod settings;
pub(crate) mod values;

pub use context::Context;
pub use failure::{EXIT_CODES, Exit, Failure};
pub use output::{Out, bytes, excerpt, note};
pub use program::{end_of_parsing, misuse, run};
pub use progress::{Progress, Stop};
pub use settings::{BareStore, Global, sqlite_url};
pub use values::duration;

pub(crate) use context::{Elsewhere, Opened, scope_name};
pub(crate) use credentials::CredentialArgs;
pub(crate) use input::read_text;
pub(crate) use output::{NAMED, more, printable, width, word};
pub(crate) use pages::PageArgs;
pub(crate) use program::CLOSING;
pub(crate) use progress::{Counter, signal};
pub(crate) use settings::{Origin, Settings, create_private_folder, data_folder, is_typed, scope_of};
