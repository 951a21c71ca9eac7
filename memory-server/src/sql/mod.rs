//! `memory sql`: the scope's database from a terminal, in the sandbox that agents get.

mod corpus;
mod session;
mod shell;
mod statements;
mod table;
mod transfer;

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use memory_core::sql::{RestoreMode, RestoreOptions, SqlValue};

use self::session::Session;
use crate::commands::Context;
use crate::failure::{Exit, Failure};
use crate::output::Out;
use crate::values;

/// What a corpus's statements are given where nothing else is said.
const CORPUS_TIMEOUT: Duration = Duration::from_secs(1);
/// How much a corpus's scope may hold where nothing else is said, in bytes.
const CORPUS_QUOTA: u64 = 32 << 20;

/// Options of `sql`.
#[derive(Args, Debug)]
pub(crate) struct SqlArgs {
    /// One statement [default: statements from standard input, each ended by `;`]
    statement: Option<String>,
    /// A value for the statement's next placeholder, as JSON: 7, '"text"', null, '{"$blob":"AP8="}'
    #[arg(long = "arg", value_name = "JSON", requires = "statement")]
    args: Vec<String>,
    /// Most rows of a result: 1 to 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_rows: u32,
    /// How long a statement may take [default: the store's; of a corpus 1s]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Most bytes the database may hold [default: the store's; of a corpus 32 MiB]
    #[arg(long, value_name = "BYTES")]
    quota: Option<u64>,
    /// Write the whole database to a file, which appears when it is complete (`-`: standard output)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with = "statement")]
    dump: Option<PathBuf>,
    /// Put the dump in the place of a file that is there
    #[arg(long, requires = "dump")]
    overwrite: bool,
    /// Read a dump of the same kind of store into the scope, which must hold no table (`-`: standard input)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with = "statement")]
    restore: Option<PathBuf>,
    /// What `--restore` reads takes the place of what the scope holds, in one transaction
    #[arg(long, requires = "restore")]
    replace: bool,
    /// Delete the scope's database, open transactions included
    #[arg(long, group = "what", conflicts_with = "statement")]
    drop: bool,
    /// Try each statement of a file (JSON Lines) in a fresh scope, and say how it ended
    #[arg(long, value_name = "FILE", group = "what", conflicts_with = "statement")]
    corpus: Option<PathBuf>,
    /// Statements that each scope of the corpus begins with, run with the runtime's rights
    #[arg(long, value_name = "FILE", requires = "corpus")]
    base: Option<PathBuf>,
    /// Leave the validator out, to see what the engine's own layers stop
    #[arg(long, requires = "corpus")]
    no_validator: bool,
    /// Leave every layer out but this one: gate, grammar, walk, readonly, config, authorizer, limits, deadline, heap,
    /// quota or functions
    #[arg(long, value_name = "NAME", requires = "corpus", conflicts_with = "no_validator")]
    only_layer: Option<String>,
    /// Of the process that tries a corpus: its folder
    #[arg(long, hide = true, requires = "corpus", requires = "child_from")]
    child_folder: Option<PathBuf>,
    /// Of the process that tries a corpus: its first line
    #[arg(long, hide = true, requires = "child_folder")]
    child_from: Option<usize>,
}

/// `memory sql`.
pub(crate) async fn run(context: &Context, args: SqlArgs, out: &mut Out) -> Result<Exit, Failure> {
    let timeout = args.timeout.as_deref().map(values::duration).transpose()?;
    if let Some(corpus) = args.corpus {
        let trial = corpus::Trial {
            corpus,
            base: args.base,
            no_validator: args.no_validator,
            only_layer: args.only_layer,
            timeout: timeout.unwrap_or(CORPUS_TIMEOUT),
            quota: args.quota.unwrap_or(CORPUS_QUOTA),
            child: args.child_folder.zip(args.child_from),
        };
        return corpus::run(context, &trial, out).await;
    }
    if let Some(file) = &args.dump {
        let opened = context.open_existing().await?;
        return transfer::dump(&opened, file, args.overwrite, out).await;
    }
    let opened = context.open().await?;
    if let Some(file) = &args.restore {
        let mode = if args.replace { RestoreMode::Replace } else { RestoreMode::IntoEmpty };
        let options = RestoreOptions::default().with_mode(mode);
        return transfer::restore(&opened, file, options, out).await;
    }
    if args.drop {
        return transfer::drop_database(&opened, out).await;
    }
    let limits = session::Limits {
        max_rows: usize::try_from(args.max_rows).unwrap_or(usize::MAX),
        timeout,
        quota_bytes: args.quota,
    };
    let mut session = Session::new(&opened, limits)?;
    match args.statement {
        Some(statement) => {
            let values = args.args.iter().map(|text| value(text)).collect::<Result<Vec<_>, Failure>>()?;
            shell::one(&mut session, &statement, &values, out).await
        }
        None => shell::run(&mut session, out).await,
    }
}

fn value(text: &str) -> Result<SqlValue, Failure> {
    serde_json::from_str(text).map_err(|error| {
        Failure::from(
            memory_core::Error::invalid(
                "a value of --arg is JSON, as 7, '\"text\"', null or '{\"$blob\":\"AP8=\"}'",
            )
            .with_source(error),
        )
    })
}
