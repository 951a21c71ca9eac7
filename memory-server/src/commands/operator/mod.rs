//! Setup and maintenance by an operator.

mod backend;
mod config;
mod config_check;
mod doctor;
mod drift;
mod init;
mod postgres;
mod token;
mod tool_schema;

pub(crate) use backend::{BackendArgs, run as backend};
pub(crate) use config::{ConfigArgs, run as config};
pub(crate) use doctor::{DoctorArgs, run as doctor};
pub(crate) use drift::{DriftArgs, run as drift};
pub(crate) use init::{InitArgs, run as init};
pub(crate) use postgres::{PostgresArgs, run as postgres};
pub(crate) use token::{TokenArgs, run as token};
pub(crate) use tool_schema::{ToolSchemaArgs, run as tool_schema};
