//! The command line: options, dispatch, and how it ends.

use std::process::ExitCode;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands;
use crate::terminal::{self, Context, EXIT_CODES, Exit, Failure, Global, Out};

/// Memory for AI agents, from a terminal: key/value with versions and expiry, search by words and by
/// meaning, an MCP server, and importers of real conversations.
#[derive(Debug, Parser)]
#[command(name = "memory", version, after_help = EXIT_CODES, max_term_width = 100)]
#[command(propagate_version = true, subcommand_required = true, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    global: Global,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
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
    /// List writes that wait because what they refer to is not certain
    Pending(commands::PendingArgs),
    /// Decide about writes that wait: list, show, bind, reject
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
    /// Manage the tokens of `serve --http`: create, list, revoke
    Token(commands::TokenArgs),
    /// Serve SQL to the parent process
    #[command(hide = true)]
    SqlWorker(crate::serve::SqlWorkerArgs),
    /// Take a short tour on embedded SQLite
    Demo(crate::demo::DemoArgs),
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
}

impl Cli {
    /// Refuses a scope option for a command that works on many scopes: ignoring it would remove more than intended.
    fn checked(self) -> Result<Self, clap::Error> {
        let why = match &self.command {
            _ if !self.global.names_scope() => return Ok(self),
            Command::Gc(_) => {
                "`gc` decides over every scope of the store, or of one tenant (--tenant ID), and takes no --agent, \
                 --user, --run or --scope; to remove one scope use `memory forget`"
            }
            Command::Forget(args) if args.resumes() => {
                "`forget --resume` completes every interrupted forget, and takes no --agent, --user, --run or --scope; to \
                 forget one scope leave out --resume"
            }
            _ => return Ok(self),
        };
        Err(Self::command().error(ErrorKind::ArgumentConflict, why))
    }
}

/// The command line as clap knows it, for tests that walk it.
#[doc(hidden)]
#[must_use]
pub fn command_line() -> clap::Command {
    Cli::command()
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    let exit = match Cli::try_parse().and_then(Cli::checked) {
        Ok(Cli { global, command }) => {
            // Boxed: it has room for the largest of all commands.
            terminal::run("memory", global, async |context, out| {
                Box::pin(dispatch(context, command, out)).await
            })
        }
        Err(error) => match moved(&error) {
            Some(why) => terminal::misuse(&why),
            None => terminal::end_of_parsing(&error),
        },
    };
    ExitCode::from(exit.code())
}

/// The new name of a command that has moved to `memory-lab`.
fn moved(error: &clap::Error) -> Option<String> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (was, is) = match error.kind() {
        ErrorKind::InvalidSubcommand => match text(ContextKind::InvalidSubcommand)? {
            name @ ("conformance" | "bench" | "eval") => (name.to_owned(), name.to_owned()),
            _ => return None,
        },
        ErrorKind::UnknownArgument if text(ContextKind::InvalidArg)? == "--corpus" => {
            ("sql --corpus FILE".to_owned(), "corpus FILE".to_owned())
        }
        _ => return None,
    };
    Some(format!("`memory {was}` is now `memory-lab {is}`, a separate program; see docs/cli.md"))
}

async fn dispatch(context: &Context, command: Command, out: &mut Out) -> Result<Exit, Failure> {
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
        Command::Pending(args) => commands::pending(context, args, out).await,
        Command::Review(args) => commands::review(context, args, out).await,
        Command::Rebuild(args) => commands::rebuild(context, args, out).await,
        Command::Verify(args) => commands::verify(context, args, out).await,
        Command::Graph(args) => commands::graph(context, args, out).await,
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
        Command::Serve(args) if args.http.http.is_some() => crate::http::run(context, args).await,
        Command::Serve(args) => crate::serve::run(context, args, out).await,
        Command::Token(args) => commands::token(context, args, out).await,
        Command::SqlWorker(args) => crate::serve::sql_worker(context, &args).await,
        Command::Demo(args) => crate::demo::run(&args, context.is_quiet(), out).await,
        Command::Describe => commands::describe(context, out).await,
        Command::Backend(args) => commands::backend(context, &args, out).await,
        Command::Config(args) => commands::config(context, &args, out).await,
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "memory", &mut script);
            let script = String::from_utf8_lossy(&script);
            if out.is_json() {
                out.document(&serde_json::json!({ "shell": shell.to_string(), "script": script }))?;
            } else {
                out.raw_line(script.trim_end())?;
            }
            Ok(Exit::Ok)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
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

    #[test]
    fn what_the_pages_of_services_show_can_be_typed_and_configured() {
        for page in [include_str!("../../docs/mem0.md"), include_str!("../../docs/mem9.md")] {
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
        let page = include_str!("../../docs/cli.md");
        for command in Cli::command()
            .get_subcommands()
            .filter(|command| command.get_name() != "help" && !command.is_hide_set())
        {
            assert!(page.contains(&format!("memory {}", command.get_name())), "{}", command.get_name());
        }
    }
}
