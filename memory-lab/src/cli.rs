//! The command line: options and dispatch.

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use memory_server::terminal::{self, Context, EXIT_CODES, Exit, Failure, Global, Out};

use crate::{bench, compare, conformance, corpus, eval, load, mutants};

/// The laboratory of `memory`: runs the conformance suite, measures speed and quality, and attacks the SQL
/// sandbox.
#[derive(Debug, Parser)]
#[command(name = "memory-lab", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the conformance suite on a store [default: on a fresh SQLite file for each case]
    Conformance(conformance::ConformanceArgs),
    /// Run only the mutants: the proof that the suite detects broken providers
    Mutants(mutants::MutantsArgs),
    /// Compare speed with raw SQLite or PostgreSQL, in the same run
    Bench(bench::BenchArgs),
    /// Compare with other products that keep memory for agents, on the same work in the same run
    Compare(compare::CompareArgs),
    /// Load a store at a steady rate, whether it keeps up or not, and say how long requests took
    Load(load::LoadArgs),
    /// Measure retrieval quality
    Eval(eval::EvalArgs),
    /// Run each SQL statement of a file in a fresh scope, and report how it ended
    Corpus(corpus::CorpusArgs),
}

/// Runs the command line of this process.
pub(crate) fn main() -> ExitCode {
    let exit = match Cli::try_parse() {
        Ok(Cli { global, command }) => {
            terminal::run("memory-lab", global, async |context, out| dispatch(context, command, out).await)
        }
        Err(error) => terminal::end_of_parsing(&error, terminal::wants_json()),
    };
    ExitCode::from(exit.code())
}

async fn dispatch(context: &Context, command: Command, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        Command::Conformance(args) => conformance::run(context, args, out).await,
        Command::Mutants(args) => mutants::run(context, args, out).await,
        Command::Bench(args) => {
            let json = out.is_json();
            // Rows are printed as they are measured.
            tokio::task::block_in_place(|| bench::run(&args, json, out.writer()))?;
            Ok(Exit::Ok)
        }
        Command::Compare(args) => Box::pin(compare::run(context, &args, out)).await,
        Command::Load(args) => load::run(context, &args, out).await,
        Command::Eval(args) => eval::run(context, &args, out).await,
        Command::Corpus(args) => corpus::run(context, args, out).await,
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_command_is_on_the_page() {
        let page = include_str!("../../docs/cli.md");
        for command in Cli::command().get_subcommands().filter(|command| command.get_name() != "help") {
            assert!(page.contains(&format!("memory-lab {}", command.get_name())), "{}", command.get_name());
        }
    }
}
