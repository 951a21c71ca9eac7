//! A line's arguments as the store takes them: a list, by position.
//!
//! Corpora of SQLite's drivers also name arguments (`:name`), which become a list.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt::Write as _;

use memory_core::json::JsonKind;
use memory_core::sql::SqlValue;
use memory_core::{Error, Json, Result, SqlDialect};
use memory_validator::{Dialect, Limits, placeholders};

/// The statement and its arguments, by position.
///
/// # Errors
/// `invalid_argument` for malformed arguments, and for names that do not match the statement's or that the engine lacks.
pub(super) fn bound<'a>(
    sql: Cow<'a, str>,
    args: Option<&Json>,
    dialect: SqlDialect,
) -> Result<(Cow<'a, str>, Vec<SqlValue>)> {
    let Some(args) = args else { return Ok((sql, Vec::new())) };
    let parsed = |error: serde_json::Error| Error::invalid(format!("`args` is malformed: {error}"));
    match args.kind() {
        JsonKind::Null => Ok((sql, Vec::new())),
        JsonKind::Array => {
            let list: Vec<Json> = serde_json::from_str(args.as_str()).map_err(parsed)?;
            Ok((sql, list.iter().map(SqlValue::from_json).collect::<Result<_>>()?))
        }
        JsonKind::Object if dialect == SqlDialect::Sqlite => {
            by_position(&sql, &serde_json::from_str(args.as_str()).map_err(parsed)?)
        }
        JsonKind::Object => Err(Error::invalid("only SQLite has named arguments; give `args` as a list")),
        _ => Err(Error::invalid("`args` is neither a list nor an object of names")),
    }
}

/// Writes `$n` where the statement names an argument.
fn by_position<'a>(sql: &str, named: &BTreeMap<String, Json>) -> Result<(Cow<'a, str>, Vec<SqlValue>)> {
    let found = placeholders(sql, Dialect::Sqlite, &Limits::default())
        .map_err(|refusal| Error::invalid(refusal.to_string()))?;
    let (mut rest, mut order, mut text) = (0, Vec::new(), String::new());
    for placeholder in found {
        let name = sql.get(placeholder.span.clone()).unwrap_or_default();
        // Drivers accept the name with or without its sign.
        let key = [name, name.get(1..).unwrap_or_default()].into_iter().find(|key| named.contains_key(*key));
        let key = key.ok_or_else(|| Error::invalid(format!("`args` has no `{name}`")))?;
        let at = order.iter().position(|known| *known == key).unwrap_or_else(|| {
            order.push(key);
            order.len() - 1
        });
        text.push_str(sql.get(rest..placeholder.span.start).unwrap_or_default());
        let _ = write!(text, "${}", at + 1);
        rest = placeholder.span.end;
    }
    text.push_str(sql.get(rest..).unwrap_or_default());
    if let Some(unused) = named.keys().find(|name| !order.contains(&name.as_str())) {
        return Err(Error::invalid(format!("the statement has no parameter `{unused}`")));
    }
    let args = order.iter().filter_map(|name| named.get(*name));
    Ok((Cow::Owned(text), args.map(SqlValue::from_json).collect::<Result<_>>()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ready(sql: &str, args: &str, dialect: SqlDialect) -> Result<(String, Vec<SqlValue>)> {
        let args = Json::parse(args).unwrap();
        bound(Cow::Borrowed(sql), Some(&args), dialect).map(|(sql, args)| (sql.into_owned(), args))
    }

    #[test]
    fn named_arguments_become_positional() {
        let sql = "SELECT :b, @a, $c, :b FROM t -- :d";
        for args in [r#"{"a":1,"b":2,"c":3}"#, r#"{"@a":1,":b":2,"$c":3}"#] {
            let (sql, args) = ready(sql, args, SqlDialect::Sqlite).unwrap();
            assert_eq!(sql, "SELECT $1, $2, $3, $1 FROM t -- :d");
            assert_eq!(args, [2, 1, 3].map(SqlValue::Int));
        }
    }

    #[test]
    fn unmatched_names_and_engines_without_names_are_refused() {
        for (sql, args) in
            [("SELECT :a", "{}"), ("SELECT :a", r#"{"a":1,"b":2}"#), ("SELECT ?", r#"{"a":1}"#)]
        {
            assert!(ready(sql, args, SqlDialect::Sqlite).is_err(), "{sql} {args}");
        }
        assert!(ready("SELECT :a", r#"{"a":1}"#, SqlDialect::Postgres).is_err());
        assert!(ready("SELECT 1", "1", SqlDialect::Sqlite).is_err());
    }
}
