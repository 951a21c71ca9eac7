//! Transactions that stay open between calls.

mod savepoints;
mod statements;
