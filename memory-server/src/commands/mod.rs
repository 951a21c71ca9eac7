//! One function per command.

mod entries;
mod facts;
mod governed;
mod graph;
mod lifecycle;
mod operator;
mod program;

pub(crate) use entries::*;
pub(crate) use facts::*;
pub(crate) use governed::*;
pub(crate) use graph::*;
pub(crate) use lifecycle::*;
pub(crate) use operator::*;
pub(crate) use program::*;
