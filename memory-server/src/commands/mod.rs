//! One function per command.

mod entries;
mod facts;
mod lifecycle;
mod operator;

pub(crate) use entries::*;
pub(crate) use facts::*;
pub(crate) use lifecycle::*;
pub(crate) use operator::*;
