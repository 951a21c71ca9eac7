//! Commands over very many scopes take no more memory than over few.

mod gc;
mod snapshot;
