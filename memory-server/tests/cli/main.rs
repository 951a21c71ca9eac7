//! The command, as its users run it: each test starts the real binary in a folder of its own.

mod command;
mod config;
mod conformance;
mod conversations;
mod demo;
mod importing;
mod lists;
mod output;
mod records;
mod refusals;
mod search;
mod shared_data;
mod values;
