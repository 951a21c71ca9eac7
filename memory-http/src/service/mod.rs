//! Shared by the providers for memory services: options, calls, the check of every reply's owner, and `forget`.

mod connection;
mod forget;
mod options;
mod owner;
mod rows;

pub use connection::{Connection, Request};
pub use forget::{Forgets, Forgetting, end_run, may_have_forgotten, some_may_remain};
pub use options::{
    check_limits, client, default_long_timeout_ms, default_max_reply_bytes, default_timeout_ms, health,
};
pub use owner::{Owner, Service, is_uuid};
pub use rows::{Cursors, distinct_facts, flat_metadata};
