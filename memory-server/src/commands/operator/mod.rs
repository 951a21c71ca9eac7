//! Setup and maintenance by an operator.

mod backend;
mod config;
mod config_check;
mod drift;
mod postgres;
mod token;

pub(crate) use backend::{BackendArgs, run as backend};
pub(crate) use config::{ConfigArgs, run as config};
pub(crate) use drift::{DriftArgs, run as drift};
pub(crate) use postgres::{PostgresArgs, run as postgres};
pub(crate) use token::{TokenArgs, run as token};
