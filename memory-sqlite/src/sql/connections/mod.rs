//! The connection pool. A connection in use belongs to its caller and is never closed from outside; idle ones stay in the
//! pool, and the oldest are closed when there are too many.

mod connection;
pub(crate) mod descriptors;
mod pool;
mod resting;

pub(crate) use connection::{Conn, DROPPED, ScopeState, WRITTEN, is_busy, is_out_of_room};
pub(crate) use pool::{Opener, Pool};
