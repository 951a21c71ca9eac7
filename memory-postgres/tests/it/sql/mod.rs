//! The SQL facet.

mod arrays;
#[cfg(feature = "lab")]
mod corpora;
mod dumps;
mod eviction;
mod failover;
mod faults;
mod logins;
#[cfg(feature = "lab")]
mod names;
mod quota;
mod replicas;
