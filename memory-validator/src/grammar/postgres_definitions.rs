//! Parts of definitions that the portable grammar does not know and that decide nothing, or the same as another part.

use super::postgres_reading::Reading;
use crate::gate::token::Kind;

impl Reading<'_, '_> {
    /// Reads a part of CREATE, ALTER or COMMENT that starts with a word; returns how many tokens were consumed.
    pub(super) fn definition(&mut self, at: usize, word: &str) -> usize {
        let creates = self.one_of(0, &["create"]);
        let alters = self.one_of(0, &["alter"]);
        if self.after_kind(at, &[Kind::Dot]) {
            return 0;
        }
        let phrase = match word {
            "comment" if at == 0 => return self.comment(),
            _ if !creates && !alters => return 0,
            "identity" => return self.identity(at),
            "national" => "national",
            "virtual" if self.after_kind(at, &[Kind::Close]) => return self.put(at, 1, "stored"),
            "without" => "without overlaps",
            "delete" if self.after(at, &["on"]) => return self.columns_set_by(at),
            "with" if self.mark(at + 1, "(") => return self.options(at + 1),
            "like" if creates && self.after_kind(at, &[Kind::Open, Kind::Comma]) => return self.like(at),
            "of" if creates && self.names_table(at) => return self.of_type(at),
            "constraint" if alters && self.after(at, &["add"]) => return self.not_null(at),
            "partition" if creates && self.one_of(at + 1, &["of"]) => return self.columns_of_part(at + 2),
            "alter" if at == 0 => return self.altered(),
            "alter" => return self.alter_column(at),
            "attribute" if alters && self.after(at, &["add", "drop", "alter", "rename"]) => {
                return self.put(at, 1, "column");
            }
            "reset" if self.names(at + 1).is_some() => return self.reset(at),
            _ => return 0,
        };
        let before = if word == "national" { self.one_of(at + 1, &["char", "character"]) } else { true };
        self.words(at, phrase).filter(|_| before).map_or(0, |length| self.put(at, length, ""))
    }

    /// `COMMENT ON CONSTRAINT c ON t`: a comment on a part of the table.
    fn comment(&mut self) -> usize {
        if self.words(0, "comment on constraint").is_some() && self.name(3) && self.one_of(4, &["on"]) {
            self.put(2, 3, "table");
        }
        0
    }

    /// `IDENTITY (START WITH 10 INCREMENT BY 5)`: words and numbers.
    fn identity(&mut self, at: usize) -> usize {
        const WORDS: &[&str] =
            &["start", "restart", "with", "increment", "by", "minvalue", "maxvalue", "no", "cache", "cycle"];
        let Some(close) = self.close(at + 1).filter(|_| self.mark(at + 1, "(")) else { return 0 };
        let plain = (at + 2..close).all(|at| {
            self.one_of(at, WORDS)
                || self.lexed.is(at, Kind::Number)
                || self.mark(at, "-")
                || self.mark(at, "+")
        });
        if plain { self.put(at + 1, close - at, "") + 1 } else { 0 }
    }

    /// `ON DELETE SET NULL (a, b)`: which columns are set.
    fn columns_set_by(&mut self, at: usize) -> usize {
        if self.words(at, "delete set null|default").is_some()
            && let Some(length) = self.names(at + 3)
        {
            self.put(at + 3, length, "");
        }
        0
    }

    /// `WITH (fillfactor = 70)` after a key, `WITH (security_barrier)`.
    fn options(&mut self, open: usize) -> usize {
        let of_key = self.after_kind(open - 1, &[Kind::Close]) || self.after(open - 1, &["unique", "key"]);
        let filled = self.one_of(open + 1, &["fillfactor"]) && self.mark(open + 2, "=");
        if of_key && filled && self.lexed.is(open + 3, Kind::Number) && self.mark(open + 4, ")") {
            return self.put(open - 1, 6, "");
        }
        for at in self.inside(open) {
            let alone = self.lexed.is(at + 1, Kind::Comma) || self.lexed.is(at + 1, Kind::Close);
            if alone && self.name(at) && self.after_kind(at, &[Kind::Open, Kind::Comma]) {
                self.put(at + 1, 0, "= true");
            }
        }
        0
    }

    /// `(LIKE t, a int)`, which the portable grammar knows only without other columns: another table is read.
    fn like(&mut self, at: usize) -> usize {
        self.put(at, 1, "foreign key (_c) references")
    }

    /// Whether `CREATE TABLE t` comes before a word.
    fn names_table(&self, at: usize) -> bool {
        let Some(name) = self.words(0, "create ?unlogged table ?if ?not ?exists") else { return false };
        self.name(name) && at == name + if self.mark(name + 1, ".") { 3 } else { 1 }
    }

    /// `CREATE TABLE t OF a (b PRIMARY KEY)`: a table with a column of the type.
    fn of_type(&mut self, at: usize) -> usize {
        let length = if self.mark(at + 2, ".") { 3 } else { 1 };
        let name: String = (at + 1..=at + length).map(|part| self.text(part)).collect();
        if self.mark(at + 1 + length, "(") {
            self.columns_of_part(at + 1);
            return self.put(at, length + 2, format!("(_c {name},"));
        }
        self.put(at, length + 1, format!("(_c {name})"))
    }

    /// `ADD CONSTRAINT n NOT NULL a`: a constraint on a column of the table's.
    fn not_null(&mut self, at: usize) -> usize {
        if self.name(at + 1) && self.words(at + 2, "not null").is_some() && self.name(at + 4) {
            self.put(at + 2, 3, "check (true)");
        }
        0
    }

    /// `PARTITION OF t (a NOT NULL, b WITH OPTIONS DEFAULT 1)`: columns have the types of the table's.
    fn columns_of_part(&mut self, table: usize) -> usize {
        const CONSTRAINTS: &[&str] = &["constraint", "check", "unique", "primary", "foreign", "exclude"];
        let open = table + if self.mark(table + 1, ".") { 3 } else { 1 };
        if self.mark(open, "(") {
            for at in self.inside(open) {
                let first = self.after_kind(at, &[Kind::Open, Kind::Comma]) && self.name(at);
                if first && !self.one_of(at, CONSTRAINTS) {
                    let length = self.words(at + 1, "with options").unwrap_or_default();
                    self.put(at + 1, length, "int");
                }
            }
        }
        0
    }

    /// `ALTER VIEW`, `ALTER TYPE … ATTRIBUTE`: read as for a table, which the engine allows too.
    fn altered(&mut self) -> usize {
        let kind = self.words(1, "materialized view").or_else(|| self.words(1, "view|index"));
        let attributes = self.one_of(1, &["type"])
            && (2..self.ends.min(8)).any(|at| {
                self.one_of(at, &["add", "drop", "alter", "rename"]) && self.one_of(at + 1, &["attribute"])
            });
        match kind {
            Some(length) => self.put(1, length, "table"),
            None if attributes => {
                if self.one_of(self.ends - 1, &["cascade", "restrict"]) {
                    self.put(self.ends - 1, 1, "");
                }
                self.put(1, 1, "table")
            }
            None => 0,
        };
        0
    }

    /// `ALTER COLUMN c SET STORAGE MAIN` and the like: as if its default were dropped.
    fn alter_column(&mut self, at: usize) -> usize {
        const CHANGES: &[&str] = &[
            "set storage plain|external|extended|main|default",
            "set compression pglz|lz4|default",
            "set statistics default",
            "drop identity if exists",
            "drop identity",
            "drop expression if exists",
            "drop expression",
        ];
        if self.one_of(at + 1, &["constraint"]) && self.name(at + 2) {
            let words = "?not ?deferrable ?initially ?deferred|immediate ?not ?enforced";
            let length = self.words(at + 3, words).unwrap_or_default();
            self.put(at, 1, "validate");
            self.put(at + 3, length, "");
            return 0;
        }
        let name = at + 1 + usize::from(self.one_of(at + 1, &["column"]));
        let change = name + 1;
        if !self.name(name) {
            return 0;
        }
        if self.words(change, "set expression as").is_some() {
            return self.put(change, 3, "set default");
        }
        let length = CHANGES
            .iter()
            .find_map(|phrase| self.words(change, phrase))
            .or_else(|| self.words(change, "set statistics").and_then(|length| self.signed(change + length)))
            .or_else(|| self.sequence_changes(change));
        match length {
            Some(length) => self.put(change, length, "drop default"),
            None => 0,
        };
        0
    }

    /// The tokens from a change on to the end of a number: `SET STATISTICS -1`.
    fn signed(&self, number: usize) -> Option<usize> {
        let sign = usize::from(self.mark(number, "-"));
        self.lexed.is(number + sign, Kind::Number).then_some(2 + sign + 1)
    }

    /// `SET GENERATED ALWAYS SET INCREMENT BY 2 RESTART WITH 5`.
    fn sequence_changes(&self, first: usize) -> Option<usize> {
        let mut at = first;
        while at < self.ends {
            let set = usize::from(self.one_of(at, &["set"]));
            if set == 0 && !self.one_of(at, &["restart"]) {
                break;
            }
            let of = ["generated always", "generated by default", "no minvalue|maxvalue|cycle", "cycle"]
                .iter()
                .find_map(|phrase| self.words(at + set, phrase));
            if let Some(length) = of {
                at += set + length;
                continue;
            }
            let of = self
                .words(at + set, "increment|start|restart ?by|with")
                .or_else(|| self.words(at + set, "minvalue|maxvalue|cache"));
            let Some(length) = of else { break };
            let number = at + set + length;
            let sign = usize::from(self.mark(number, "-") || self.mark(number, "+"));
            if self.lexed.is(number + sign, Kind::Number) {
                at = number + sign + 1;
            } else if self.one_of(at + set, &["restart"]) && length == 1 {
                at = number;
            } else {
                break;
            }
        }
        (at > first).then(|| at - first)
    }

    /// `CREATE INDEX … (a gist_trgm_ops (siglen = 32))`: how a class of operators is set up.
    pub(super) fn class_options(&mut self, open: usize) -> usize {
        let is_name = |at: usize| self.lexed.at(at).is_some_and(|token| self.name(at) && token.may_name());
        let class = open >= 2 && is_name(open - 1) && is_name(open - 2) && self.mark(open + 2, "=");
        if !class || self.words(0, "create ?unique index").is_none() {
            return 0;
        }
        let Some(close) = self.close(open) else { return 0 };
        let plain = (open + 1..close).all(|at| {
            is_name(at) || self.literal(at) || self.mark(at, "=") || self.lexed.is(at, Kind::Comma)
        });
        if plain { self.put(open, close + 1 - open, "") } else { 0 }
    }

    /// `RESET (fillfactor)`, read like the form that sets it.
    fn reset(&mut self, at: usize) -> usize {
        self.put(at, 1, "set");
        for name in self.inside(at + 1) {
            if self.name(name) {
                self.put(name + 1, 0, "= 1");
            }
        }
        0
    }
}
