//! Turns what was typed into a command, or into an error message.

use std::num::{IntErrorKind, ParseFloatError, ParseIntError};

use clap::builder::Resettable;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, FromArgMatches as _};

use super::command::{Cli, command_line};
use crate::terminal::{self, Exit, Global};

/// The command the process was started with. On failure, the error has already been printed.
pub(super) fn of_process() -> Result<Cli, Exit> {
    let parsed = command_line().try_get_matches().and_then(|matches| Cli::from_arg_matches(&matches));
    parsed.and_then(Cli::checked).map_err(|error| told(&error, terminal::wants_json()))
}

/// The same grammar for lines of the shell. Environment variables were read when the shell started, and its own options
/// take precedence over them.
pub(super) fn of_lines() -> Command {
    let mut command = command_line().mut_args(|argument| argument.env(Resettable::Reset));
    command.build();
    command
}

/// A line of the shell; options it lacks are the shell's own.
pub(super) fn line(command: &Command, words: &[String], shell: &Global) -> Result<Cli, Exit> {
    let named = std::iter::once("memory").chain(words.iter().map(String::as_str));
    let parsed = command.clone().try_get_matches_from(named);
    let parsed = parsed.and_then(|matches| Cli::from_arg_matches(&matches));
    let merged = parsed.and_then(|line| Cli { global: shell.with(line.global), ..line }.checked());
    merged.map_err(|error| told(&error, shell.json || words.iter().any(|word| word == "--json")))
}

/// Prints what the parser says.
fn told(error: &clap::Error, json: bool) -> Exit {
    match advice(error) {
        Some(why) => terminal::misuse(&why, json),
        None => terminal::end_of_parsing(error, json),
    }
}

/// What to say instead of the parser's message: how a number is written, the new name of a command that moved to
/// `memory-lab`, or what a session offers.
fn advice(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (was, is) = match error.kind() {
        ErrorKind::ValueValidation => {
            let needed = a_number(std::error::Error::source(error)?)?;
            let (value, argument) = (text(ContextKind::InvalidValue)?, text(ContextKind::InvalidArg)?);
            return Some(format!("invalid value '{value}' for '{argument}': {needed}; try --help"));
        }
        ErrorKind::InvalidSubcommand => match text(ContextKind::InvalidSubcommand)? {
            name @ ("conformance" | "bench" | "eval") => (name.to_owned(), name.to_owned()),
            _ => return None,
        },
        ErrorKind::UnknownArgument
            if text(ContextKind::InvalidArg)? == "--session"
                && error.render().to_string().contains("memory forget") =>
        {
            let why = "a session is forgotten by the ids of its facts: `memory facts --session ID` lists them, and `memory \
                       forget ID…` forgets them";
            return Some(why.to_owned());
        }
        ErrorKind::UnknownArgument if text(ContextKind::InvalidArg)? == "--corpus" => {
            ("sql --corpus FILE".to_owned(), "corpus FILE".to_owned())
        }
        _ => return None,
    };
    Some(format!("`memory {was}` is now `memory-lab {is}`, a separate program; see docs/cli.md"))
}

/// What a number must be, if `why` is that of Rust's parsers, which do not say it.
fn a_number(why: &(dyn std::error::Error + 'static)) -> Option<&'static str> {
    if why.is::<ParseFloatError>() {
        return Some("give a number, such as 0.5");
    }
    match why.downcast_ref::<ParseIntError>()?.kind() {
        IntErrorKind::PosOverflow => Some("the number is too large"),
        _ => Some("give a whole number, without a unit"),
    }
}
