//! `memory serve` as a client sees it: each test starts the real binary and talks to it line by line.

mod audit;
mod bad_input;
pub(crate) mod client;
mod configuration;
mod drift;
mod extract;
mod gc;
mod governed;
mod graph;
mod identity;
mod layer;
mod life;
mod protocol;
mod real_clients;
mod values;
