//! The command line: options, dispatch, and how it ends.

use std::process::ExitCode;

use clap::{CommandFactory as _, Parser, Subcommand};

use crate::commands::{self, Context};
use crate::failure::{EXIT_CODES, Exit, Failure};
use crate::log;
use crate::output::Out;
use crate::progress::note;
use crate::settings::Global;

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
    /// Find entries by words
    Search(commands::SearchArgs),
    /// Hand over words to be remembered as facts, where the store makes facts of them
    Add(commands::AddArgs),
    /// Find remembered facts
    Recall(commands::RecallArgs),
    /// List remembered facts
    Facts(commands::FactsArgs),
    /// Tell what became of an `add` that was pending
    Event(commands::EventArgs),
    /// Forget a tenant, a scope or a key everywhere, or facts by id
    Forget(commands::ForgetArgs),
    /// Run SQL on the scope's database, in the sandbox that agents get
    Sql(crate::sql::SqlArgs),
    /// List the tenant's scopes that hold something
    Scopes(commands::ScopesArgs),
    /// Count what the scope holds
    Stats,
    /// Give entries that lack one a vector of the store's embedder
    Reembed(commands::ReembedArgs),
    /// What somebody else changed behind a run's back: status, diff, ack, restore, repair
    Drift(commands::DriftArgs),
    /// Import conversations, or entries that `export` wrote
    Import(commands::ImportArgs),
    /// Write every entry of the scope as JSON Lines
    Export(commands::ExportArgs),
    /// Write every scope of the store, entries and SQL databases, into one file
    Snapshot(commands::SnapshotArgs),
    /// Take a snapshot into the store
    Restore(commands::RestoreArgs),
    /// Copy every scope of one store into another, and compare both
    Migrate(commands::MigrateArgs),
    /// Let go of scopes that nobody uses, and give their room back
    Gc(commands::GcArgs),
    /// Serve the Memory tool to an MCP client, over standard input and output
    Serve(crate::serve::ServeArgs),
    /// Serve SQL to the process that started this one
    #[command(hide = true)]
    SqlWorker(crate::serve::SqlWorkerArgs),
    /// Take a short tour on embedded SQLite
    Demo(crate::demo::DemoArgs),
    /// Say what the store serves, within which limits, and whether it is well
    Describe,
    /// Define backends while programs run, or look at one: create, fork, list, show, retire, test, journal
    Backend(commands::BackendArgs),
    /// Show the effective configuration, check it, or write a commented memory.toml
    Config(commands::ConfigArgs),
    /// Set up a PostgreSQL database, or say what is wrong with it
    Postgres(commands::PostgresArgs),
    /// Run the conformance suite on a store [default: on a fresh SQLite file for each case]
    Conformance(commands::ConformanceArgs),
    /// Measure the quality of retrieval
    Eval(crate::eval_cmd::EvalArgs),
    /// Measure speed beside raw SQLite, in the same run
    Bench(crate::bench::BenchArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

impl Cli {
    /// Refuses a scope for what works on more than one: it would be passed over, and more would go than was meant.
    fn checked(self) -> Result<Self, clap::Error> {
        let why = match &self.command {
            _ if !self.global.names_scope() => return Ok(self),
            Command::Gc(_) => {
                "`gc` decides over every scope of the store, or of one tenant (--tenant ID), and takes no --agent, \
                 --user, --run or --scope; to remove one scope use `memory forget`"
            }
            Command::Forget(args) if args.resumes() => {
                "`forget --resume` ends everything that was begun, and takes no --agent, --user, --run or --scope; to \
                 forget one scope leave out --resume"
            }
            _ => return Ok(self),
        };
        Err(Self::command().error(clap::error::ErrorKind::ArgumentConflict, why))
    }
}

/// Runs the command line of this process.
#[must_use]
pub fn main() -> ExitCode {
    ExitCode::from(run().code())
}

fn run() -> Exit {
    let cli = match Cli::try_parse().and_then(Cli::checked) {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let json = cli.global.json;
    if let Err(why) = log::start() {
        note(&format!("memory: {why}"));
    }
    let mut out = Out::standard(json);
    let result = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => {
            let (result, who) =
                runtime.block_on(memory::fallback::observe(Box::pin(dispatch(cli, &mut out))));
            if let Some(who) = who
                && !json
            {
                note(&format!(
                    "memory: the store could not be reached, so its fallback `{who}` answered: what is there may differ"
                ));
            }
            result
        }
        Err(error) => Err(Failure::File("the runtime cannot be started".to_owned(), error)),
    };
    let result = result.and_then(|exit| out.flush().map(|()| exit));
    match result {
        Ok(exit) => exit,
        Err(failure) if failure.is_broken_pipe() => Exit::Ok,
        Err(failure) => {
            // What was printed before the failure is still wanted; a second failure adds nothing.
            let _ = out.flush();
            note(&if json { failure.to_json() } else { format!("memory: {failure}") });
            failure.exit()
        }
    }
}

/// Help and version go to standard output and are no failure.
fn usage(error: &clap::Error) -> Exit {
    let wants_json = std::env::args_os().any(|argument| argument == "--json");
    if wants_json && error.use_stderr() {
        let text = error.render().to_string();
        let text = text.trim().strip_prefix("error: ").unwrap_or(text.trim()).to_owned();
        note(&Failure::invalid(text).to_json());
    } else {
        let _ = error.print();
    }
    if error.use_stderr() { Exit::Usage } else { Exit::Ok }
}

async fn dispatch(cli: Cli, out: &mut Out) -> Result<Exit, Failure> {
    let context = Context::new(cli.global);
    match cli.command {
        Command::Get(args) => commands::get(&context, &args, out).await,
        Command::Set(args) => commands::set(&context, args, out).await,
        Command::Delete(args) => commands::delete(&context, &args, out).await,
        Command::List(args) => commands::list(&context, args, out).await,
        Command::Incr(args) => commands::incr(&context, &args, out).await,
        Command::Update(args) => commands::update(&context, args, out).await,
        Command::Search(args) => commands::search(&context, args, out).await,
        Command::Add(args) => commands::add(&context, args, out).await,
        Command::Recall(args) => commands::recall(&context, args, out).await,
        Command::Facts(args) => commands::facts(&context, args, out).await,
        Command::Event(args) => commands::event(&context, args, out).await,
        Command::Forget(args) => commands::forget(&context, args, out).await,
        Command::Sql(args) => crate::sql::run(&context, args, out).await,
        Command::Scopes(args) => commands::scopes(&context, args, out).await,
        Command::Stats => commands::stats(&context, out).await,
        Command::Reembed(args) => commands::reembed(&context, &args, out).await,
        Command::Drift(args) => commands::drift(&context, &args, out).await,
        Command::Import(args) => commands::import(&context, args, out).await,
        Command::Export(args) => commands::export(&context, &args, out).await,
        Command::Snapshot(args) => commands::snapshot(&context, args, out).await,
        Command::Restore(args) => commands::restore(&context, args, out).await,
        Command::Migrate(args) => commands::migrate(&context, args, out).await,
        Command::Gc(args) => commands::gc(&context, args, out).await,
        Command::Postgres(args) => commands::postgres(&context, &args, out).await,
        Command::Serve(args) => crate::serve::run(&context, args, out).await,
        Command::SqlWorker(args) => crate::serve::sql_worker(&context, &args).await,
        Command::Demo(args) => crate::demo::run(&args, context.is_quiet(), out).await,
        Command::Describe => commands::describe(&context, out).await,
        Command::Backend(args) => commands::backend(&context, &args, out).await,
        Command::Config(args) => commands::config(&context, &args, out).await,
        Command::Conformance(args) => commands::conformance(&context, args, out).await,
        Command::Eval(args) => commands::eval(&context, &args, out).await,
        Command::Bench(args) => commands::bench(&args, out),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Cli::command(), "memory", &mut script);
            out.raw_line(String::from_utf8_lossy(&script).trim_end())?;
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

    /// A line of a shell, cut into words: what stands in quotes is one.
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
