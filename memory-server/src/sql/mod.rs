//! `memory sql`: the scope's database from a terminal, in the same sandbox as agents.

mod session;
mod shell;
mod statements;
mod table;
mod transfer;

use std::path::PathBuf;

use clap::Args;
use memory::Access;
use memory_core::sql::{RestoreMode, RestoreOptions, SqlValue};

use self::session::Session;
use crate::terminal::{Context, Exit, Failure, Out, values};

#[derive(Args, Debug)]
pub(crate) struct SqlArgs {
    /// A statement [default: read statements from standard input, each ended by `;`]
    statement: Option<String>,
    /// More words, as of a statement without quotes
    #[arg(hide = true, requires = "statement")]
    words: Vec<String>,
    /// A value for the statement's next placeholder, as JSON: 7, '"text"', null, '{"$blob":"AP8="}', '[1,2]'
    #[arg(long = "arg", value_name = "JSON", requires = "statement")]
    args: Vec<String>,
    /// Keep no history of what is typed
    #[arg(long, conflicts_with_all = ["statement", "what"])]
    no_history: bool,
    /// Rows per result at most: 1 to 10,000
    #[arg(long, value_name = "N", default_value_t = 1_000, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    max_rows: u32,
    /// Time limit per statement [default: the store's]
    #[arg(long, value_name = "DURATION")]
    timeout: Option<String>,
    /// Size limit of the database in bytes [default: the store's]
    #[arg(long, value_name = "BYTES")]
    quota: Option<u64>,
    /// Dump the whole database to a file, which appears once it is complete (`-`: standard output)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with = "statement")]
    dump: Option<PathBuf>,
    /// Overwrite an existing file
    #[arg(long, requires = "dump")]
    overwrite: bool,
    /// Restore a dump of the same kind of store into the scope, which must have no tables (`-`: standard input)
    #[arg(long, value_name = "FILE", group = "what", conflicts_with = "statement")]
    restore: Option<PathBuf>,
    /// With `--restore`: replace the scope's database, in one transaction
    #[arg(long, requires = "restore")]
    replace: bool,
    /// Delete the scope's database, open transactions included
    #[arg(long, group = "what", conflicts_with = "statement")]
    drop: bool,
}

impl SqlArgs {
    /// Whether statements are read from standard input.
    pub(crate) fn reads_statements(&self) -> bool {
        self.statement.is_none() && self.dump.is_none() && self.restore.is_none() && !self.drop
    }
}

pub(crate) async fn run(context: &Context, args: SqlArgs, out: &mut Out) -> Result<Exit, Failure> {
    if !args.words.is_empty() {
        return Err(Failure::invalid(
            "a statement is one argument; put it in quotes, as in `memory sql 'SELECT 1'`",
        ));
    }
    let timeout = args.timeout.as_deref().map(values::duration).transpose()?;
    if let Some(file) = &args.dump {
        let opened = context.open(Access::Read).await?;
        return transfer::dump(&opened, (file, args.overwrite), context.stop(), out).await;
    }
    let access = match &args.statement {
        _ if args.drop => Access::Existing,
        Some(text) if text.trim_start().starts_with('.') || session::may_read_only(text) => Access::Read,
        _ => Access::Create,
    };
    // Done before a store is created for it.
    let dump = args.restore.as_deref().map(|file| transfer::reader(context, file)).transpose()?;
    let opened = context.open(access).await?;
    if let Some(dump) = dump {
        let mode = if args.replace { RestoreMode::Replace } else { RestoreMode::IntoEmpty };
        let options = RestoreOptions::default().with_mode(mode);
        return transfer::restore(&opened, dump, options, out).await;
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
        None => {
            let history = context.keeps_history() && !args.no_history;
            shell::run(&mut session, history, out).await
        }
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
