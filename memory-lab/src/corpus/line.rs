//! One line of a corpus.

use std::borrow::Cow;
use std::io::Read as _;
use std::path::Path;

use memory_core::Json;
use memory_server::terminal::Failure;
use serde::Deserialize;

/// Largest corpus or base, in bytes.
const MAX_FILE: u64 = 256 << 20;
/// Longest statement that `sql_parts` may add up to, in bytes.
const MAX_STATEMENT: usize = 64 << 20;

/// A statement, with its setup and expected outcome.
#[derive(Clone, Debug, Deserialize)]
pub(super) struct Line {
    /// Unique in its file.
    pub(super) id: String,
    #[serde(default)]
    pub(super) category: String,
    pub(super) op: Op,
    sql: Option<String>,
    /// Texts and how often to repeat each, joined: for statements too long to write out.
    sql_parts: Option<Vec<(String, usize)>>,
    /// A list, or on SQLite an object of names.
    pub(super) args: Option<Json>,
    /// Statements to run first, with the runtime's rights.
    #[serde(default)]
    pub(super) setup: Vec<String>,
    /// If absent, the statement is legitimate and must run.
    pub(super) expect: Option<Expect>,
    /// `optional`: a strict sandbox may refuse, a lenient one may run it.
    policy: Option<String>,
}

/// The operation that runs the statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Op {
    Exec,
    Query,
}

/// How a hostile statement must end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Expect {
    /// It does not run, and nothing changes.
    Refuse,
    /// It ends within its limits of time, memory and space.
    Bounded,
    /// It neither reads nor changes anything outside its scope.
    Isolated,
    /// A write in a query: refused, and nothing changes.
    Readonly,
}

impl Line {
    /// The statement.
    pub(super) fn sql(&self) -> Cow<'_, str> {
        match (&self.sql, &self.sql_parts) {
            (Some(sql), _) => Cow::Borrowed(sql),
            (None, Some(parts)) => {
                parts.iter().map(|(text, times)| text.repeat(*times)).collect::<String>().into()
            }
            (None, None) => Cow::Borrowed(""),
        }
    }

    pub(super) fn is_optional(&self) -> bool {
        self.policy.as_deref() == Some("optional")
    }

    fn check(&self) -> Result<(), String> {
        let parts = self.sql_parts.iter().flatten();
        let bytes =
            parts.map(|(text, times)| text.len().saturating_mul(*times)).fold(0, usize::saturating_add);
        match (&self.sql, &self.sql_parts) {
            (None, None) => Err("has neither `sql` nor `sql_parts`".to_owned()),
            (Some(_), Some(_)) => Err("has both `sql` and `sql_parts`; keep one".to_owned()),
            _ if bytes > MAX_STATEMENT => {
                Err(format!("its parts add up to {bytes} bytes; the limit is {MAX_STATEMENT}"))
            }
            _ => Ok(()),
        }
    }
}

/// A line of the file that cannot be read as a line of a corpus.
#[derive(Clone, Debug)]
pub(super) struct Unreadable {
    /// The line's own id if it has one that is not taken, else `line N`.
    pub(super) id: String,
    pub(super) why: String,
}

/// Reads every line. One that cannot be read does not prevent the others from running.
///
/// # Errors
/// If the file cannot be read or has no lines.
pub(super) fn read(path: &Path) -> Result<Vec<Result<Line, Unreadable>>, Failure> {
    let bytes = bytes(path)?;
    let mut ids = std::collections::BTreeSet::new();
    let mut lines = Vec::new();
    let texts = bytes.split(|byte| *byte == b'\n').enumerate();
    for (index, text) in texts.filter(|(_, line)| !line.trim_ascii().is_empty()) {
        let read = serde_json::from_slice(text).map_err(|error| error.to_string()).and_then(|line: Line| {
            line.check()?;
            Ok(line)
        });
        let read = match read {
            Ok(line) if ids.contains(&line.id) => Err("another line has the same id".to_owned()),
            read => read,
        };
        let read = read.map_err(|why| {
            let id = serde_json::from_slice(text).ok().map(|Named { id }| id).filter(|id| !ids.contains(id));
            Unreadable { id: id.unwrap_or_else(|| format!("line {}", index + 1)), why }
        });
        ids.insert(read.as_ref().map_or_else(|line| line.id.clone(), |line| line.id.clone()));
        lines.push(read);
    }
    if lines.is_empty() {
        return Err(Failure::invalid(format!("{} has no lines", path.display())));
    }
    Ok(lines)
}

/// The id of a line that is otherwise malformed.
#[derive(Deserialize)]
struct Named {
    id: String,
}

/// Reads a file.
///
/// # Errors
/// If it cannot be read or is over 256 MiB.
pub(super) fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    let failed = |error| Failure::File(format!("{} cannot be read", path.display()), error);
    let mut bytes = Vec::new();
    let file = std::fs::File::open(path).map_err(failed)?;
    file.take(MAX_FILE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if u64::try_from(bytes.len()).unwrap_or(u64::MAX) > MAX_FILE {
        return Err(Failure::invalid(format!("{} is over {MAX_FILE} bytes", path.display())));
    }
    Ok(bytes)
}

/// Reads a text file.
///
/// # Errors
/// As [`bytes`], and if it is not UTF-8.
pub(super) fn text(path: &Path) -> Result<String, Failure> {
    String::from_utf8(bytes(path)?).map_err(|_| Failure::invalid(format!("{} is not UTF-8", path.display())))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(text: &str) -> Result<Line, String> {
        let line: Line = serde_json::from_str(text).map_err(|error| error.to_string())?;
        line.check().map(|()| line)
    }

    #[test]
    fn parts_are_repeated_and_joined() {
        let line =
            line(r#"{"id":"a","op":"query","sql":null,"sql_parts":[["SELECT 1",1],["+1",3]],"why":"deep"}"#)
                .unwrap();
        assert_eq!(line.sql(), "SELECT 1+1+1+1");
        assert_eq!((line.op, line.expect, line.is_optional()), (Op::Query, None, false));
    }

    #[test]
    fn a_line_without_a_statement_or_with_too_long_a_one_is_refused() {
        for bad in [
            r#"{"id":"a","op":"exec"}"#,
            r#"{"id":"a","op":"exec","sql":"x","sql_parts":[]}"#,
            r#"{"id":"a","op":"run","sql":"x"}"#,
            r#"{"id":"a","op":"exec","sql":"x","expect":"perhaps"}"#,
            r#"{"id":"a","op":"exec","sql_parts":[["xxxxxxxx",99999999]]}"#,
        ] {
            assert!(line(bad).is_err(), "{bad}");
        }
    }
}
