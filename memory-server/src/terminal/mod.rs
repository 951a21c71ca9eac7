//! What the command lines of `memory` and `memory-lab` share: global options, the store they select, output, progress
//! and exit codes. Not an interface for other crates.

mod context;
mod credentials;
mod failure;
mod history;
mod input;
mod line;
mod lines;
mod log;
mod output;
mod pages;
mod program;
mod progress;
mod settings;
mod stop;
#[cfg(feature = "otel")]
pub(crate) mod traces;
pub(crate) mod values;

pub use context::Context;
pub use failure::{EXIT_CODES, Exit, Failure};
pub use output::{Out, bytes, excerpt, note};
pub use program::{end_of_parsing, misuse, run, wants_json};
pub use progress::Progress;
pub use settings::{BareStore, Global, sqlite_url};
pub use stop::Stop;
pub use values::duration;

pub(crate) use context::{Elsewhere, Opened, alone, has_facts, scope_name};
pub(crate) use credentials::CredentialArgs;
pub(crate) use history::History;
pub(crate) use input::read_text;
pub(crate) use line::{Ended, Line};
pub(crate) use lines::{Language, Lines, Read, is_person, not_utf8};
pub(crate) use memory_core::layer::printable;
pub(crate) use output::{NAMED, complain, counted, more, width, word};
pub(crate) use pages::PageArgs;
pub(crate) use program::{CLOSING, ended, observed};
pub(crate) use progress::Counter;
pub(crate) use settings::{
    DEFAULT_ID, Origin, Settings, create_private_folder, data_folder, is_unmade, scope_of,
};
pub(crate) use stop::{Signal, Signals, signal};
