//! Developer commands: `cargo xtask test`, `check`, `fuzz`, `soak`, `model`, `ladybug`, `postgres`, `python`, `release`,
//! `msrv`.
//!
//! For what shell scripts do badly: steps that need the workspace's metadata, that must all be reported when one fails,
//! or that set up and tear down what tests need.
#![allow(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a command-line program speaks to the person who runs it"
)]
mod binaries;
mod check;
mod clients;
mod fuzz;
mod libraries;
mod model;
mod msrv;
mod pip;
mod postgres;
mod process;
mod python;
mod release;
mod soak;
mod steps;
mod tally;
mod test;
mod testbed;
mod tools;
mod workspace;

use std::error::Error;
use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::libraries::Ladybug;
use crate::workspace::Workspace;

type Result<T> = std::result::Result<T, Box<dyn Error>>;

/// Developer commands of this workspace.
#[derive(Debug, Parser)]
#[command(name = "cargo xtask", bin_name = "cargo xtask")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Set up what the tests need and run them all.
    Test(test::Args),
    /// Formatting, lints, docs, features, dependency rules, licences, links.
    Check(check::Args),
    /// Run the fuzz targets, each for a while, where nightly Rust is installed.
    Fuzz(fuzz::Args),
    /// Run the kill tests, soak tests and fuzz targets for as long as you say.
    Soak(soak::Args),
    /// Get the small static model that tests use, into the target folder.
    Model,
    /// Get the library of the graph engine that tests use, into the target folder, and print what builds need to find it.
    Ladybug,
    /// Run the PostgreSQL servers that tests use, until interrupted.
    Postgres,
    /// Test the Python client against the binary.
    Python,
    /// Package every crate under its published name, write the bill of materials, archive the binary, and publish.
    Release(release::Args),
    /// Build with the oldest Rust this workspace promises to support, where that toolchain is installed.
    Msrv,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let outcome = Workspace::load().and_then(|workspace| match cli.command {
        Command::Test(args) => test::run(&workspace, &args),
        Command::Check(args) => check::run(&workspace, &args),
        Command::Fuzz(args) => fuzz::run(&workspace, &args),
        Command::Soak(args) => soak::run(&workspace, &args),
        Command::Model => model::run(&workspace),
        Command::Ladybug => Ladybug::prepare(&workspace).map(|ladybug| ladybug.print()),
        Command::Postgres => postgres::run(&workspace),
        Command::Python => python::run(&workspace),
        Command::Release(args) => release::run(&workspace, &args),
        Command::Msrv => msrv::run(&workspace),
    });
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
