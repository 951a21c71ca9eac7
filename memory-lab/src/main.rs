//! The command `memory-lab`: conformance, benchmarks, evaluation and attacks on the sandbox, apart from the product.
//!
//! `docs/cli.md` describes it.

// A command's future nests the futures of every layer down to the backend's connection.
#![recursion_limit = "256"]

mod bench;
mod cli;
mod compare;
mod conformance;
mod conversations;
mod corpus;
mod eval;
mod governed;
mod harness;
mod hazards;
mod lines;
mod load;
mod mutants;
mod stores;

fn main() -> std::process::ExitCode {
    cli::main()
}
