//! The commands, their options, and what runs them.

use clap::error::ErrorKind;
use clap::{Args, CommandFactory as _, Parser, Subcommand};

use super::help;
use crate::commands;
use crate::terminal::{Context, Exit, Failure, Global, Out};

/// Memory for AI agents, from a terminal: key/value with versions and expiry, search by words and by
/// meaning, an MCP server, and importers of real conversations.
#[derive(Debug, Parser)]
#[command(name = "memory", version, max_term_width = help::MAX_COLUMNS)]
#[command(propagate_version = true, subcommand_required = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(super) global: Global,
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Print the value of a key
    Get(commands::GetArgs),
    /// Store a value under a key
    Set(commands::SetArgs),
    /// Delete a key
    Delete(commands::DeleteArgs),
    /// List entries in the order of their keys
    List(commands::ListArgs),
    /// Add to an integer, atomically
    Incr(commands::IncrArgs),
    /// Change part of a value, atomically: merge, append or push
    Update(commands::UpdateArgs),
    /// Find entries by words and by meaning
    Search(commands::SearchArgs),
    /// Remember what was said
    Add(commands::AddArgs),
    /// Find remembered facts
    Recall(commands::RecallArgs),
    /// List remembered facts
    Facts(commands::FactsArgs),
    /// Draw facts from what was said, by the language model of memory.toml
    Extract(commands::ExtractArgs),
    /// Show the status of a pending `add`
    Event(commands::EventArgs),
    /// Forget a tenant, a scope or a key everywhere, or facts by id
    Forget(commands::ForgetArgs),
    /// Write down a note, which `promote` may turn into shared state
    Note(commands::NoteArgs),
    /// Promote notes: decide what they mean, and commit what is certain to the state that agents share
    Promote(commands::PromoteArgs),
    /// Show the state that agents share: its rows, the past, and why a row is so
    Shared(commands::SharedArgs),
    /// Show why a row of the shared state is so: its events with their notes, and what depends on it
    Why(commands::WhyArgs),
    /// List writes that wait because what they refer to is not certain
    Pending(commands::PendingArgs),
    /// Decide about writes that wait: list, show, bind, reject; and reopen an issue
    Review(commands::ReviewArgs),
    /// Make the shared tables anew from the ledger
    Rebuild(commands::SpaceArgs),
    /// Check that no event of the ledger was changed, removed or cut off
    Verify(commands::VerifyArgs),
    /// Keep a graph of what an agent knows and what happened: remember, relate, recall, show, tree
    Graph(commands::GraphArgs),
    /// Run SQL on the scope's database, in the sandbox that agents get
    Sql(crate::sql::SqlArgs),
    /// List the tenant's scopes that are not empty
    Scopes(commands::ScopesArgs),
    /// Count what the scope holds
    Stats,
    /// Compute missing vectors with the store's embedder
    Reembed(commands::ReembedArgs),
    /// Inspect and resolve changes that other programs made: status, diff, ack, restore, repair
    Drift(commands::DriftArgs),
    /// Import conversations, or entries that `export` wrote
    Import(commands::ImportArgs),
    /// Write every entry of the scope as JSON Lines
    Export(commands::ExportArgs),
    /// Write every scope of the store, entries and SQL databases, into one file
    Snapshot(commands::SnapshotArgs),
    /// Restore a snapshot into the store
    Restore(commands::RestoreArgs),
    /// Copy every scope of one store into another, then compare the two
    Migrate(commands::MigrateArgs),
    /// Drop unused scopes and free their space
    Gc(commands::GcArgs),
    /// Serve the Memory tool to an MCP client, over standard input and output or over HTTP
    Serve(crate::serve::ServeArgs),
    /// Print the tools in the form in which a provider of models takes them
    ToolSchema(commands::ToolSchemaArgs),
    /// Manage the tokens of `serve --http`: create, list, revoke
    Token(commands::TokenArgs),
    /// Serve SQL to the parent process
    #[command(hide = true)]
    SqlWorker(crate::serve::SqlWorkerArgs),
    /// Write a commented memory.toml, and say what to do next; what is there stays
    Init(commands::InitArgs),
    /// Check configuration, files, store, servers and disk, and say what to do
    Doctor(commands::DoctorArgs),
    /// Take a short tour on embedded SQLite
    Demo(crate::demo::DemoArgs),
    /// Type commands at one prompt, with the store kept open
    Shell(ShellArgs),
    /// Show the store's capabilities, limits and health
    Describe,
    /// Manage backends that are defined at run time: create, fork, list, show, retire, test, journal
    Backend(commands::BackendArgs),
    /// Show the effective configuration, check it, or write a commented memory.toml
    Config(commands::ConfigArgs),
    /// Set up a PostgreSQL database, or diagnose one
    Postgres(commands::PostgresArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages, one a command
    Man {
        /// The folder, which is made
        #[arg(value_name = "FOLDER")]
        folder: std::path::PathBuf,
    },
}

#[derive(Args, Debug)]
pub(super) struct ShellArgs {
    /// Keep no history of what is typed
    #[arg(long)]
    pub(super) no_history: bool,
}

impl Cli {
    /// Refuses a scope option for a command that works on many scopes; ignoring it would remove more than intended.
    pub(super) fn checked(self) -> Result<Self, clap::Error> {
        let why = match &self.command {
            _ if !self.global.names_scope() => return Ok(self),
            Command::Gc(_) => {
                "`gc` decides over every scope of the store, or of one tenant (--tenant ID), and takes no --agent, \
                 --user, --run or --scope; to remove one scope use `memory forget`"
            }
            Command::Forget(args) if args.resumes() => {
                "`forget --resume` and `--abandon` concern every interrupted forget, and take no --agent, --user, --run or \
                 --scope; to forget one scope leave them out"
            }
            _ => return Ok(self),
        };
        Err(Self::command().error(ErrorKind::ArgumentConflict, why))
    }
}

/// The command line as clap's value, for tests that walk through it.
#[doc(hidden)]
#[must_use]
pub fn command_line() -> clap::Command {
    help::with_help(Cli::command())
}

impl Command {
    /// Why a command does not run in the shell; `None` if it does.
    pub(super) fn refused_in_shell(&self) -> Option<&'static str> {
        Some(match self {
            Self::Shell(_) => "this is the shell",
            Self::Serve(_) | Self::SqlWorker(_) => {
                "`serve` takes standard input, or runs until it is stopped"
            }
            Self::Init(_) => "`init` prepares a folder for other programs",
            Self::Completions { .. } | Self::Man { .. } => "it writes files for another shell",
            _ => return None,
        })
    }

    /// Whether it reads lines itself, and can be interrupted between them.
    pub(super) fn reads_lines(&self) -> bool {
        matches!(self, Self::Sql(args) if args.reads_statements())
    }
}

/// Runs one command.
pub(super) async fn dispatch(context: &Context, command: Command, out: &mut Out) -> Result<Exit, Failure> {
    match command {
        Command::Get(args) => commands::get(context, &args, out).await,
        Command::Set(args) => commands::set(context, args, out).await,
        Command::Delete(args) => commands::delete(context, &args, out).await,
        Command::List(args) => commands::list(context, args, out).await,
        Command::Incr(args) => commands::incr(context, &args, out).await,
        Command::Update(args) => commands::update(context, args, out).await,
        Command::Search(args) => commands::search(context, args, out).await,
        Command::Add(args) => commands::add(context, args, out).await,
        Command::Recall(args) => commands::recall(context, args, out).await,
        Command::Facts(args) => commands::facts(context, args, out).await,
        Command::Extract(args) => commands::extract(context, args, out).await,
        Command::Event(args) => commands::event(context, args, out).await,
        Command::Forget(args) => commands::forget(context, args, out).await,
        Command::Note(args) => commands::note(context, args, out).await,
        Command::Promote(args) => commands::promote(context, args, out).await,
        Command::Shared(args) => commands::shared(context, args, out).await,
        Command::Why(args) => commands::why(context, args, out).await,
        Command::Pending(args) => commands::pending(context, args, out).await,
        Command::Review(args) => commands::review(context, args, out).await,
        Command::Rebuild(args) => commands::rebuild(context, args, out).await,
        Command::Verify(args) => commands::verify(context, args, out).await,
        Command::Graph(args) => Box::pin(commands::graph(context, args, out)).await,
        Command::Sql(args) => crate::sql::run(context, args, out).await,
        Command::Scopes(args) => commands::scopes(context, args, out).await,
        Command::Stats => commands::stats(context, out).await,
        Command::Reembed(args) => commands::reembed(context, &args, out).await,
        Command::Drift(args) => commands::drift(context, &args, out).await,
        Command::Import(args) => commands::import(context, args, out).await,
        Command::Export(args) => commands::export(context, &args, out).await,
        Command::Snapshot(args) => commands::snapshot(context, args, out).await,
        Command::Restore(args) => commands::restore(context, args, out).await,
        Command::Migrate(args) => commands::migrate(context, args, out).await,
        Command::Gc(args) => commands::gc(context, args, out).await,
        Command::Postgres(args) => commands::postgres(context, &args, out).await,
        Command::Serve(args) if args.http.http.is_some() && args.print_config.is_none() => {
            crate::http::run(context, args).await
        }
        Command::Serve(args) => crate::serve::run(context, args, out).await,
        Command::ToolSchema(args) => commands::tool_schema(context, args, out).await,
        Command::Token(args) => commands::token(context, args, out).await,
        Command::SqlWorker(args) => crate::serve::sql_worker(context, &args).await,
        Command::Init(args) => commands::init(context, &args, out),
        Command::Doctor(args) => commands::doctor(context, &args, out).await,
        Command::Demo(args) => Box::pin(crate::demo::run(&args, context.is_quiet(), out)).await,
        // It reads lines and dispatches each, so the dispatcher cannot run it.
        Command::Shell(_) => Err(Failure::invalid("there is one shell, and no other within it")),
        Command::Describe => commands::describe(context, out).await,
        Command::Backend(args) => commands::backend(context, &args, out).await,
        Command::Config(args) => commands::config(context, &args, out).await,
        Command::Completions { shell } => commands::completions(command_line(), shell, out),
        Command::Man { folder } => commands::man(command_line(), &folder, out),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        command_line().debug_assert();
    }

    #[test]
    fn what_the_pages_of_services_show_can_be_typed_and_configured() {
        for page in [include_str!("../../../docs/mem0.md"), include_str!("../../../docs/mem9.md")] {
            let block =
                |kind: &str| page.split(kind).nth(1).and_then(|rest| rest.split("```").next()).unwrap();
            let config = memory::Config::parse(block("```toml\n"), "memory.toml").unwrap();
            let mut typed = 0;
            for line in block("```sh\n").lines().filter(|line| line.starts_with("memory ")) {
                let cli = Cli::try_parse_from(words(line)).unwrap_or_else(|error| panic!("{line}: {error}"));
                if let Some(name) = &cli.global.backend {
                    assert!(config.backend_url(name).is_ok(), "{line}");
                }
                typed += 1;
            }
            assert!(typed >= 5, "{typed} commands");
            for name in config.backends() {
                let url = config.backend_url(name).unwrap();
                let context = memory::OpenContext::default();
                match url.scheme() {
                    "mem0+https" | "mem0+http" => drop(memory::mem0::config(url, &context).unwrap()),
                    _ => drop(memory::mem9::config(url, &context).unwrap()),
                }
            }
        }
    }

    #[test]
    fn every_command_is_on_the_page() {
        let page = include_str!("../../../docs/cli.md");
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| command.get_name() != "help" && !command.is_hide_set())
        {
            assert!(page.contains(&format!("memory {}", command.get_name())), "{}", command.get_name());
        }
    }

    /// A shell line split into words; a quoted part is one word.
    fn words(line: &str) -> Vec<String> {
        let (mut words, mut word, mut quote) = (Vec::new(), None::<String>, None);
        for character in line.chars() {
            match (quote, character) {
                (Some(open), c) if c == open => quote = None,
                (None, '"' | '\'') => {
                    quote = Some(character);
                    word.get_or_insert_default();
                }
                (None, '#') if word.is_none() => break,
                (None, ' ') => words.extend(word.take()),
                (_, c) => word.get_or_insert_default().push(c),
            }
        }
        words.extend(word);
        words
    }

    /// Every command, and group of commands, by its path.
    fn leaves(command: &clap::Command, path: &str, found: &mut Vec<(String, String)>) {
        for below in
            command.get_subcommands().filter(|below| !below.is_hide_set() && below.get_name() != "help")
        {
            let path = format!("{path} {}", below.get_name()).trim_start().to_owned();
            let help = below.get_after_help().map(ToString::to_string).unwrap_or_default();
            found.push((path.clone(), help));
            leaves(below, &path, found);
        }
    }

    #[test]
    fn every_command_has_examples_that_can_be_typed() {
        let mut found = Vec::new();
        leaves(&command_line(), "", &mut found);
        assert!(found.len() > 60, "{} commands", found.len());
        for (path, help) in found {
            let examples: Vec<&str> = help.lines().skip(1).map(str::trim).collect();
            assert!(!examples.is_empty(), "`memory {path}` has no example");
            for example in examples {
                let typed = example.split(" > ").next().unwrap();
                // In other examples, `>` redirects; in SQL it is a comparison.
                let typed = if path == "sql" { example } else { typed };
                assert!(typed.starts_with(&format!("memory {path}")), "{example}");
                let parsed = command_line().try_get_matches_from(words(typed));
                assert!(parsed.is_ok(), "{example}: {}", parsed.unwrap_err());
            }
        }
    }

    #[test]
    fn what_to_begin_with_can_be_typed() {
        let begin = help::begin();
        let lines = begin.lines().filter_map(|line| line.trim().strip_prefix("memory "));
        let typed: Vec<&str> = lines.map(|line| line.split("   ").next().unwrap()).collect();
        assert_eq!(typed.len(), 3);
        for line in typed {
            let words = words(&format!("memory {line}"));
            assert!(command_line().try_get_matches_from(words).is_ok(), "{line}");
        }
    }

    #[test]
    fn every_command_is_in_one_group() {
        let grouped: Vec<&str> = help::GROUPS.iter().flat_map(|(_, names)| names.iter().copied()).collect();
        let all: BTreeSet<String> = command_line()
            .get_subcommands()
            .filter(|command| !command.is_hide_set() && command.get_name() != "help")
            .map(|command| command.get_name().to_owned())
            .collect();
        assert_eq!(grouped.len(), all.len());
        assert!(grouped.iter().all(|name| all.contains(*name)));
        let help = command_line().render_help().to_string();
        for name in grouped {
            assert!(help.contains(&format!("\n  {name} ")), "{name}: {help}");
        }
    }
}
