//! Completes a word being typed in the shell: a command, an option, a value, a key.

use clap::{Arg, ArgAction, Command};

use super::words::typing;

/// Options after which keys would come from another scope than the shell's.
const ELSEWHERE: &[&str] =
    &["--agent", "--user", "--run", "--scope", "--tenant", "--url", "--backend", "--config"];

/// Where the last word of a text starts, and its completions. `command` must be built; `keys` finds those with a
/// prefix.
pub(super) fn complete(
    command: &Command,
    text: &str,
    keys: impl FnOnce(&str) -> Vec<String>,
) -> (usize, Vec<String>) {
    let (words, start, last) = typing(text);
    let place = place(command, &words);
    let mut found: Vec<String> = match place {
        Place::Value(argument) => values(argument),
        Place::Word { command, .. } if last.starts_with('-') => command
            .get_arguments()
            .filter(|argument| !argument.is_hide_set())
            .filter_map(|argument| argument.get_long().map(|long| format!("--{long}")))
            .collect(),
        Place::Word { command, .. } if command.has_subcommands() => command
            .get_subcommands()
            .filter(|command| !command.is_hide_set())
            .map(|command| command.get_name().to_owned())
            .collect(),
        Place::Word { command, position } => match command.get_positionals().nth(position) {
            Some(argument) if argument.get_id() == "key" => {
                let elsewhere =
                    words.iter().any(|word| ELSEWHERE.contains(&word.split('=').next().unwrap_or_default()));
                if elsewhere { Vec::new() } else { keys(&last) }
            }
            Some(argument) => values(argument),
            None => Vec::new(),
        },
    };
    found.retain(|found| found.starts_with(&last));
    let ends = if found.len() == 1 { " " } else { "" };
    let quoted = found.iter().filter_map(|found| Some(format!("{}{ends}", shlex::try_quote(found).ok()?)));
    (start, quoted.collect())
}

/// What comes next.
enum Place<'a> {
    /// The value of an option.
    Value(&'a Arg),
    /// An option, a command below, or the argument at a position.
    Word { command: &'a Command, position: usize },
}

fn place<'a>(mut command: &'a Command, words: &[String]) -> Place<'a> {
    let (mut position, mut words) = (0, words.iter());
    while let Some(word) = words.next() {
        if let Some(option) = option(command, word) {
            let takes = matches!(option.get_action(), ArgAction::Set | ArgAction::Append);
            if takes && !word.contains('=') && words.next().is_none() {
                return Place::Value(option);
            }
        } else if word.starts_with('-') {
            // An unknown option, or a value such as -5.
        } else if let Some(below) = command.find_subcommand(word) {
            (command, position) = (below, 0);
        } else {
            position += 1;
        }
    }
    Place::Word { command, position }
}

fn option<'a>(command: &'a Command, word: &str) -> Option<&'a Arg> {
    let name = word.split('=').next().unwrap_or_default();
    command.get_arguments().find(|argument| match name.strip_prefix("--") {
        Some(long) => argument.get_long() == Some(long),
        None => argument.get_short().is_some_and(|short| name == format!("-{short}")),
    })
}

fn values(argument: &Arg) -> Vec<String> {
    let possible = argument.get_possible_values();
    possible.iter().filter(|value| !value.is_hide_set()).map(|value| value.get_name().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::command::command_line;

    fn completed(text: &str) -> Vec<String> {
        let mut command = command_line();
        command.build();
        let keys = |prefix: &str| vec![format!("{prefix} key"), "other".to_owned()];
        complete(&command, text, keys).1
    }

    #[test]
    fn commands_options_values_and_keys_are_found() {
        for (text, wanted) in [
            ("se", &["search", "set", "serve"][..]),
            ("memory stat", &["stats "]),
            ("set --if-a", &["--if-absent "]),
            ("review b", &["bind "]),
            ("shared iss", &["issues "]),
            ("restore --on-existing ref", &["refuse "]),
            ("get a", &["'a key' "]),
            ("get --full a", &["'a key' "]),
            ("set --ttl ", &[]),
            ("get --user eve a", &[]),
            ("get a b", &[]),
        ] {
            let mut found = completed(text);
            found.sort_unstable();
            let mut wanted = wanted.to_vec();
            wanted.sort_unstable();
            assert_eq!(found, wanted, "{text}");
        }
        assert!(completed("get --").contains(&"--agent".to_owned()));
        assert!(!completed("").iter().any(|name| name == "sql-worker"));
    }
}
