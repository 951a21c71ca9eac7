//! Worker threads, timers, and the statements in flight.

pub(crate) mod in_flight;
pub(crate) mod timers;
pub(crate) mod workers;
