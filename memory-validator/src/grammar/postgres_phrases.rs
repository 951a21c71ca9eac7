//! PostgreSQL phrases that the portable grammar does not know and that do not affect what a statement may reach: read
//! as blank, or as an equivalent.
//!
//! Only this grammar ever sees the rewritten text. Each phrase is recognised by its whole sequence of bare words and by
//! what precedes it. A phrase in a place where the engine does not expect it makes the rest unreadable to one of the
//! two, and so refused.

use super::postgres_reading::{Plain, Reading};
use crate::gate::token::{Kind, Lexed};
use crate::policy::Dialect;
use crate::policy::postgres::OF_SEQUENCES;

/// The text as this grammar can read it; `None` where nothing is in the way.
pub(super) fn plain(lexed: &Lexed<'_>) -> Option<Plain> {
    if lexed.dialect != Dialect::Postgres || lexed.over.is_some() {
        return None;
    }
    let mut reading = Reading::new(lexed)?;
    reading.tail();
    reading.columns_of_query();
    let mut at = 0;
    while at < reading.ends {
        let length = reading.phrase(at);
        at += length.max(1);
    }
    reading.plain()
}

impl Reading<'_, '_> {
    /// Phrases at the end of a definition.
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

    /// Rewrites one phrase; returns how many tokens it has.
    fn phrase(&mut self, at: usize) -> usize {
        let Some(token) = self.lexed.at(at) else { return 1 };
        match token.kind {
            Kind::Operator if matches!(self.text(at), "<+>" | "*=" | "*<>" | "*<" | "*>" | "*<=" | "*>=") => {
                self.put(at, 1, "<->")
            }
            // `nextval('s'::regclass)`: the gate has read the literal.
            Kind::Operator
                if self.lexed.text(token) == "::"
                    && at >= 3
                    && self.one_of(at - 3, OF_SEQUENCES)
                    && self.mark(at - 2, "(")
                    && self.after_kind(at, &[Kind::Text])
                    && self.one_of(at + 1, &["regclass"]) =>
            {
                self.put(at, 2, "")
            }
            Kind::Operator
                if self.is_root(at) && at + 1 < self.ends && self.lexed.is(at + 1, Kind::Number) =>
            {
                self.put(at, 1, "+")
            }
            // Also as prefix operators, which this grammar does not have.
            Kind::Operator if matches!(self.text(at), "?-" | "?|") => self.put(at, 1, "+"),
            Kind::Number if self.is_of_another_base(at) => self.put(at, 1, "0"),
            Kind::Open if self.lexed.text(token) == "[" => self.subscripts(at),
            Kind::Open => self.class_options(at),
            Kind::Dot if self.after_kind(at, &[Kind::Close]) && self.mark(at + 1, "*") => self.put(at, 2, ""),
            // After a bracket, a number would start here.
            Kind::Dot if self.text(at + 1).starts_with('_') => {
                self.put(at + 1, 1, self.text(at + 1).to_owned());
                0
            }
            Kind::Quoted => self.typed(at),
            Kind::Word => {
                let word = self.lexed.text(token).to_ascii_lowercase();
                match self.typed(at) + self.expression(at, &word) + self.definition(at, &word) {
                    0 => self.word(at, &word),
                    length => length,
                }
            }
            _ => 0,
        }
    }

    fn word(&mut self, at: usize, word: &str) -> usize {
        let defines = self.one_of(0, &["create", "alter"]);
        // In the place of a name these are names.
        let named = self.after_kind(at, &[Kind::Open, Kind::Comma, Kind::Dot]);
        let phrase = match word {
            // Reserved: neither an unquoted name nor part of `FETCH FIRST 3 ROWS ONLY` after these.
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
            "overriding" if self.one_of(0, &["insert", "with", "merge"]) => "overriding system|user value",
            "default" if self.after(at, &["insert"]) && self.one_of(at + 1, &["values"]) => {
                return self.put(at, 2, "values (default)");
            }
            "conflict" if self.after(at, &["on"]) => return self.conflict(at),
            "returning" => return self.returned(at),
            "fetch" => return self.fetch(at),
            "in" => return self.queries_in_list(at),
            "using" => return self.joined(at),
            "variadic" if named => "variadic",
            "with" | "without" if self.one_of(at + 1, &["unique"]) => "with|without unique ?keys",
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

    /// `0x1F`, `0o17`, `0b1`: no decision depends on the size of a number.
    fn is_of_another_base(&self, at: usize) -> bool {
        self.lexed.at(at).is_some_and(|token| {
            matches!(
                self.lexed.text(token).as_bytes(),
                [b'0', b'x' | b'X' | b'o' | b'O' | b'b' | b'B', _, ..]
            )
        })
    }

    /// `f() AS (a int, b text)`: columns and types without a name; not a common table expression or a table made from a
    /// query, `(a) AS (SELECT …)`.
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

    /// `SEARCH DEPTH FIRST BY a, b SET c`, `CYCLE a, b SET c TO 1 DEFAULT 0 USING d`, after a common table expression.
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

    /// `ON CONFLICT (lower(a)) WHERE b DO …`: the inference clause is read like the values that are set.
    fn conflict(&mut self, at: usize) -> usize {
        let Some(close) = self.close(at + 1).filter(|_| self.mark(at + 1, "(")) else { return 0 };
        let filters = self.one_of(close + 1, &["where"]);
        if self.names(at + 1) == Some(close - at) && !filters {
            return 0;
        }
        let mut action = close + 1;
        while filters && action < self.ends && !self.one_of(action, &["do", "conflict"]) {
            action = self.close(action).filter(|_| self.lexed.is(action, Kind::Open)).unwrap_or(action) + 1;
        }
        let nothing = self.words(action, "do nothing");
        let Some(length) = nothing.or_else(|| self.words(action, "do update set")) else { return 0 };
        self.put(at + 1, 0, "do update set _c =");
        if filters {
            self.put(close + 1, 1, ", _w =");
        }
        self.put(action, length, if nothing.is_some() { "" } else { "," });
        0
    }

    /// `RETURNING WITH (OLD AS o, NEW AS n) o.a`.
    fn returned(&mut self, at: usize) -> usize {
        let Some(close) = self.close(at + 2).filter(|_| self.one_of(at + 1, &["with"])) else { return 0 };
        let named = self.inside(at + 2);
        let plain = self.mark(at + 2, "(")
            && named.iter().all(|at| self.name(*at) || self.mark(*at, "(") || self.mark(*at, ","));
        if plain {
            self.put(at + 1, close - at, "");
        }
        0
    }

    /// `FETCH FIRST (a + b) ROWS ONLY`: a limit.
    fn fetch(&mut self, at: usize) -> usize {
        let Some(close) = self.close(at + 2).filter(|_| self.mark(at + 2, "(")) else { return 0 };
        let rows = self
            .words(close + 1, "row|rows only")
            .or_else(|| self.words(close + 1, "row|rows with ties"))
            .filter(|_| self.words(at, "fetch first|next").is_some());
        if let Some(rows) = rows {
            self.put(at, 2, "limit");
            self.put(close + 1, rows, "");
        }
        0
    }

    /// `a IN ((SELECT b), c)`: a list whose first value is a query.
    fn queries_in_list(&mut self, at: usize) -> usize {
        let is_query = self.mark(at + 1, "(")
            && self.mark(at + 2, "(")
            && self.one_of(at + 3, &["select", "with", "values", "table"]);
        if is_query && self.close(at + 2).is_some_and(|close| self.mark(close + 1, ",")) {
            self.put(at + 2, 0, "null,");
        }
        0
    }

    /// `JOIN t USING (a) AS j`: a name for the columns that are joined by.
    fn joined(&mut self, at: usize) -> usize {
        if let Some(length) = self.names(at + 1)
            && self.one_of(at + 1 + length, &["as"])
            && self.name(at + 2 + length)
        {
            self.put(at + 1 + length, 2, "");
        }
        0
    }

    /// `SET a[1] = …`, `SET j['k']['l'] = …`, `INSERT INTO t (a[1:2])`: a part of a column, chosen by a value.
    fn subscripts(&mut self, open: usize) -> usize {
        if !(open >= 2 && self.name(open - 1)) {
            return 0;
        }
        let mut at = open;
        while self.mark(at, "[") {
            let mut end = at + 1;
            while self.literal(end) || self.mark(end, ":") || self.mark(end, "-") {
                end += 1;
            }
            if end == at + 1 || !self.mark(end, "]") {
                return 0;
            }
            at = end + 1;
        }
        let set = self.after(open - 1, &["set"]) || self.after_kind(open - 1, &[Kind::Comma]);
        let listed = self.one_of(0, &["insert"]) && self.after_kind(open - 1, &[Kind::Comma, Kind::Open]);
        let column = set && self.mark(at, "=") || listed && (self.mark(at, ",") || self.mark(at, ")"));
        if column { self.put(open, at - open, "") } else { 0 }
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
        let text = plain(&lexed).map_or_else(|| sql.to_owned(), |plain| plain.text);
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn phrases_that_decide_nothing_are_read_away() {
        for (sql, expected) in [
            ("CREATE TABLE a AS TABLE b WITH NO DATA;", "CREATE TABLE a AS select * from b ;"),
            ("CREATE VIEW v AS SELECT 1 WITH LOCAL CHECK OPTION", "CREATE VIEW v AS SELECT 1"),
            ("CREATE TABLE a (x, \"y\") AS VALUES (1, 2)", "CREATE TABLE a AS VALUES (1, 2)"),
            ("CREATE TABLE a (x int UNIQUE NULLS NOT DISTINCT)", "CREATE TABLE a (x int UNIQUE )"),
            (
                "CREATE TABLE a (LIKE b INCLUDING ALL EXCLUDING INDEXES)",
                "CREATE TABLE a ( foreign key (_c) references b )",
            ),
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
            ("SELECT a ISNULL, b NOTNULL", "SELECT a is null , b is not null"),
            ("SELECT trim(both from a), substring(a from 2 for 3)", "SELECT trim( a), substring(a , 2 , 3)"),
            ("SELECT inet '::1' << s.t 'x'", "SELECT cast('::1' as inet) << cast('x' as s.t)"),
            ("SELECT 1 GROUP BY DISTINCT a, ROLLUP (b)", "SELECT 1 GROUP BY a, ROLLUP (b)"),
            (
                "SELECT 1 GROUP BY GROUPING SETS (CUBE (a), GROUPING SETS ((b), ()))",
                "SELECT 1 GROUP BY GROUPING SETS ( (a), (b), () )",
            ),
            (
                "INSERT INTO a VALUES (1) ON CONFLICT (f(b)) WHERE c DO NOTHING",
                "INSERT INTO a VALUES (1) ON CONFLICT do update set _c = (f(b)) , _w = c",
            ),
            (
                "SELECT json_value(a, 'p' PASSING b AS c RETURNING int)",
                "SELECT json_value(a, 'p' , b , null:: int)",
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
            "SELECT count(*) AS isnull, t.isnull, isnull(1) FROM t",
            "SELECT cube(1), rollup(2), 1 GROUP BY GROUPING SETS ((cube(1)), f(rollup(2)))",
            "SELECT trim(a), substring(a, 2), date '2024-01-01', interval '1' day",
            "SELECT f(a = 1), a IN (b, c), t.substring(a)",
            "WITH a(x) AS (SELECT y FROM t) SELECT 1",
            "SELECT a || 4, |/ x",
            "WITH a AS (SELECT 1) CYCLE a SET b TO f(1) DEFAULT 0 USING p SELECT 1",
            "SELECT 'FROM ONLY a', \"only\" FROM b -- FROM ONLY c",
        ] {
            assert_eq!(read(sql), sql.split_whitespace().collect::<Vec<_>>().join(" "), "{sql}");
        }
    }
}
