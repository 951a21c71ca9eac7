//! Statements and dot commands, line by line.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use memory_core::sql::{SqlUsage, SqlValue, TableInfo, TxState};
use memory_core::{Error, Scope, SqlDialect};
use serde::Serialize;

use super::session::{Answer, Session, may_read_only};
use super::statements::Splitter;
use super::table;
use crate::terminal::{
    Exit, Failure, History, Language, Lines, Out, Read, Signal, Signals, bytes, complain, counted, is_person,
    not_utf8, note,
};

/// How long a prompt waits for the names of tables.
const LEARNING: Duration = Duration::from_secs(2);

const DOTS: &[&str] = &["begin", "commit", "help", "quit", "rollback", "schema", "tables", "usage"];

const HELP: &str = "\
statements end with `;`          BEGIN, COMMIT and ROLLBACK are .begin, .commit and .rollback
.tables                          tables and views of the scope
.schema [NAME]                   how they were made, on SQLite
.usage                           how much the database holds
.begin                           open a transaction, or a savepoint in the open one
.commit, .rollback               end the innermost level
.quit                            roll back what is open, and leave";

/// Runs one statement, or dot command.
pub(super) async fn one(
    session: &mut Session<'_>,
    text: &str,
    args: &[SqlValue],
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let text = text.trim();
    if let Some(command) = text.strip_prefix('.') {
        dot(session, command, out).await?;
    } else {
        let text = text.strip_suffix(';').unwrap_or(text);
        statement(session, text, args, out).await?;
    }
    close(session).await;
    Ok(Exit::Ok)
}

/// Reads standard input to its end. A person sees a failure and goes on; a script stops at the first one.
pub(super) async fn run(
    session: &mut Session<'_>,
    history: bool,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    let ended = if is_person() { typed(session, history, out).await } else { script(session, out).await };
    close(session).await;
    ended
}

async fn script(session: &mut Session<'_>, out: &mut Out) -> std::result::Result<Exit, Failure> {
    let (mut lines, mut splitter) = (Lines::piped()?, Splitter::new(session.dialect()));
    loop {
        let line = match lines.next("").await? {
            Read::Line(line) => line,
            Read::NotUtf8(number, _) => return Err(not_utf8(number)),
            Read::Interrupted | Read::End => break,
        };
        let more = take(session, &mut splitter, &line, out).await;
        out.flush()?;
        if !more? {
            return Ok(Exit::Ok);
        }
    }
    if let Some(last) = splitter.finish() {
        statement(session, &last, &[], out).await?;
    }
    Ok(Exit::Ok)
}

async fn typed(
    session: &mut Session<'_>,
    history: bool,
    out: &mut Out,
) -> std::result::Result<Exit, Failure> {
    note(&format!("the SQL database of {}; .help lists the commands besides SQL", session.scope()));
    let names = Names { dialect: session.dialect(), ..Names::default() };
    let history = if history { History::open("sql_history") } else { None };
    let mut lines = Lines::typed(names.clone(), history)?;
    let mut asked = Signals::listen()?;
    names.learn(session).await;
    loop {
        let depth = session.transaction().map_or(0, |state| state.depth);
        let prompt = if depth > 0 { format!("sql({depth})> ") } else { "sql> ".to_owned() };
        let line = tokio::select! {
            line = lines.next(&prompt) => line?,
            () = asked.terminated() => {
                lines.abandon();
                return Ok(Exit::Interrupted);
            }
        };
        let line = match line {
            Read::Line(line) => line + "\n",
            Read::Interrupted => continue,
            Read::NotUtf8(..) | Read::End => return Ok(Exit::Ok),
        };
        // A statement interrupted by a signal runs completely or not at all.
        let mut signals = Signals::listen()?;
        let mut splitter = Splitter::new(session.dialect());
        let taken = tokio::select! {
            taken = take(session, &mut splitter, &line, out) => taken,
            signal = signals.any() => {
                note("interrupted");
                if signal == Signal::Terminate {
                    return Ok(Exit::Interrupted);
                }
                continue;
            }
        };
        out.flush()?;
        match taken {
            Ok(true) => {}
            Ok(false) => return Ok(Exit::Ok),
            Err(failure) if failure.is_broken_pipe() => return Err(failure),
            Err(failure) if out.is_json() => complain(&failure.to_json()),
            Err(failure) => note(&failure.to_string()),
        }
        if !may_read_only(&line) {
            names.learn(session).await;
        }
    }
}

/// Completion for SQL: the names of tables and columns.
#[derive(Clone, Default)]
struct Names {
    dialect: Option<SqlDialect>,
    names: Arc<Mutex<BTreeSet<String>>>,
}

impl Names {
    /// Learns the names. Only a convenience: a failing or forbidden statement changes nothing here.
    async fn learn(&self, session: &Session<'_>) {
        let Ok(Ok(tables)) = tokio::time::timeout(LEARNING, session.tables()).await else { return };
        let columns =
            |table: TableInfo| table.columns.into_iter().map(|column| column.name).chain([table.name]);
        *self.names.lock().unwrap_or_else(PoisonError::into_inner) =
            tables.into_iter().flat_map(columns).collect();
    }
}

impl Language for Names {
    fn complete(&self, text: &str) -> (usize, Vec<String>) {
        let is_part = |character: char| character.is_alphanumeric() || character == '_';
        let start = text.trim_end_matches(is_part).len();
        let word = text.get(start..).unwrap_or_default();
        if text.strip_suffix(word).is_some_and(|before| before.trim() == ".") {
            let known = DOTS.iter().filter(|dot| dot.starts_with(word)).map(|dot| (*dot).to_owned());
            return (start, known.collect());
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        (start, names.iter().filter(|name| name.starts_with(word)).cloned().collect())
    }

    fn is_unfinished(&self, text: &str) -> bool {
        if text.trim_start().starts_with('.') {
            return false;
        }
        let mut splitter = Splitter::new(self.dialect);
        // One that is too long is refused later.
        splitter.push(&format!("{text}\n")).is_ok() && splitter.is_waiting()
    }
}

/// Runs a line; returns false if it quits the shell.
async fn take(
    session: &mut Session<'_>,
    splitter: &mut Splitter,
    line: &str,
    out: &mut Out,
) -> std::result::Result<bool, Failure> {
    if !splitter.is_waiting()
        && let Some(command) = line.trim().strip_prefix('.')
    {
        return dot(session, command.trim_end_matches(';'), out).await;
    }
    for text in splitter.push(line)? {
        statement(session, &text, &[], out).await?;
    }
    Ok(true)
}

async fn statement(
    session: &mut Session<'_>,
    text: &str,
    args: &[SqlValue],
    out: &mut Out,
) -> std::result::Result<(), Failure> {
    let words: Vec<String> = text.split_whitespace().take(3).map(str::to_ascii_lowercase).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words.as_slice() {
        ["begin"] | ["begin", "transaction" | "deferred" | "immediate" | "exclusive"] => {
            return begin(session, out).await;
        }
        ["commit" | "end"] | ["commit" | "end", "transaction"] => return end(session, true, out).await,
        ["rollback"] | ["rollback", "transaction"] => return end(session, false, out).await,
        _ => {}
    }
    match session.statement(text, args).await? {
        Answer::Rows(rows) if out.is_json() => out.document(&rows),
        Answer::Rows(rows) => table::write(&rows, out),
        Answer::Done(outcome) if out.is_json() => out.document(&outcome),
        Answer::Done(outcome) => {
            if let Some(rows) = &outcome.returning {
                table::write(rows, out)?;
            }
            out.line(format!("ok, {} affected", counted(outcome.rows_affected, "row")))
        }
    }
}

/// Runs a dot command, given without its dot; returns false if it quits the shell.
async fn dot(session: &mut Session<'_>, command: &str, out: &mut Out) -> std::result::Result<bool, Failure> {
    let mut words = command.split_whitespace();
    let name = words.next().unwrap_or_default().to_ascii_lowercase();
    let rest = command.trim_start().get(name.len()..).unwrap_or_default().trim();
    match name.as_str() {
        "quit" | "exit" => return Ok(false),
        "help" => out.line(HELP)?,
        "begin" => begin(session, out).await?,
        "commit" => end(session, true, out).await?,
        "rollback" => end(session, false, out).await?,
        "tables" => tables(&session.tables().await?, out)?,
        "schema" => schema(session, (!rest.is_empty()).then_some(rest), out).await?,
        "usage" => {
            let usage = session.facet("sql_usage")?.sql_usage(session.scope()).await?;
            print_usage(session.scope(), usage, out)?;
        }
        _ => {
            return Err(Failure::invalid(format!(
                "there is no `.{name}`; the commands are .tables .schema .usage .begin .commit .rollback .help .quit"
            )));
        }
    }
    Ok(true)
}

async fn begin(session: &mut Session<'_>, out: &mut Out) -> std::result::Result<(), Failure> {
    let state = session.begin().await?;
    show(state, if state.depth > 1 { "savepoint" } else { "transaction open" }, out)
}

async fn end(session: &mut Session<'_>, commit: bool, out: &mut Out) -> std::result::Result<(), Failure> {
    let state = session.end(commit).await?;
    show(&state, if commit { "committed" } else { "rolled back" }, out)
}

fn show(state: &TxState, what: &str, out: &mut Out) -> std::result::Result<(), Failure> {
    if out.is_json() {
        return out.document(state);
    }
    match state.depth {
        0 => out.line(what),
        depth => out.line(format!("{what}; {depth} level{} open", if depth == 1 { "" } else { "s" })),
    }
}

fn tables(tables: &[TableInfo], out: &mut Out) -> std::result::Result<(), Failure> {
    #[derive(Serialize)]
    struct Document<'a> {
        tables: &'a [TableInfo],
    }
    if out.is_json() {
        return out.document(&Document { tables });
    }
    let rows: Vec<[String; 3]> = tables
        .iter()
        .map(|table| {
            let columns: Vec<String> = table
                .columns
                .iter()
                .map(|column| format!("{} {}", column.name, column.declared_type).trim_end().to_owned())
                .collect();
            [table.name.clone(), table.kind.clone(), columns.join(", ")]
        })
        .collect();
    out.table(["NAME", "KIND", "COLUMNS"], &rows)
}

/// The SQL of the scope's own tables, views, indexes and triggers, without the engine's internal tables behind virtual
/// ones.
async fn schema(
    session: &mut Session<'_>,
    name: Option<&str>,
    out: &mut Out,
) -> std::result::Result<(), Failure> {
    #[derive(Serialize)]
    struct Document<'a> {
        schema: Vec<&'a str>,
    }
    if session.dialect() != Some(SqlDialect::Sqlite) {
        return Err(Failure::invalid(
            "`.schema` shows the definitions that SQLite keeps, and this store is another: `.tables` shows tables and columns, \
             and `memory sql --dump FILE` writes the definitions",
        ));
    }
    let own: Vec<String> = session.tables().await?.into_iter().map(|table| table.name).collect();
    let asked = "SELECT tbl_name, sql FROM sqlite_schema WHERE sql IS NOT NULL \
                 AND (?1 IS NULL OR lower(name) = lower(?1) OR lower(tbl_name) = lower(?1)) ORDER BY rowid";
    let wanted = name.map_or(SqlValue::Null, |name| SqlValue::Text(name.trim_matches('"').to_owned()));
    let Answer::Rows(rows) = session.statement(asked, &[wanted]).await? else {
        return Err(Error::internal("a query was answered as a command").into());
    };
    let mut made = Vec::new();
    for row in &rows.rows {
        if let [SqlValue::Text(table), SqlValue::Text(sql)] = row.as_slice()
            && own.contains(table)
        {
            made.push(sql.as_str());
        }
    }
    if let Some(name) = name.filter(|_| made.is_empty()) {
        return Err(Failure::invalid(format!("there is no `{name}` here; `.tables` lists what there is")));
    }
    if out.is_json() {
        return out.document(&Document { schema: made });
    }
    for sql in made {
        out.line(format!("{sql};"))?;
    }
    Ok(())
}

fn print_usage(scope: &Scope, usage: SqlUsage, out: &mut Out) -> std::result::Result<(), Failure> {
    if out.is_json() {
        return out.document(&usage);
    }
    let quota =
        usage.quota_bytes.map_or_else(|| "no quota".to_owned(), |quota| format!("of {}", bytes(quota)));
    out.line(format!("{scope}  {}, {quota}", bytes(usage.bytes)))
}

async fn close(session: &mut Session<'_>) {
    if session.close().await {
        note("the open transaction was rolled back");
    }
}
