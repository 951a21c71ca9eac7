//! Phrases of PostgreSQL's that the portable grammar does not know and that decide nothing about what a statement may
//! reach: read as blank, or as another of the same meaning.
//!
//! What is put in their place has the same length, so that places in the text stay; only this grammar ever sees it. Each
//! phrase is known by its whole sequence of bare words and by what stands before it. A phrase in another place than the
//! engine's makes the rest unreadable to one of the two, and so refused.

use crate::gate::token::{Kind, Lexed};
use crate::policy::Dialect;

/// The text as this grammar can read it; `None` where nothing is in the way.
pub(super) fn plain(lexed: &Lexed<'_>) -> Option<String> {
    if lexed.dialect != Dialect::Postgres || lexed.over.is_some() {
        return None;
    }
    let mut reading = Reading { lexed, ends: 0, places: Vec::new() };
    reading.ends = lexed.tokens.iter().rposition(|token| token.kind != Kind::Semicolon)? + 1;
    reading.tail();
    reading.columns_of_query();
    let mut at = 0;
    while at < reading.ends {
        let length = reading.phrase(at);
        at += length.max(1);
    }
    (!reading.places.is_empty()).then(|| reading.text())
}

/// A run of tokens, and what is read in their place.
struct Place {
    from: usize,
    to: usize,
    text: &'static str,
}

struct Reading<'l, 'a> {
    lexed: &'l Lexed<'a>,
    /// Tokens without the last semicolons.
    ends: usize,
    places: Vec<Place>,
}

impl Reading<'_, '_> {
    fn one_of(&self, at: usize, words: &[&str]) -> bool {
        at < self.ends && self.lexed.is_one_of(at, words)
    }

    /// Whether the token before one is one of these bare words.
    fn after(&self, at: usize, words: &[&str]) -> bool {
        at > 0 && self.one_of(at - 1, words)
    }

    fn after_kind(&self, at: usize, kinds: &[Kind]) -> bool {
        at > 0 && kinds.iter().any(|kind| self.lexed.is(at - 1, *kind))
    }

    fn mark(&self, at: usize, mark: &str) -> bool {
        at < self.ends
            && self.lexed.at(at).is_some_and(|token| {
                !matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text | Kind::Blob)
                    && self.lexed.text(token) == mark
            })
    }

    fn name(&self, at: usize) -> bool {
        at < self.ends && (self.lexed.is(at, Kind::Word) || self.lexed.is(at, Kind::Quoted))
    }

    fn literal(&self, at: usize) -> bool {
        at < self.ends
            && (self.lexed.is(at, Kind::Text)
                || self.lexed.is(at, Kind::Number)
                || self.lexed.is(at, Kind::Parameter)
                || self.one_of(at, &["true", "false", "null"]))
    }

    /// How many tokens match a phrase of words, `a|b` for one or the other, `?a` for one that may be absent.
    fn words(&self, at: usize, phrase: &str) -> Option<usize> {
        let mut here = at;
        for words in phrase.split_whitespace() {
            let (words, may_lack) = words.strip_prefix('?').map_or((words, false), |words| (words, true));
            if words.split('|').any(|word| self.one_of(here, &[word])) {
                here += 1;
            } else if !may_lack {
                return None;
            }
        }
        Some(here - at)
    }

    fn put(&mut self, from: usize, length: usize, text: &'static str) -> usize {
        self.places.push(Place { from, to: from + length, text });
        length
    }

    /// What stands at the end of a definition.
    fn tail(&mut self) {
        if !self.one_of(0, &["create"]) {
            return;
        }
        for phrase in ["with ?no data", "with ?local|cascaded check option"] {
            let begins = (self.ends.saturating_sub(4)..self.ends)
                .find(|at| self.words(*at, phrase).is_some_and(|length| at + length == self.ends));
            if let Some(at) = begins {
                self.put(at, self.ends - at, "");
            }
        }
    }

    /// `CREATE TABLE t (a, b) AS …`: the columns' names.
    fn columns_of_query(&mut self) {
        let Some(mut at) = self.words(0, "create ?unlogged table ?if ?not ?exists") else { return };
        if !self.name(at) {
            return;
        }
        at += if self.mark(at + 1, ".") { 3 } else { 1 };
        if let Some(length) = self.names(at).filter(|length| self.one_of(at + length, &["as"])) {
            self.put(at, length, "");
        }
    }

    /// The length of `(a, b, c)`.
    fn names(&self, open: usize) -> Option<usize> {
        let mut at = open;
        if !self.mark(at, "(") {
            return None;
        }
        loop {
            if !self.name(at + 1) {
                return None;
            }
            at += 2;
            if self.mark(at, ")") {
                return Some(at + 1 - open);
            }
            if !self.mark(at, ",") {
                return None;
            }
        }
    }

    /// Reads one phrase away, and says how many tokens it has.
    fn phrase(&mut self, at: usize) -> usize {
        let Some(token) = self.lexed.at(at) else { return 1 };
        match token.kind {
            Kind::Operator if self.lexed.text(token) == "<+>" => self.put(at, 1, "<->"),
            Kind::Operator
                if self.is_root(at) && at + 1 < self.ends && self.lexed.is(at + 1, Kind::Number) =>
            {
                self.put(at, 1, "+")
            }
            Kind::Number if self.is_of_another_base(at) => self.put(at, 1, "0"),
            Kind::Open if self.lexed.text(token) == "[" => self.subscripts(at),
            Kind::Word => {
                let word = self.lexed.text(token).to_ascii_lowercase();
                self.word(at, &word)
            }
            _ => 0,
        }
    }

    fn word(&mut self, at: usize, word: &str) -> usize {
        let defines = self.one_of(0, &["create", "alter"]);
        // Where a name stands these are names.
        let named = self.after_kind(at, &[Kind::Open, Kind::Comma, Kind::Dot]);
        let phrase = match word {
            // Reserved: no name without quotes, and no part of `FETCH FIRST 3 ROWS ONLY` behind these.
            "as" if self.defines_columns(at) => return self.put(at, 1, "_r"),
            "only"
                if self
                    .after(at, &["from", "join", "update", "table", "truncate", "on", "into", "using"])
                    || self.after_kind(at, &[Kind::Comma]) =>
            {
                return self.only(at);
            }
            "nulls" if self.after(at, &["unique"]) => "nulls ?not distinct",
            "symmetric" | "asymmetric" if self.after(at, &["between"]) => "symmetric|asymmetric",
            "recursive" if self.after(at, &["create", "replace"]) && self.one_of(at + 1, &["view"]) => {
                "recursive"
            }
            "including" | "excluding" if defines && !named => {
                "including|excluding all|comments|compression|constraints|defaults|generated|identity|indexes|statistics|storage"
            }
            "storage" if defines && !named => "storage plain|external|extended|main|default",
            "compression" if defines && !named => "compression pglz|lz4|default",
            "exclude" if self.after(at, &["row", "preceding", "following"]) => {
                return ["exclude ties|group", "exclude current row", "exclude no others"]
                    .iter()
                    .find_map(|phrase| self.words(at, phrase))
                    .map_or(0, |length| self.put(at, length, ""));
            }
            "overriding" if self.one_of(0, &["insert", "with"]) => "overriding system|user value",
            "variadic" if named => "variadic",
            "with" => "with ?conditional|unconditional ?array wrapper",
            "without" => "without ?array wrapper",
            "rows" if self.one_of(at + 1, &["from"]) && self.mark(at + 2, "(") => {
                return if self.after(at, &["from", "join", "lateral"]) || self.after_kind(at, &[Kind::Comma])
                {
                    self.put(at, 2, "unnest")
                } else {
                    0
                };
            }
            "search" | "cycle" if self.after_kind(at, &[Kind::Close]) || self.follows_place(at) => {
                return self.order(at, word).map_or(0, |length| self.put(at, length, ""));
            }
            _ => return 0,
        };
        self.words(at, phrase).map_or(0, |length| self.put(at, length, ""))
    }

    /// `|/4`, `||/4`: the square root and the cube root.
    fn is_root(&self, at: usize) -> bool {
        self.lexed.at(at).is_some_and(|token| matches!(self.lexed.text(token), "|/" | "||/"))
    }

    /// `0x1F`, `0o17`, `0b1`: nothing is decided by how large a number is.
    fn is_of_another_base(&self, at: usize) -> bool {
        self.lexed.at(at).is_some_and(|token| {
            matches!(
                self.lexed.text(token).as_bytes(),
                [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', _, ..]
            )
        })
    }

    /// `f() AS (a int, b text)`: columns and their types without a name, which a common table expression or a table made
    /// from a query, `(a) AS (SELECT …)`, is not.
    fn defines_columns(&self, at: usize) -> bool {
        self.after_kind(at, &[Kind::Close])
            && self.mark(at + 1, "(")
            && self.name(at + 2)
            && self.name(at + 3)
            && !self
                .one_of(at + 2, &["select", "with", "values", "table", "insert", "update", "delete", "merge"])
    }

    /// `ONLY t`, `ONLY (s.t)`.
    fn only(&mut self, at: usize) -> usize {
        let named = at + 2;
        let close = if self.mark(named + 1, ".") { named + 3 } else { named + 1 };
        if self.mark(at + 1, "(") && self.name(named) && self.name(close - 1) && self.mark(close, ")") {
            self.put(at, 2, "");
            self.put(close, 1, "");
            return close + 1 - at;
        }
        self.put(at, 1, "")
    }

    fn follows_place(&self, at: usize) -> bool {
        self.places.last().is_some_and(|place| place.to == at)
    }

    /// `SEARCH DEPTH FIRST BY a, b SET c`, `CYCLE a, b SET c TO 1 DEFAULT 0 USING d`, behind a common table expression.
    fn order(&self, begin: usize, word: &str) -> Option<usize> {
        let mut at =
            begin + if word == "search" { self.words(begin, "search depth|breadth first by")? } else { 1 };
        while self.name(at) && self.mark(at + 1, ",") {
            at += 2;
        }
        if !(self.name(at) && self.one_of(at + 1, &["set"]) && self.name(at + 2)) {
            return None;
        }
        at += 3;
        if word == "cycle" {
            if self.one_of(at, &["to"]) {
                if !(self.literal(at + 1) && self.one_of(at + 2, &["default"]) && self.literal(at + 3)) {
                    return None;
                }
                at += 4;
            }
            if !(self.one_of(at, &["using"]) && self.name(at + 1)) {
                return None;
            }
            at += 2;
        }
        Some(at - begin)
    }

    /// `SET a[1] = …`, `SET j['k']['l'] = …`: a part of a column, chosen by a value.
    fn subscripts(&mut self, open: usize) -> usize {
        if !(open >= 2 && self.name(open - 1)) {
            return 0;
        }
        let set = self.after(open - 1, &["set"]) || self.after_kind(open - 1, &[Kind::Comma]);
        let mut at = open;
        while self.mark(at, "[") && self.literal(at + 1) && self.mark(at + 2, "]") {
            at += 3;
        }
        if set && at > open && self.mark(at, "=") { self.put(open, at - open, "") } else { 0 }
    }

    /// The text with its phrases replaced.
    fn text(&self) -> String {
        let sql = self.lexed.sql;
        let mut text = sql.as_bytes().to_vec();
        for place in &self.places {
            let offset = |at: u32| usize::try_from(at).unwrap_or(usize::MAX);
            let begin = self.lexed.at(place.from).map_or(usize::MAX, |token| offset(token.start));
            let end = self.lexed.at(place.to.saturating_sub(1)).map_or(0, |token| offset(token.end));
            let Some(bytes) = text.get_mut(begin..end) else { continue };
            bytes.fill(b' ');
            for (byte, new) in bytes.iter_mut().zip(place.text.bytes()) {
                *byte = new;
            }
        }
        // Whole tokens are replaced, by ASCII.
        String::from_utf8(text).unwrap_or_else(|_| sql.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::plain;
    use crate::gate;
    use crate::policy::{Dialect, Limits};

    fn read(sql: &str) -> String {
        let limits = Limits::default();
        let lexed = gate::lex(sql, Dialect::Postgres, &limits).expect("within the caps");
        let text = plain(&lexed).unwrap_or_else(|| sql.to_owned());
        assert_eq!(text.len(), sql.len());
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn phrases_that_decide_nothing_are_read_away() {
        for (sql, expected) in [
            ("CREATE TABLE a AS TABLE b WITH NO DATA;", "CREATE TABLE a AS TABLE b ;"),
            ("CREATE VIEW v AS SELECT 1 WITH LOCAL CHECK OPTION", "CREATE VIEW v AS SELECT 1"),
            ("CREATE TABLE a (x, \"y\") AS VALUES (1, 2)", "CREATE TABLE a AS VALUES (1, 2)"),
            ("CREATE TABLE a (x int UNIQUE NULLS NOT DISTINCT)", "CREATE TABLE a (x int UNIQUE )"),
            ("CREATE TABLE a (LIKE b INCLUDING ALL EXCLUDING INDEXES)", "CREATE TABLE a (LIKE b )"),
            ("SELECT * FROM ONLY a x, ONLY b", "SELECT * FROM a x, b"),
            ("SELECT * FROM ONLY (s.a) x JOIN ONLY (b) ON 1", "SELECT * FROM s.a x JOIN b ON 1"),
            ("SELECT a <+> b", "SELECT a <-> b"),
            ("SELECT |/4, ||/27.0", "SELECT + 4, + 27.0"),
            ("SELECT 0x1F, 0B1_0, 10", "SELECT 0 , 0 , 10"),
            (
                "SELECT * FROM json_to_record($1) AS (a int, \"b\" text)",
                "SELECT * FROM json_to_record($1) _r (a int, \"b\" text)",
            ),
            (
                "SELECT * FROM ROWS FROM (f(1), g(2)) AS r(a, b)",
                "SELECT * FROM unnest (f(1), g(2)) AS r(a, b)",
            ),
            ("UPDATE a SET x[1] = 2, y['k'][3] = 4", "UPDATE a SET x = 2, y = 4"),
            (
                "WITH RECURSIVE r AS (SELECT 1) SEARCH DEPTH FIRST BY a, b SET o CYCLE a SET c TO 1 DEFAULT 0 USING p SELECT 1",
                "WITH RECURSIVE r AS (SELECT 1) SELECT 1",
            ),
            (
                "SELECT sum(a) OVER (ROWS 1 PRECEDING EXCLUDE CURRENT ROW)",
                "SELECT sum(a) OVER (ROWS 1 PRECEDING )",
            ),
        ] {
            assert_eq!(read(sql), expected, "{sql}");
        }
    }

    #[test]
    fn names_and_calls_are_never_read_away() {
        for sql in [
            "SELECT a FROM b WITH NO DATA",
            "SELECT exclude group FROM t",
            "CREATE TABLE a (storage external, compression lz4)",
            "SELECT * FROM a ORDER BY 1 FETCH FIRST 2 ROWS ONLY",
            "SELECT x[f(1)] = 2, y[1]",
            "UPDATE a SET x[pg_sleep(1)] = 2",
            "SELECT search depth FROM t",
            "WITH a(x) AS (SELECT y FROM t) SELECT 1",
            "WITH a(x) AS (VALUES (1)) TABLE a",
            "SELECT a || 4, |/ x",
            "WITH a AS (SELECT 1) CYCLE a SET b TO f(1) DEFAULT 0 USING p SELECT 1",
            "SELECT 'FROM ONLY a', \"only\" FROM b -- FROM ONLY c",
        ] {
            assert_eq!(read(sql), sql.split_whitespace().collect::<Vec<_>>().join(" "), "{sql}");
        }
    }
}
