//! Splits a stream of lines into statements, as the dialect's own command-line tool does.

use std::borrow::Cow;

use memory_core::{Error, Result, SqlDialect};

/// Longest unfinished statement, in bytes.
const MAX_WAITING: usize = 16 << 20;

/// The kind of the current statement. A trigger contains statements and ends with `; END ;`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Start,
    Normal,
    Explain,
    Create,
    Trigger,
    TriggerSemicolon,
    TriggerEnd,
}

/// The next token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Word {
    Semicolon,
    Other,
    Explain,
    Create,
    Temp,
    Trigger,
    End,
}

impl State {
    fn then(self, word: Word) -> Self {
        match (self, word) {
            (
                Self::TriggerEnd | Self::Start | Self::Normal | Self::Explain | Self::Create,
                Word::Semicolon,
            ) => Self::Start,
            (Self::Start, Word::Explain) => Self::Explain,
            (Self::Start | Self::Explain, Word::Create) => Self::Create,
            (Self::Explain, Word::Other) => Self::Explain,
            (Self::Create, Word::Temp) => Self::Create,
            (Self::Create, Word::Trigger) => Self::Trigger,
            (Self::Start | Self::Normal | Self::Explain | Self::Create, _) => Self::Normal,
            (Self::Trigger | Self::TriggerSemicolon, Word::Semicolon) => Self::TriggerSemicolon,
            (Self::TriggerSemicolon, Word::End) => Self::TriggerEnd,
            (Self::Trigger | Self::TriggerSemicolon | Self::TriggerEnd, _) => Self::Trigger,
        }
    }
}

/// An open quote or comment.
#[derive(Debug)]
struct Within {
    closing: Cow<'static, str>,
    /// Where to search for it from.
    from: usize,
    /// What opens a nested one, and how many of these are open.
    nested: Option<(&'static str, u32)>,
    /// Whether a backslash escapes the next character: `E'…'`.
    escapes: bool,
}

impl Within {
    /// Its end, or `None` if more text is needed.
    fn end(&mut self, text: &str) -> Option<usize> {
        loop {
            let rest = text.get(self.from..)?;
            let special = |character: char| self.escapes && character == '\\';
            let next = rest.char_indices().map(|(at, _)| at).find(|at| {
                let rest = rest.get(*at..).unwrap_or_default();
                rest.starts_with(self.closing.as_ref())
                    || rest.starts_with(special)
                    || self.nested.is_some_and(|(opening, _)| rest.starts_with(opening))
            });
            let Some(next) = next else {
                // A delimiter may be split between reads.
                let mut from = text.len().saturating_sub(self.closing.len() - 1).max(self.from);
                while !text.is_char_boundary(from) {
                    from -= 1;
                }
                self.from = from;
                return None;
            };
            let (found, at) = (rest.get(next..)?, self.from + next);
            if found.starts_with(special) {
                let escaped = found.chars().nth(1)?;
                self.from = at + 1 + escaped.len_utf8();
            } else if found.starts_with(self.closing.as_ref()) {
                let after = at + self.closing.len();
                match &mut self.nested {
                    Some((_, depth)) if *depth > 0 => *depth -= 1,
                    // A doubled quote stands for one quote, and what follows it may be escaped.
                    None if self.escapes => match text.get(after..)?.chars().next() {
                        None => return None,
                        Some('\'') => {
                            self.from = after + 1;
                            continue;
                        }
                        Some(_) => return Some(after),
                    },
                    _ => return Some(after),
                }
                self.from = after;
            } else {
                let (opening, depth) = self.nested.as_mut()?;
                *depth += 1;
                self.from = at + opening.len();
            }
        }
    }
}

/// Takes lines and returns statements, each without its `;`.
#[derive(Debug)]
pub(super) struct Splitter {
    dialect: SqlDialect,
    text: String,
    /// How much is scanned.
    at: usize,
    within: Option<Within>,
    state: State,
}

impl Splitter {
    /// Nothing yet.
    pub(super) fn new(dialect: Option<SqlDialect>) -> Self {
        let dialect = dialect.unwrap_or(SqlDialect::Sqlite);
        Self { dialect, text: String::new(), at: 0, within: None, state: State::default() }
    }

    /// Whether an unfinished statement is buffered.
    pub(super) fn is_waiting(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// Adds a line and returns the statements it completes.
    pub(super) fn push(&mut self, line: &str) -> Result<Vec<String>> {
        if self.text.len() + line.len() > MAX_WAITING {
            let bytes = self.text.len() + line.len();
            *self = Self::new(Some(self.dialect));
            return Err(Error::too_large("statement", bytes, MAX_WAITING, "bytes"));
        }
        self.text.push_str(line);
        let mut complete = Vec::new();
        while self.step(&mut complete) {}
        Ok(complete)
    }

    /// The last statement, if it lacks its `;`.
    pub(super) fn finish(self) -> Option<String> {
        let last = self.text.trim();
        (!last.is_empty()).then(|| last.to_owned())
    }

    /// Scans one token; false if more text is needed.
    fn step(&mut self, complete: &mut Vec<String>) -> bool {
        if let Some(within) = &mut self.within {
            let Some(end) = within.end(&self.text) else { return false };
            self.at = end;
            self.within = None;
        }
        let is_postgres = self.dialect == SqlDialect::Postgres;
        let Some(rest) = self.text.get(self.at..) else { return false };
        let Some(first) = rest.chars().next() else { return false };
        let (length, word) = match first {
            _ if first.is_whitespace() => (first.len_utf8(), None),
            '\'' => return self.enter("'", 1),
            '"' => return self.enter("\"", 1),
            '`' if !is_postgres => return self.enter("`", 1),
            '[' if !is_postgres => return self.enter("]", 1),
            '$' if is_postgres => match dollars(rest) {
                None => return false,
                Some(1) => (1, Some(Word::Other)),
                Some(tag) => {
                    let closing = rest.get(..tag).unwrap_or_default().to_owned();
                    return self.enter(closing, tag);
                }
            },
            '-' | '/' if rest.len() < 2 => return false,
            '-' if rest.starts_with("--") => return self.enter_comment("\n"),
            '/' if rest.starts_with("/*") => return self.enter_comment("*/"),
            ';' => (1, Some(Word::Semicolon)),
            _ if first.is_alphanumeric() || first == '_' => {
                let is_part = |character: char| {
                    character.is_alphanumeric() || character == '_' || (is_postgres && character == '$')
                };
                let length = rest.find(|character| !is_part(character)).unwrap_or(rest.len());
                if length == rest.len() {
                    return false;
                }
                let (text, after) = rest.split_at(length);
                if is_postgres && text.eq_ignore_ascii_case("e") && after.starts_with('\'') {
                    self.enter("'", length + 1);
                    self.within = self.within.take().map(|within| Within { escapes: true, ..within });
                    return true;
                }
                (length, Some(if is_postgres { Word::Other } else { word(text) }))
            }
            _ => (first.len_utf8(), Some(Word::Other)),
        };
        self.at += length;
        if let Some(word) = word {
            self.state = self.state.then(word);
            if word == Word::Semicolon && self.state == State::Start {
                let rest = self.text.split_off(self.at);
                let statement = std::mem::replace(&mut self.text, rest);
                let statement = statement.strip_suffix(';').unwrap_or(&statement).trim();
                if !statement.is_empty() {
                    complete.push(statement.to_owned());
                }
                self.at = 0;
            }
        }
        true
    }

    fn enter(&mut self, closing: impl Into<Cow<'static, str>>, opening: usize) -> bool {
        self.state = self.state.then(Word::Other);
        let from = self.at + opening;
        self.within = Some(Within { closing: closing.into(), from, nested: None, escapes: false });
        true
    }

    fn enter_comment(&mut self, closing: &'static str) -> bool {
        let nests = closing == "*/" && self.dialect == SqlDialect::Postgres;
        let nested = nests.then_some(("/*", 0));
        self.within = Some(Within { closing: closing.into(), from: self.at + 2, nested, escapes: false });
        true
    }
}

/// The length of the `$tag$` that opens a literal; 1 if there is none, `None` if more text is needed.
fn dollars(rest: &str) -> Option<usize> {
    let tag = rest.get(1..)?;
    let length = tag.find(|character: char| !character.is_alphanumeric() && character != '_')?;
    let is_tag =
        tag.get(length..)?.starts_with('$') && !tag.starts_with(|first: char| first.is_ascii_digit());
    Some(if is_tag { length + 2 } else { 1 })
}

fn word(text: &str) -> Word {
    let is = |keyword: &str| text.eq_ignore_ascii_case(keyword);
    match () {
        () if is("explain") => Word::Explain,
        () if is("create") => Word::Create,
        () if is("temp") || is("temporary") => Word::Temp,
        () if is("trigger") => Word::Trigger,
        () if is("end") => Word::End,
        () => Word::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(text: &str) -> (Vec<String>, Option<String>) {
        split_as(SqlDialect::Sqlite, text)
    }

    fn split_as(dialect: SqlDialect, text: &str) -> (Vec<String>, Option<String>) {
        let mut splitter = Splitter::new(Some(dialect));
        let mut found = Vec::new();
        for line in text.split_inclusive('\n') {
            found.extend(splitter.push(line).unwrap());
        }
        (found, splitter.finish())
    }

    #[test]
    fn a_semicolon_ends_a_statement_and_the_last_needs_none() {
        assert_eq!(
            split("SELECT 1; SELECT\n2;;\n SELECT 3"),
            (vec!["SELECT 1".to_owned(), "SELECT\n2".to_owned()], Some("SELECT 3".to_owned()))
        );
        assert_eq!(split(" ;\n; "), (Vec::new(), None));
    }

    #[test]
    fn quotes_and_comments_hide_semicolons() {
        for statement in [
            "SELECT 'a;b''c;'",
            "SELECT \";\", [;], `;`",
            "SELECT 1 -- no; end\n + 2",
            "SELECT /* ; \n ; */ 1",
            "SELECT 1 /* a *",
        ] {
            assert_eq!(split(statement), (Vec::new(), Some(statement.to_owned())), "{statement}");
        }
    }

    #[test]
    fn a_trigger_is_one_statement() {
        let trigger = "CREATE TEMP TRIGGER t AFTER INSERT ON a BEGIN\n  SELECT CASE 1 WHEN 1 THEN 2 END;\n DELETE FROM a;\nEND";
        assert_eq!(split(&format!("{trigger};\nSELECT 1;")).0, [trigger, "SELECT 1"]);
        assert_eq!(split("CREATE TABLE trigger_log(a); SELECT 1;").0.len(), 2);
        assert_eq!(split("EXPLAIN QUERY PLAN SELECT 1; SELECT 2;").0.len(), 2);
    }

    #[test]
    fn literals_of_postgres_hide_semicolons() {
        for statement in [
            "INSERT INTO n VALUES ($$a; DELETE FROM n; b$$)",
            "SELECT $q$ $$;\n$ ; $q $q$",
            "SELECT E'it\\'s; ' || e'\\\\' || 'a\\' || E'a'';\\';'",
            "SELECT /* a; /* b; */ c; */ 1",
            "SELECT \";\" || N';', a$b$c, $1",
        ] {
            let whole = format!("{statement};\n");
            let whole = split_as(SqlDialect::Postgres, &whole);
            assert_eq!(whole, (vec![statement.to_owned()], None), "{statement}");
        }
        for (text, count) in [
            ("SELECT a[1]; SELECT b[2];\n", 2),
            ("SELECT '\\'; SELECT 2;\n", 2),
            ("CREATE TRIGGER t; SELECT 2;\n", 2),
            ("SELECT $1; SELECT $2$3;\n", 2),
        ] {
            assert_eq!(split_as(SqlDialect::Postgres, text).0.len(), count, "{text}");
        }
    }

    #[test]
    fn what_never_ends_is_refused() {
        let mut splitter = Splitter::new(None);
        let line = "x".repeat(1 << 20);
        assert!((0..20).any(|_| splitter.push(&line).is_err()));
        assert!(!splitter.is_waiting());
    }

    #[test]
    fn where_lines_break_never_matters() {
        for (dialect, text) in [
            (SqlDialect::Sqlite, "SELECT 'a''b;'; -- c;\nSELECT /* ; */ [;] ; END"),
            (SqlDialect::Sqlite, "CREATE TRIGGER t BEGIN SELECT 1; END; SELECT 2;"),
            (SqlDialect::Sqlite, "a - b / c ; 'open"),
            (SqlDialect::Sqlite, "/*/ ; */ x ; --"),
            (SqlDialect::Postgres, "SELECT $a$ ; $b$ $a$; E'\\'';' ; /* ; /*/ ; */ ; */ x; $$ open ;"),
            (SqlDialect::Postgres, "SELECT E'a'';\\';'; a$b$c; $1; SELECT 1"),
        ] {
            let whole = split_as(dialect, text);
            for cut in 0..=text.len() {
                let mut splitter = Splitter::new(Some(dialect));
                let mut found = splitter.push(&text[..cut]).unwrap();
                found.extend(splitter.push(&text[cut..]).unwrap());
                assert_eq!((found, splitter.finish()), whole, "{text} cut at {cut}");
            }
        }
    }
}
