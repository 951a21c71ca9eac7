//! The crate seen from outside.
#![allow(missing_docs)]

mod defaults;
mod wrappers;
