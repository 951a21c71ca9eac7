//! Binding of arguments.

use memory_core::Request;
use memory_core::sql::SqlValue;

use super::requests::change_statement;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.args-spliced": ["ARG-1"] needs [Sql], "texts are pasted into the statement between quotes" => ask(spliced);
    "sql.args-reversed": ["ARG-2"] needs [Sql], "`?` takes the arguments in reverse order"
        => ask(|request| change_statement(request, |sql, args| if sql.contains('?') { args.reverse(); }));
    "sql.args-by-appearance": ["ARG-3"] needs [Sql], "`$n` takes the next argument, regardless of n" => ask(by_appearance);
    "sql.args-by-spelling": ["ARG-3"] needs [Sql], "`$10` sorts before `$2`" => ask(by_spelling);
    "sql.args-missing-are-null": ["ARG-4"] needs [Sql], "missing arguments are NULL"
        => ask(|request| change_statement(request, |sql, args| {
            while args.len() < due(sql).min(100) {
                args.push(SqlValue::Null);
            }
        }));
    "sql.args-too-many-dropped": ["ARG-4"] needs [Sql], "surplus arguments are dropped"
        => ask(|request| change_statement(request, |sql, args| args.truncate(due(sql))));
    "sql.args-in-literals": ["ARG-5"] needs [Sql], "a question mark in a literal counts as a placeholder"
        => ask(|request| change_statement(request, |sql, _| *sql = sql.replace("'? ", "'$ ").replace(" ?'", " $'")));
    "sql.args-by-name": ["ARG-6"] needs [Sql], "named parameters take the next argument" => ask(by_name);
    "sql.args-without-limit": ["ARG-7"] needs [Sql], "arguments over the limit are ignored"
        => ask_ahead(|request| change_statement(request, |_, args| if args.len() > 32_766 { args.clear(); }));
    "sql.args-arrays-as-json": ["ARG-8"] needs [Sql], "an array argument is passed as its JSON text"
        => ask_ahead(|request| change_arrays(request, |array| serde_json::to_string(array).ok().map(SqlValue::Text)));
    "sql.args-ragged-arrays": ["ARG-9"] needs [Sql], "an array argument with arrays in it is NULL if they differ"
        => ask_ahead(|request| change_arrays(request, |array| is_ragged(array).then_some(SqlValue::Null)));
    "sql.args-typed-for-another-scope": ["ARG-10"] needs [Sql], "fractions are texts once another scope has run the same text"
        => ask(Request::Exec { scope, sql, args, .. } => {
            let mut memory = memory.lock();
            if memory.texts.iter().any(|(other, text)| text == sql && other != scope) {
                fractions_as_texts(args);
            }
            memory.texts.insert((scope.clone(), sql.clone()));
        });
    "sql.args-typed-before-definitions": ["ARG-10"] needs [Sql], "fractions are texts once a text has run on a table that was made anew"
        => ask(Request::Exec { scope, sql, args, .. } => {
            let mut memory = memory.lock();
            let made = memory.notes.entry(format!("made in {scope}")).or_default();
            *made += u64::from(sql.starts_with("CREATE TABLE"));
            let made = *made;
            if *memory.notes.entry(format!("{sql} in {scope}")).or_insert(made) != made {
                fractions_as_texts(args);
            }
        });
}

fn fractions_as_texts(args: &mut [SqlValue]) {
    for arg in args {
        if let SqlValue::Real(real) = arg {
            *arg = SqlValue::Text(format!("{real:e}"));
        }
    }
}

/// Replaces array arguments for which `change` returns a value.
fn change_arrays(request: &mut Request, change: impl Fn(&SqlValue) -> Option<SqlValue>) {
    change_statement(request, |_, args| {
        for arg in args.iter_mut().filter(|arg| matches!(arg, SqlValue::Array(_))) {
            if let Some(changed) = change(arg) {
                *arg = changed;
            }
        }
    });
}

/// Whether an array contains arrays of different lengths.
fn is_ragged(array: &SqlValue) -> bool {
    let SqlValue::Array(elements) = array else { return false };
    let mut lengths = elements.iter().filter_map(|element| match element {
        SqlValue::Array(nested) => Some(nested.len()),
        _ => None,
    });
    let first = lengths.next();
    lengths.any(|length| Some(length) != first)
}

fn spliced(request: &mut Request) {
    change_statement(request, |sql, args| {
        if args.is_empty() || !args.iter().all(|arg| matches!(arg, SqlValue::Text(_))) {
            return;
        }
        for (at, arg) in args.drain(..).enumerate() {
            let SqlValue::Text(text) = arg else { continue };
            let named = format!("${}", at + 1);
            let pasted = format!("'{text}'");
            *sql = if sql.contains(&named) {
                sql.replace(&named, &pasted)
            } else {
                sql.replacen('?', &pasted, 1)
            };
        }
    });
}

/// The numbers of `$n`, in the order of the text.
fn numbers(sql: &str) -> Vec<usize> {
    sql.split('$')
        .skip(1)
        .filter_map(|rest| {
            let digits: String = rest.chars().take_while(char::is_ascii_digit).collect();
            digits.parse().ok()
        })
        .collect()
}

fn by_appearance(request: &mut Request) {
    change_statement(request, |sql, _| {
        let mut changed = String::new();
        for (at, part) in sql.split('$').enumerate() {
            let rest = part.trim_start_matches(|c: char| c.is_ascii_digit());
            if at > 0 {
                changed.push_str(if rest.len() == part.len() { "$" } else { "?" });
            }
            changed.push_str(if at > 0 { rest } else { part });
        }
        *sql = changed;
    });
}

fn by_spelling(request: &mut Request) {
    change_statement(request, |sql, args| {
        let mut named: Vec<String> = numbers(sql).into_iter().map(|n| n.to_string()).collect();
        named.sort();
        named.dedup();
        if named.len() != args.len() {
            return;
        }
        let mut spelled = args.clone();
        for (arg, name) in args.iter().zip(&named) {
            if let Some(place) = name.parse::<usize>().ok().and_then(|n| spelled.get_mut(n.wrapping_sub(1))) {
                *place = arg.clone();
            }
        }
        *args = spelled;
    });
}

fn due(sql: &str) -> usize {
    numbers(sql).into_iter().max().unwrap_or_else(|| sql.matches('?').count())
}

fn by_name(request: &mut Request) {
    change_statement(request, |sql, args| {
        if !args.is_empty() {
            for name in [":a", "@a", "$a"] {
                *sql = sql.replace(name, "?");
            }
            args.truncate(due(sql).max(1));
            while args.len() < due(sql) {
                args.push(SqlValue::Null);
            }
        }
    });
}
