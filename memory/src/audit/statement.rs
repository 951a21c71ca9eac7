//! What a record contains about a SQL statement.

use std::borrow::Cow;
#[cfg(any(feature = "sql", feature = "postgres"))]
use std::collections::BTreeSet;

use memory_core::SqlDialect;
use serde_json::Value;

use super::redact::{REDACTED, Redactor};

/// Most tables in a record.
#[cfg(any(feature = "sql", feature = "postgres"))]
const MAX_TABLES: usize = 32;

/// A statement on its way to the auditor's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Statement {
    pub(super) dialect: SqlDialect,
}

/// The kind of statement and its tables; empty if unknown.
#[derive(Debug, Default)]
pub(super) struct About {
    pub(super) kind: Option<&'static str>,
    pub(super) tables: Vec<String>,
}

#[cfg(any(feature = "sql", feature = "postgres"))]
impl Statement {
    fn dialect(self) -> Option<memory_validator::Dialect> {
        match self.dialect {
            SqlDialect::Sqlite => Some(memory_validator::Dialect::Sqlite),
            SqlDialect::Postgres => Some(memory_validator::Dialect::Postgres),
            _ => None,
        }
    }

    /// Parses it by the backend's own rules. A statement that they refuse has no kind.
    pub(super) fn about(self, sql: &str, redactor: &Redactor) -> About {
        use memory_validator::{Dialect, Mode, Numbered, Policy, Validator, Verdict};
        let Some(dialect) = self.dialect() else { return About::default() };
        let policy = Policy::new(dialect);
        let numbered;
        let sql = match dialect {
            Dialect::Postgres => match Numbered::of(sql, &policy.limits) {
                Ok(text) => {
                    numbered = text;
                    numbered.text()
                }
                Err(_) => return About::default(),
            },
            _ => sql,
        };
        let Verdict::Accepted(accepted) = Validator::check(sql, dialect, Mode::Exec, &policy) else {
            return About::default();
        };
        let mut tables: Vec<String> = Vec::new();
        for relation in accepted.relations {
            let name = as_written(sql, &relation.name, redactor);
            let name = match &relation.schema {
                Some(schema) => format!("{}.{name}", as_written(sql, schema, redactor)),
                None => name.to_owned(),
            };
            let name = redactor.text(&name).into_owned();
            if tables.len() < MAX_TABLES && !tables.contains(&name) {
                tables.push(name);
            }
        }
        About { kind: Some(accepted.kind.name()), tables }
    }

    /// Its text without literals and comments.
    fn text(self, sql: &str) -> Cow<'_, str> {
        match self.dialect() {
            Some(dialect) => memory_validator::without_literals(sql, dialect, REDACTED).into(),
            None => REDACTED.into(),
        }
    }
}

/// A name as spelled in the statement if that spelling is a secret (folding its case would hide the secret from the
/// redactor); otherwise the name itself.
#[cfg(any(feature = "sql", feature = "postgres"))]
fn as_written<'a>(sql: &'a str, name: &'a str, redactor: &Redactor) -> &'a str {
    let (lower, folded) = (sql.to_ascii_lowercase(), name.to_ascii_lowercase());
    let found = lower.match_indices(&folded);
    let spelled: BTreeSet<&str> = found.filter_map(|(at, found)| sql.get(at..at + found.len())).collect();
    spelled.into_iter().find(|spelled| matches!(redactor.text(spelled), Cow::Owned(_))).unwrap_or(name)
}

#[cfg(not(any(feature = "sql", feature = "postgres")))]
impl Statement {
    pub(super) fn about(self, _: &str, _: &Redactor) -> About {
        About::default()
    }

    #[allow(clippy::unused_self, reason = "same signature as with a parser")]
    fn text(self, _: &str) -> Cow<'_, str> {
        REDACTED.into()
    }
}

impl Statement {
    /// Removes literals and arguments from a call's input.
    pub(super) fn redact(self, input: &mut Value) {
        let Some(members) = input.as_object_mut() else { return };
        for name in ["sql", "statement"] {
            if let Some(member) = members.get_mut(name) {
                let clean = match &*member {
                    Value::String(sql) => self.text(sql).into_owned(),
                    _ => REDACTED.to_owned(),
                };
                *member = Value::String(clean);
            }
        }
        match members.get_mut("args") {
            Some(Value::Array(args)) => {
                for arg in args.iter_mut().filter(|arg| !arg.is_null()) {
                    *arg = Value::String(REDACTED.to_owned());
                }
            }
            Some(other) if !other.is_null() => *other = Value::String(REDACTED.to_owned()),
            _ => {}
        }
    }
}

#[cfg(all(test, any(feature = "sql", feature = "postgres")))]
mod tests {
    use super::*;
    use serde_json::json;

    const SQLITE: Statement = Statement { dialect: SqlDialect::Sqlite };

    #[test]
    fn a_record_has_the_statements_kind_and_tables() {
        let about = |sql: &str| SQLITE.about(sql, &Redactor::default());
        let joined =
            about("SELECT * FROM people p JOIN main.notes USING (id) WHERE id IN (SELECT id FROM people)");
        assert_eq!(
            (joined.kind, joined.tables),
            (Some("select"), vec!["people".to_owned(), "main.notes".to_owned()])
        );
        let made = about("CREATE TABLE people (name TEXT)");
        assert_eq!((made.kind, made.tables), (Some("create_table"), vec!["people".to_owned()]));
        assert_eq!(about("ATTACH 'x' AS y").kind, None);
        assert_eq!(about("no SQL at all").kind, None);
    }

    #[test]
    fn a_statement_of_postgresql_with_question_marks_has_a_kind_and_tables_too() {
        let about = |sql: &str| Statement { dialect: SqlDialect::Postgres }.about(sql, &Redactor::default());
        let inserted = about("INSERT INTO people (name, age) VALUES (?, ?) RETURNING id");
        assert_eq!((inserted.kind, inserted.tables), (Some("insert"), vec!["people".to_owned()]));
        let read = about("SELECT name FROM people WHERE age=?AND tags ? 'old'");
        assert_eq!((read.kind, read.tables), (Some("select"), vec!["people".to_owned()]));
    }

    #[test]
    fn literals_and_arguments_leave_the_input() {
        let mut input = json!({"op": "sql_exec", "sql": "INSERT INTO t VALUES ('Ann', 7, ?) -- Ann", "args": ["Ann", null, {"$embed": "Ann"}]});
        SQLITE.redact(&mut input);
        assert_eq!(input["sql"], "INSERT INTO t VALUES ([redacted], [redacted], ?)");
        assert_eq!(input["args"], json!([REDACTED, null, REDACTED]));
        let mut odd = json!({"op": "sql_exec", "statement": ["Ann"], "args": "Ann"});
        SQLITE.redact(&mut odd);
        assert!(!odd.to_string().contains("Ann"), "{odd}");
    }
}
