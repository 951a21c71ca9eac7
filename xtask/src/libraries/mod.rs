//! Libraries in C and C++ that some features need, from Python packages: a feature whose library is missing is left out of
//! what is built.

mod clang;
mod features;
mod ladybug;

pub(crate) use clang::Libclang;
pub(crate) use features::Libraries;
pub(crate) use ladybug::Ladybug;
