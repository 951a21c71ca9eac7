//! The crate seen from outside.
#![allow(missing_docs)]

mod wrappers;
