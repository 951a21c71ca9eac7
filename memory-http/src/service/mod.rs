//! Shared by the providers for memory services: options, calls, the check of every reply's owner, and `forget`.

mod connection;
mod forget;
mod options;
mod owner;
mod rows;

pub use connection::{Connection, Request};
pub use forget::{Forgetting, forget_within, may_have_forgotten, some_may_remain};
pub use options::{
    DEFAULT_ADD_TIMEOUT_MS, DEFAULT_MAX_REPLY_BYTES, DEFAULT_TIMEOUT_MS, check_limits, client, health,
};
pub use owner::{Owner, Service, is_uuid};
pub use rows::{Cursors, distinct_facts, flat_metadata};
