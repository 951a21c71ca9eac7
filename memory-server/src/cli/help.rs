//! Help beyond the options: commands by task, and examples for each.

use clap::Command;

use crate::terminal::EXIT_CODES;

/// Most columns that help takes.
pub(crate) const MAX_COLUMNS: usize = 100;

/// Shown to a person who types only the program's name.
const BEGIN: &str = "\
Memory for AI agents. Begin with one of these; they work as they stand:

  memory add 'I live in Lisbon' --name Ada    remember what was said
  memory recall 'where does Ada live'         find it again
  memory init                                 write memory.toml; connect Claude

`memory shell` is a prompt for all commands, `memory demo` takes a tour, `memory --help` lists every command, and \
`memory COMMAND --help` has examples.";

/// What a person reads who types only the program's name, as wide as the terminal.
pub(crate) fn begin() -> String {
    wrapped(BEGIN, columns())
}

/// Commands by task. Each is in one group.
pub(crate) const GROUPS: &[(&str, &[&str])] = &[
    ("Begin", &["init", "doctor", "demo", "shell"]),
    ("Remember what was said", &["add", "recall", "facts", "extract", "event"]),
    ("Keep entries", &["set", "get", "search", "list", "update", "incr", "delete", "sql"]),
    ("Give memory to agents", &["serve", "tool-schema", "token", "config", "backend"]),
    (
        "Share state, and keep graphs",
        &["note", "promote", "shared", "why", "pending", "review", "rebuild", "verify", "graph"],
    ),
    ("Bring, take and move", &["import", "export", "snapshot", "restore", "migrate"]),
    ("Look after a store", &["describe", "stats", "scopes", "forget", "gc", "reembed", "drift", "postgres"]),
    ("This program", &["completions", "man"]),
];

/// Examples by command. Each can be typed as is, except for names and files.
const EXAMPLES: &[(&str, &[&str])] = &[
    ("init", &["memory init", "memory init --client cursor"]),
    ("doctor", &["memory doctor", "memory doctor --offline --json"]),
    ("demo", &["memory demo", "memory demo --dir tour"]),
    ("add", &["memory add 'I live in Lisbon' --name Ada", "memory add --messages said.json --wait 60"]),
    ("shell", &["memory shell", "memory shell --user ada --no-history"]),
    (
        "recall",
        &["memory recall 'where does Ada live' -k 5", "memory recall 'where does Ada live' --max-tokens 500"],
    ),
    ("facts", &["memory facts --all"]),
    ("extract", &["memory extract", "memory extract --status"]),
    ("event", &["memory event EVENT --wait 60"]),
    (
        "set",
        &[
            "memory set greeting '\"hello\"'",
            "memory set note --text 'dinner in Lisbon' --ttl 30d",
            "memory set plan '\"B\"' --if-version 7",
        ],
    ),
    ("get", &["memory get greeting", "memory get note --text"]),
    ("search", &["memory search 'who has the allergy' -k 5 --explain"]),
    (
        "list",
        &[
            "memory list --prefix likes/ --limit 50",
            "memory list --filter '{\"gte\":[\"metadata.since\",2019]}'",
        ],
    ),
    ("update", &["memory update doc --merge '{\"a\":{\"b\":1}}'", "memory update tags --append '\"red\"'"]),
    ("incr", &["memory incr visits", "memory incr visits -5"]),
    ("delete", &["memory delete greeting --if-version 3"]),
    (
        "sql",
        &[
            "memory sql 'SELECT name FROM sqlite_schema'",
            "memory sql 'SELECT name FROM people WHERE age > ?' --arg 30",
        ],
    ),
    (
        "serve",
        &[
            "memory serve --agent claude --user ada",
            "memory serve --agent claude --tools memory,files",
            "memory serve --http 127.0.0.1:7077",
        ],
    ),
    ("tool-schema", &["memory tool-schema --for openai", "memory tool-schema --for gemini --tools files"]),
    ("token create", &["memory token create laptop --agent claude"]),
    ("token list", &["memory token list --all"]),
    ("token revoke", &["memory token revoke laptop"]),
    ("config", &["memory config"]),
    ("config init", &["memory config init"]),
    ("config check", &["memory config check --offline"]),
    ("backend create", &["memory backend create notes sqlite:data/notes.db"]),
    ("backend fork", &["memory backend fork notes --as drafts"]),
    ("backend list", &["memory backend list --all"]),
    ("backend show", &["memory backend show notes@1"]),
    ("backend retire", &["memory backend retire notes --successor drafts"]),
    ("backend test", &["memory backend test notes"]),
    ("backend journal", &["memory backend journal main"]),
    ("note", &["memory note 'issue redis_timeout: Redis times out' --agent ada --run import-7"]),
    ("promote", &["memory promote"]),
    ("shared", &["memory shared issues", "memory shared issues --why redis_timeout"]),
    ("why", &["memory why redis_timeout", "memory why issues/redis_timeout"]),
    ("pending", &["memory pending"]),
    ("review list", &["memory review list"]),
    ("review show", &["memory review show ID"]),
    ("review bind", &["memory review bind ID redis_timeout"]),
    ("review reject", &["memory review reject ID --reason 'no such issue'"]),
    ("review reopen", &["memory review reopen redis_timeout --reason 'it times out again'"]),
    ("rebuild", &["memory rebuild"]),
    ("verify", &["memory verify"]),
    ("graph backend", &["memory graph backend"]),
    ("graph tree", &["memory graph tree --depth 2"]),
    ("graph show", &["memory graph show p1 --agent ada"]),
    ("graph history", &["memory graph history proxy --agent ada"]),
    ("graph stats", &["memory graph stats", "memory graph stats --agent ada"]),
    (
        "graph remember",
        &["memory graph remember 'the proxy limits uploads' --entity proxy --id p1 --agent ada"],
    ),
    ("graph relate", &["memory graph relate p2 supersedes p1 --reason 'limit raised' --agent ada"]),
    ("graph recall", &["memory graph recall uploads --steps 2 --agent ada"]),
    ("graph export", &["memory graph export ada ada.json"]),
    ("graph import", &["memory graph import ada ada.json --merge"]),
    ("graph migrate", &["memory graph migrate"]),
    ("graph sessions", &["memory graph sessions"]),
    ("graph clean", &["memory graph clean 'test_*'"]),
    ("import", &["memory import conversations.json --dry-run", "memory import backup.jsonl --user ada"]),
    ("export", &["memory export --out backup.jsonl"]),
    ("snapshot", &["memory snapshot today.snapshot", "memory snapshot --list"]),
    ("restore", &["memory restore today.snapshot --dry-run"]),
    ("migrate", &["memory migrate sqlite:a.db sqlite:b.db"]),
    ("describe", &["memory describe"]),
    ("stats", &["memory stats"]),
    ("scopes", &["memory scopes --kind user"]),
    ("forget", &["memory forget ID", "memory forget --user ada --dry-run"]),
    ("gc", &["memory gc --idle 30d --dry-run"]),
    ("reembed", &["memory reembed --embedder static:MODEL"]),
    ("drift status", &["memory drift status"]),
    ("drift diff", &["memory drift diff"]),
    ("drift ack", &["memory drift ack 00000000000000000000000000000000.7.0000000000000000"]),
    ("drift restore", &["memory drift restore memory.bak.1767225600.json --dry-run"]),
    ("drift repair", &["memory drift repair --dry-run"]),
    ("postgres provision", &["memory postgres provision --print", "memory postgres provision --apply"]),
    ("postgres doctor", &["memory postgres doctor"]),
    ("token", &["memory token create laptop --agent claude", "memory token list"]),
    ("backend", &["memory backend list", "memory backend test notes"]),
    ("review", &["memory review list", "memory review bind ID redis_timeout"]),
    ("graph", &["memory graph stats --agent ada", "memory graph recall uploads --agent ada"]),
    ("drift", &["memory drift status", "memory drift diff"]),
    ("postgres", &["memory postgres provision --print", "memory postgres doctor"]),
    ("completions", &["memory completions zsh > _memory"]),
    ("man", &["memory man ~/.local/share/man/man1"]),
];

/// The command line with its help: commands by task, examples on each.
pub(crate) fn with_help(mut command: Command) -> Command {
    let groups = wrapped(&groups(&command), columns());
    let exit_codes = wrapped(EXIT_CODES, columns());
    command = command.help_template(format!(
        "{{before-help}}{{about-with-newline}}\n{{usage-heading}} {{usage}}\n\n{groups}\nOptions:\n{{options}}\n\n{exit_codes}"
    ));
    for (path, examples) in EXAMPLES {
        let text = format!("Examples:\n  {}", examples.join("\n  "));
        command = at(command, path.split(' '), &text);
    }
    command
}

/// Adds text after the help of a subcommand.
fn at<'a>(command: Command, mut path: impl Iterator<Item = &'a str>, text: &str) -> Command {
    let Some(name) = path.next() else { return command.after_help(text.to_owned()) };
    let rest: Vec<&str> = path.collect();
    match command.find_subcommand(name) {
        Some(_) => command.mut_subcommand(name, |below| at(below, rest.into_iter(), text)),
        None => command,
    }
}

/// The commands in their groups, one per line.
fn groups(command: &Command) -> String {
    let width = command.get_subcommands().map(|command| command.get_name().len()).max().unwrap_or(0);
    let mut text = String::new();
    for (task, names) in GROUPS {
        text.push_str(&format!("{task}:\n"));
        for below in names.iter().filter_map(|name| command.find_subcommand(name)) {
            let about = below.get_about().map(ToString::to_string).unwrap_or_default();
            text.push_str(&format!("  {:width$}  {about}\n", below.get_name()));
        }
        text.push('\n');
    }
    text.truncate(text.trim_end().len());
    text.push('\n');
    text
}

/// Columns for help: those of the terminal, else of `COLUMNS`, as for options.
fn columns() -> usize {
    let terminal = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
    let named = || std::env::var("COLUMNS").ok()?.parse().ok();
    terminal
        .or_else(named)
        .filter(|columns| *columns > 0)
        .map_or(MAX_COLUMNS, |columns| columns.min(MAX_COLUMNS))
}

/// Wraps each line of a text to these columns. A list item (a name, two spaces, a description) continues below its
/// description; if that leaves no room for words, it is not wrapped.
fn wrapped(text: &str, columns: usize) -> String {
    const ROOM: usize = 16;
    let mut lines = String::with_capacity(text.len());
    for line in text.lines() {
        let start = line.len() - line.trim_start().len();
        let about = line.get(start..).and_then(|rest| Some(rest.split_once("  ")?.1.trim_start().len()));
        let indent = line.len() - about.unwrap_or(line.len());
        let (head, about) = line.split_at(indent);
        lines.push_str(head);
        let mut column = indent;
        for word in about.split_inclusive(' ') {
            if column > indent && column + word.trim_end().len() > columns && indent + ROOM <= columns {
                lines.truncate(lines.trim_end().len());
                lines.push('\n');
                lines.extend(std::iter::repeat_n(' ', indent));
                column = indent;
            }
            lines.push_str(word);
            column += word.len();
        }
        lines.push('\n');
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_line_of_help_is_wider_than_a_terminal() {
        let command = crate::cli::command_line();
        for columns in [60, 80, MAX_COLUMNS] {
            for text in [groups(&command).as_str(), EXIT_CODES] {
                let wrapped = wrapped(text, columns);
                assert!(wrapped.lines().all(|line| line.chars().count() <= columns), "{columns}: {wrapped}");
                let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
                assert_eq!(words(&wrapped), words(text));
            }
        }
        assert!(wrapped(BEGIN, 80).lines().all(|line| line.len() <= 80));
        assert_eq!(wrapped("  init  Write a file\n", 23), "  init  Write a file\n");
        assert_eq!(
            wrapped("  a  one two three four five six", 24),
            "  a  one two three four\n     five six\n"
        );
        assert_eq!(wrapped("To begin:\n\n  x  y", 10), "To begin:\n\n  x  y\n");
    }
}
