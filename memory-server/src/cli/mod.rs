//! The command line: parsing, running, and ending with a status.

mod command;
mod complete;
mod help;
mod parse;
mod shell;
mod words;

use std::process::ExitCode;

use self::command::{Cli, Command, dispatch};
use crate::terminal::{self, Exit};

pub use self::command::command_line;

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    if std::env::args_os().len() <= 1 {
        terminal::note(help::begin().trim_end());
        return ExitCode::from(Exit::Usage.code());
    }
    let exit = match parse::of_process() {
        Ok(Cli { global, command }) => {
            // Boxed, because it has to hold the largest of all commands.
            terminal::run("memory", global, async |context, out| match command {
                Command::Shell(args) => Box::pin(shell::run(context, &args)).await,
                command => Box::pin(dispatch(context, command, out)).await,
            })
        }
        Err(exit) => exit,
    };
    ExitCode::from(exit.code())
}
