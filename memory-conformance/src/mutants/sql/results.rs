//! Values and result limits.

use memory_core::sql::{Rows, SqlValue};
use memory_core::{Json, Next, Reply, Request, Result};

use super::requests::{again, change_statement, change_values, options, rows_of};
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "sql.null-is-empty": ["DAT-1"] needs [Sql], "NULL comes back as empty text"
        => answer(|reply| change_values(reply, |value| (*value == SqlValue::Null).then(|| SqlValue::Text(String::new()))));
    "sql.empty-is-null": ["DAT-1", "DAT-4"] needs [Sql], "empty text is stored as NULL"
        => ask(|request| change_args(request, |arg| (*arg == SqlValue::Text(String::new())).then_some(SqlValue::Null)));
    "sql.integers-as-reals": ["DAT-2"] needs [Sql], "integers are converted to doubles" => answer(integers_as_reals);
    "sql.reals-short": ["DAT-3"] needs [Sql], "reals are converted to 32 bits" => answer(short_reals);
    "sql.nan-is-null": ["DAT-3"] needs [Sql], "NaN is stored as NULL"
        => ask(|request| change_args(request, |arg| {
            matches!(arg, SqlValue::Real(real) if real.is_nan()).then_some(SqlValue::Null)
        }));
    "sql.texts-trimmed": ["DAT-4"] needs [Sql], "text is trimmed"
        => answer(|reply| change_values(reply, |value| match value {
            SqlValue::Text(text) => Some(SqlValue::Text(text.trim().to_owned())),
            _ => None,
        }));
    "sql.texts-end-at-nul": ["DAT-4"] needs [Sql], "text is cut at its first NUL"
        => ask(|request| change_args(request, |arg| match arg {
            SqlValue::Text(text) => text.split_once('\0').map(|(head, _)| SqlValue::Text(head.to_owned())),
            _ => None,
        }));
    "sql.bytes-as-text": ["DAT-5"] needs [Sql], "bytes that are valid UTF-8 come back as text"
        => answer(|reply| change_values(reply, |value| match value {
            SqlValue::Blob(bytes) if !bytes.is_empty() => {
                String::from_utf8(bytes.clone()).ok().map(SqlValue::Text)
            }
            _ => None,
        }));
    "sql.no-bytes-are-null": ["DAT-5"] needs [Sql], "empty bytes come back as NULL"
        => answer(|reply| change_values(reply, |value| (*value == SqlValue::Blob(Vec::new())).then_some(SqlValue::Null)));
    "sql.booleans-as-text": ["DAT-6"] needs [Sql], "booleans are stored as words"
        => ask(|request| change_args(request, |arg| match arg {
            SqlValue::Bool(value) => Some(SqlValue::Text(if *value { "yes" } else { "no" }.to_owned())),
            _ => None,
        }));
    "sql.numerics-as-reals": ["DAT-7"] needs [Sql], "decimal numbers are converted to doubles"
        => ask(|request| change_args(request, |arg| match arg {
            SqlValue::Numeric(digits) => digits.parse().ok().map(SqlValue::Real),
            _ => None,
        }));
    "sql.json-parsed": ["DAT-8"] needs [Sql], "JSON arguments are parsed and reformatted"
        => ask(|request| change_args(request, |arg| match arg {
            SqlValue::Json(json) => {
                let parsed: serde_json::Value = serde_json::from_str(json.as_str()).ok()?;
                Json::parse(parsed.to_string()).ok().map(SqlValue::Json)
            }
            _ => None,
        }));
    "sql.text-repaired": ["DAT-9"] needs [Sql], "invalid UTF-8 is silently repaired" => around(repaired);
    "sql.truncated-unsaid": ["RES-1"] needs [Sql], "a truncated answer is not marked"
        => answer(|reply| if let Some(rows) = rows_of(reply) { rows.truncated = false; });
    "sql.truncated-when-full": ["RES-1"] needs [Sql], "an answer of exactly `max_rows` rows is marked as truncated"
        => around({
            let cap = options(&mut request).map(|options| options.max_rows);
            let mut reply = next.run(request).await?;
            if let (Some(rows), Some(cap)) = (rows_of(&mut reply), cap) {
                rows.truncated = rows.rows.len() >= cap;
            }
            Ok(reply)
        });
    "sql.row-cap-ignored": ["RES-1"] needs [Sql], "`max_rows` is ignored"
        => ask(|request| if let Some(options) = options(request) { options.max_rows = usize::MAX; });
    "sql.row-cap-of-a-thousand": ["RES-1"] needs [Sql], "at most 1,000 rows come, whatever `max_rows` is"
        => ask(|request| if let Some(options) = options(request) { options.max_rows = options.max_rows.min(1_000); });
    "sql.byte-cap-ignored": ["RES-2"] needs [Sql], "`max_bytes` is ignored"
        => ask(|request| if let Some(options) = options(request) { options.max_bytes = usize::MAX; });
    "sql.first-row-always": ["RES-2"] needs [Sql], "the first row is returned however large it is" => around(first_row);
    "sql.cap-stops-the-writing": ["RES-3"] needs [Sql], "a truncated RETURNING writes only the returned rows"
        => answer(Reply::Exec(outcome) => {
            if let Some(rows) = &outcome.returning && rows.truncated {
                outcome.rows_affected = rows.rows.len() as u64;
            }
        });
    "sql.cap-of-zero": ["RES-4"] needs [Sql], "a cap of 0 counts as 1" => ask_ahead(|request| {
        if let Some(options) = options(request) {
            options.max_rows = options.max_rows.max(1);
            options.max_bytes = options.max_bytes.max(1);
        }
    });
}

fn change_args(request: &mut Request, change: fn(&SqlValue) -> Option<SqlValue>) {
    change_statement(request, |_, args| {
        for arg in args {
            if let Some(changed) = change(arg) {
                *arg = changed;
            }
        }
    });
}

#[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation, reason = "the mistake it makes")]
fn integers_as_reals(reply: &mut Reply) {
    change_values(reply, |value| match value {
        SqlValue::Int(int) => Some(SqlValue::Int(*int as f64 as i64)),
        _ => None,
    });
}

#[allow(clippy::cast_possible_truncation, reason = "the mistake it makes")]
fn short_reals(reply: &mut Reply) {
    change_values(reply, |value| match value {
        SqlValue::Real(real) => Some(SqlValue::Real(f64::from(*real as f32))),
        _ => None,
    });
}

async fn repaired(_: &Memory, mut request: Request, next: Next<'_>) -> Result<Reply> {
    if !super::requests::statement(&request).is_some_and(|sql| sql.starts_with("SELECT CAST(x'")) {
        return next.run(request).await;
    }
    change_statement(&mut request, |sql, _| *sql = sql.replace("AS TEXT", "AS BLOB"));
    let mut reply = next.run(request).await?;
    change_values(&mut reply, |value| match value {
        SqlValue::Blob(bytes) => Some(SqlValue::Text(String::from_utf8_lossy(bytes).into_owned())),
        _ => None,
    });
    Ok(reply)
}

async fn first_row(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let copy = again(&request);
    let reply = next.run(request).await?;
    let is_cut_to_nothing =
        matches!(&reply, Reply::Query(Rows { rows, truncated: true, .. }) if rows.is_empty());
    if is_cut_to_nothing
        && let Some(mut copy) = copy
        && let Some(options) = options(&mut copy)
    {
        (options.max_rows, options.max_bytes) = (1, usize::MAX);
        return next.run(copy).await;
    }
    Ok(reply)
}
