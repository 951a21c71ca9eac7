//! Calls and expressions in the SQL standard's own words, read as calls with commas.

use sqlparser::keywords::ALL_KEYWORDS;

use super::postgres_reading::Reading;
use crate::gate::token::{Kind, Role};

impl Reading<'_, '_> {
    /// Reads an expression that starts with a word; returns how many tokens were consumed.
    pub(super) fn expression(&mut self, at: usize, word: &str) -> usize {
        let calls = self.mark(at + 1, "(");
        let attribute = self.after_kind(at, &[Kind::Dot]);
        match word {
            _ if attribute => 0,
            "trim" if calls => self.trim(at + 2),
            "substring" if calls => self.separate(at + 1, &["from", "for", "similar", "escape"]),
            "overlay" if calls => self.overlay(at + 1),
            "collation" if self.one_of(at + 1, &["for"]) => self.put(at, 2, "collation_for"),
            "json_table" if calls => self.json_table(at + 1),
            _ if calls && word.starts_with("json") => self.json(at + 1, word),
            _ if calls && word.starts_with("xml") => self.xml(at + 1, word),
            "document" if self.after(at, &["is", "not"]) => self.put(at, 1, "null"),
            // Postfix operators.
            "isnull" if self.follows_value(at) => self.put(at, 1, "is null"),
            "notnull" if self.follows_value(at) => self.put(at, 1, "is not null"),
            "local" if self.after(at, &["at"]) => self.put(at, 1, "time zone 'utc'"),
            "all" if calls && self.after(at, &["like", "ilike"]) => self.put(at, 1, "any"),
            "uescape" if self.after_kind(at, &[Kind::Text]) && self.lexed.is(at + 1, Kind::Text) => {
                self.put(at, 2, "")
            }
            "group" if self.one_of(at + 1, &["by"]) => {
                let modifier = usize::from(self.one_of(at + 2, &["distinct", "all"]));
                if modifier > 0 {
                    self.put(at + 2, 1, "");
                }
                self.grouping_sets(at + 2 + modifier, false);
                0
            }
            // After a cast, the portable grammar knows no collation.
            "collate" if self.name(at + 1) && !self.mark(at + 2, ".") => self.put(at, 2, ""),
            "preceding" | "following" if at >= 3 && self.lexed.is(at - 3, Kind::Text) => {
                if self.mark(at - 2, "::") && self.one_of(at - 1, &["interval"]) {
                    self.put(at - 2, 2, "");
                }
                0
            }
            "values" if calls && self.after_kind(at, &[Kind::Open]) => self.values(at),
            "table" if self.is_query(at) => self.put(at, 1, "select * from"),
            _ => 0,
        }
    }

    fn follows_value(&self, at: usize) -> bool {
        at > 0 && !self.after_kind(at, &[Kind::Open, Kind::Comma, Kind::Operator]) && !self.after(at, &["as"])
    }

    /// `inet '10.0.0.1'`: a name before a text is a type to the engine.
    pub(super) fn typed(&mut self, at: usize) -> usize {
        let is_text = self.lexed.is(at + 1, Kind::Text) && at + 1 < self.ends;
        let token = self.lexed.at(at).filter(|token| is_text && token.may_name());
        let known = |text: &str| ALL_KEYWORDS.binary_search(&text.to_ascii_uppercase().as_str()).is_ok();
        let Some(token) = token else { return 0 };
        let is_type = match token.kind {
            Kind::Word => {
                token.role == Role::None
                    && !self.one_of(at, &["content", "document", "version"])
                    && (!known(self.text(at)) || self.one_of(at, &["money", "name", "oid", "xml"]))
            }
            _ => true,
        };
        if !is_type {
            return 0;
        }
        let mut first = at;
        while first >= 2 && self.mark(first - 1, ".") && self.name(first - 2) {
            first -= 2;
        }
        let name: String = (first..=at).map(|part| self.text(part)).collect();
        let text = self.text(at + 1);
        self.put(first, at + 2 - first, format!("cast({text} as {name})"));
        2
    }

    /// `trim(both 'x' from y)`, `trim(from x)`: the words before the first value.
    fn trim(&mut self, first: usize) -> usize {
        let words = self.words(first, "?both|leading|trailing ?from").unwrap_or_default();
        if words > 0 {
            self.put(first, words, "");
        }
        0
    }

    /// `substring(a from 2 for 3)`, `substring(a similar b escape c)`.
    fn separate(&mut self, open: usize, words: &[&str]) -> usize {
        for at in self.inside(open) {
            let operator = self.one_of(at + 1, &["to"]) || self.after(at, &["distinct"]);
            if self.one_of(at, words) && !operator && at > open + 1 {
                self.put(at, 1, ",");
            }
        }
        0
    }

    /// `overlay(a, b, 2, 3)`; the portable grammar only knows the form with keywords.
    fn overlay(&mut self, open: usize) -> usize {
        let inside = self.inside(open);
        if !inside.iter().any(|at| self.one_of(*at, &["placing"])) {
            let commas = inside.iter().filter(|at| self.lexed.is(**at, Kind::Comma));
            for (comma, word) in commas.zip(["placing", "from", "for"]) {
                self.put(*comma, 1, word);
            }
        }
        0
    }

    /// `JSON_VALUE(a, 'p' PASSING b AS c RETURNING int DEFAULT 0 ON EMPTY)`: each value between commas.
    fn json(&mut self, open: usize, name: &str) -> usize {
        if name == "json_array" && self.one_of(open + 1, &["select", "with"]) {
            if let Some(close) = self.close(open) {
                self.put(open + 1, 0, "(");
                self.put(close, 0, ")");
            }
            return 0;
        }
        for at in self.inside(open) {
            let first = self.after_kind(at, &[Kind::Open, Kind::Comma]);
            if self.one_of(at, &["passing"]) && !first {
                self.put(at, 1, ",");
            } else if self.one_of(at, &["as"]) && self.name(at + 1) {
                self.put(at, 2, "");
            } else if self.one_of(at, &["returning"]) {
                self.put(at, 1, if first { "null::" } else { ", null::" });
            } else if self.one_of(at, &["default"]) && !first {
                self.put(at, 1, ",");
            } else if self.one_of(at, &["on"]) && self.one_of(at + 1, &["empty", "error"]) {
                self.put(at, 2, "");
            } else {
                self.json_phrase(at);
            }
        }
        0
    }

    /// Phrases that say how a JSON value is read or written.
    fn json_phrase(&mut self, at: usize) {
        const PHRASES: &[&str] = &[
            "null|error|true|false|unknown on empty|error",
            "empty ?array|object on empty|error",
            "null|absent on null",
            "format json ?encoding ?utf8|utf16|utf32",
            "keep|omit quotes on scalar string",
            "keep|omit quotes",
        ];
        if let Some(length) = PHRASES.iter().find_map(|phrase| self.words(at, phrase)) {
            self.put(at, length, "");
        }
    }

    /// `JSON_TABLE(a, 'p' AS n PASSING b AS c COLUMNS (…) ERROR ON ERROR)` as `JSON_TABLE((a, 'p', b), '$' COLUMNS (…))`.
    fn json_table(&mut self, open: usize) -> usize {
        let inside = self.inside(open);
        let columns = inside.iter().copied().find(|at| self.one_of(*at, &["columns"]));
        let passing = inside.iter().copied().find(|at| self.one_of(*at, &["passing"]));
        let (Some(columns), Some(close)) = (columns, self.close(open)) else { return 0 };
        if passing.is_some() {
            self.put(open + 1, 0, "(");
            self.put(columns, 0, "), '$'");
        }
        for at in inside.into_iter().filter(|at| *at < columns) {
            if Some(at) == passing {
                self.put(at, 1, ",");
            } else if self.one_of(at, &["as"]) && self.name(at + 1) {
                self.put(at, 2, "");
            }
        }
        for at in columns..close {
            self.json_phrase(at);
        }
        0
    }

    /// `XMLELEMENT(NAME a, XMLATTRIBUTES(b AS c), d)`, `XMLSERIALIZE(CONTENT a AS text)`.
    fn xml(&mut self, open: usize, name: &str) -> usize {
        let serializes = name == "xmlserialize";
        for at in self.inside(open) {
            let first = self.after_kind(at, &[Kind::Open]);
            if first && serializes && self.one_of(at, &["document", "content"]) {
                self.put(at, 1, "");
            } else if first && self.one_of(at, &["name"]) && self.name(at + 1) {
                let comma = usize::from(self.lexed.is(at + 2, Kind::Comma));
                self.put(at, 2 + comma, "");
            } else if self.one_of(at, &["as"]) && serializes {
                self.put(at, 1, ", null::");
            } else if self.one_of(at, &["as"]) && self.name(at + 1) {
                self.put(at, 2, "");
            } else if let Some(length) = self
                .words(at, "no indent")
                .or_else(|| self.words(at, "indent|preserve|strip ?whitespace"))
                .filter(|_| !first)
            {
                self.put(at, length, "");
            }
        }
        0
    }

    /// The list of a GROUP BY: sets in sets are lists of columns. Returns the token after it.
    fn grouping_sets(&mut self, first: usize, inner: bool) -> usize {
        let mut at = first;
        loop {
            if self.words(at, "grouping sets").is_some() && self.mark(at + 2, "(") {
                let close = self.grouping_sets(at + 3, true);
                if inner {
                    self.put(at, 3, "");
                    self.put(close, 1, "");
                }
                at = close + 1;
            } else if inner && self.one_of(at, &["rollup", "cube"]) && self.mark(at + 1, "(") {
                self.put(at, 1, "");
                at += 1;
            }
            while at < self.ends && !self.lexed.is(at, Kind::Comma) {
                let Some(token) = self.lexed.at(at) else { return at };
                match token.kind {
                    Kind::Open => at = self.close(at).unwrap_or(self.ends),
                    Kind::Close => return at,
                    Kind::Word if matches!(token.role, Role::Clause | Role::Compound) => return at,
                    _ => {}
                }
                at += 1;
            }
            if at >= self.ends {
                return at;
            }
            at += 1;
        }
    }

    /// `(VALUES (1), (2))` where the portable grammar expects a SELECT.
    fn values(&mut self, at: usize) -> usize {
        if let Some(close) = self.close(at - 1) {
            self.put(at, 0, "select * from (");
            self.put(close, 0, ")");
        }
        0
    }

    /// `TABLE t` in place of a query.
    fn is_query(&self, at: usize) -> bool {
        const BEFORE: &[&str] =
            &["all", "distinct", "union", "except", "intersect", "as", "explain", "analyze", "verbose"];
        let begins = at == 0 || self.after_kind(at, &[Kind::Open, Kind::Close]) || self.after(at, BEFORE);
        let inserts = self.one_of(0, &["insert"]) && at > 2;
        (begins || inserts) && self.name(at + 1)
    }
}
