//! The command `memory-lab`: conformance, benchmarks, evaluation and attacks on the sandbox, apart from the product.
//!
//! What it does is in `docs/cli.md`.

// A command's future holds one of each layer down to the backend's connection, and the compiler counts them all.
#![recursion_limit = "256"]

mod bench;
mod cli;
mod conformance;
mod corpus;
mod eval;
mod harness;
mod mutants;

fn main() -> std::process::ExitCode {
    cli::main()
}
