//! The store, tenant and scope that a command works on, and where each setting comes from.

mod beside;
mod global;
mod open;
mod openings;
mod resolved;
mod store;
mod unmade;

pub use global::Global;
pub use resolved::BareStore;
pub use store::sqlite_url;

pub(crate) use global::registry;
pub(crate) use open::is_unmade;
pub(crate) use openings::Openings;
pub(crate) use resolved::{DEFAULT_ID, Settings, scope_of};
pub(crate) use store::{Origin, create_private_folder, data_folder, state_folder};
