//! Search: what is cached in memory or stored agrees with the entries.

mod nearest;
mod stored;
mod together;
mod vectors;
