//! Splits a stream of lines into statements.

use memory_core::{Error, Result};

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

/// Takes lines and returns statements, each without its `;`.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    text: String,
    /// How much is scanned.
    at: usize,
    /// The closing delimiter of the current quote or comment, and where to look for it from.
    within: Option<(&'static str, usize)>,
    state: State,
}

impl Splitter {
    /// Whether an unfinished statement is buffered.
    pub(super) fn is_waiting(&self) -> bool {
        !self.text.trim().is_empty()
    }

    /// Adds a line and returns the statements it completes.
    pub(super) fn push(&mut self, line: &str) -> Result<Vec<String>> {
        if self.text.len() + line.len() > MAX_WAITING {
            let bytes = self.text.len() + line.len();
            *self = Self::default();
            return Err(Error::too_large("statement", bytes, MAX_WAITING, "bytes"));
        }
        self.text.push_str(line);
        let mut complete = Vec::new();
        while self.step(&mut complete) {}
        Ok(complete)
    }

    /// A last statement without its `;`.
    pub(super) fn finish(self) -> Option<String> {
        let last = self.text.trim();
        (!last.is_empty()).then(|| last.to_owned())
    }

    /// Scans one token; false if more text is needed.
    fn step(&mut self, complete: &mut Vec<String>) -> bool {
        if let Some((closing, from)) = self.within {
            match self.text.get(from..).and_then(|rest| rest.find(closing)) {
                Some(found) => {
                    self.at = from + found + closing.len();
                    self.within = None;
                }
                None => {
                    // A closing delimiter of two characters may be split between reads.
                    let mut from = self.text.len().saturating_sub(closing.len() - 1).max(from);
                    while !self.text.is_char_boundary(from) {
                        from -= 1;
                    }
                    self.within = Some((closing, from));
                    return false;
                }
            }
        }
        let Some(rest) = self.text.get(self.at..) else { return false };
        let Some(first) = rest.chars().next() else { return false };
        let (length, word) = match first {
            _ if first.is_whitespace() => (first.len_utf8(), None),
            '\'' => return self.enter("'", 1),
            '"' => return self.enter("\"", 1),
            '`' => return self.enter("`", 1),
            '[' => return self.enter("]", 1),
            '-' | '/' if rest.len() < 2 => return false,
            '-' if rest.starts_with("--") => return self.enter_comment("\n"),
            '/' if rest.starts_with("/*") => return self.enter_comment("*/"),
            ';' => (1, Some(Word::Semicolon)),
            _ if first.is_alphanumeric() || first == '_' => {
                let length = rest
                    .find(|character: char| !character.is_alphanumeric() && character != '_')
                    .unwrap_or(rest.len());
                if length == rest.len() {
                    return false;
                }
                (length, Some(word(rest.get(..length).unwrap_or_default())))
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

    fn enter(&mut self, closing: &'static str, opening: usize) -> bool {
        self.state = self.state.then(Word::Other);
        self.within = Some((closing, self.at + opening));
        true
    }

    fn enter_comment(&mut self, closing: &'static str) -> bool {
        self.within = Some((closing, self.at + 2));
        true
    }
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
        let mut splitter = Splitter::default();
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
    fn what_never_ends_is_refused() {
        let mut splitter = Splitter::default();
        let line = "x".repeat(1 << 20);
        assert!((0..20).any(|_| splitter.push(&line).is_err()));
        assert!(!splitter.is_waiting());
    }

    #[test]
    fn where_lines_break_never_matters() {
        for text in [
            "SELECT 'a''b;'; -- c;\nSELECT /* ; */ [;] ; END",
            "CREATE TRIGGER t BEGIN SELECT 1; END; SELECT 2;",
            "a - b / c ; 'open",
            "/*/ ; */ x ; --",
        ] {
            let whole = split(text);
            for cut in 0..=text.len() {
                let mut splitter = Splitter::default();
                let mut found = splitter.push(&text[..cut]).unwrap();
                found.extend(splitter.push(&text[cut..]).unwrap());
                assert_eq!((found, splitter.finish()), whole, "{text} cut at {cut}");
            }
        }
    }
}
