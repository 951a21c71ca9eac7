//! Virtual tables and their shadow tables, according to the statements that created them.

/// Where a full-text index stores its texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// In the table itself.
    Own,
    /// In the table or view named by the option `content`.
    Elsewhere,
    /// Nowhere: `content=''`.
    Nowhere,
}

/// The options of FTS5 in the order in which it compares their names; a prefix of a name is enough.
const OPTIONS: [&str; 7] = [
    "prefix",
    "tokenize",
    "content",
    "contentless_delete",
    "contentless_unindexed",
    "content_rowid",
    "columnsize",
];

/// The suffixes that a virtual table's module reserves for its shadow tables.
pub(super) fn reserved(sql: &str) -> &'static [&'static str] {
    match module(sql).as_str() {
        "fts5" => &["data", "idx", "content", "docsize", "config"],
        "rtree" | "rtree_i32" => &["node", "rowid", "parent"],
        _ => &[],
    }
}

/// Whether `table` is a shadow table that the virtual table of this name and statement made.
pub(crate) fn has_made(name: &str, sql: &str, table: &str) -> bool {
    let Some((base, suffix)) = table.rsplit_once('_') else { return false };
    let suffix = suffix.to_ascii_lowercase();
    base.eq_ignore_ascii_case(name)
        && reserved(sql).contains(&suffix.as_str())
        && match suffix.as_str() {
            "content" => content(sql) == Content::Own || option(sql, "contentless_unindexed").is_some(),
            "docsize" => option(sql, "columnsize").is_none_or(|value| value != "0"),
            _ => true,
        }
}

/// The option `content` of `CREATE VIRTUAL TABLE … USING fts5(…)`; [`Content::Own`] for any other module.
pub(crate) fn content(sql: &str) -> Content {
    if module(sql) != "fts5" {
        return Content::Own;
    }
    match option(sql, "content").as_deref() {
        None => Content::Own,
        Some("" | "," | ")") => Content::Nowhere,
        Some(_) => Content::Elsewhere,
    }
}

/// The module in lower case. SQLite keeps the statement as `CREATE VIRTUAL TABLE name USING module(…)`.
fn module(sql: &str) -> String {
    Words(sql).nth(5).unwrap_or_default().to_ascii_lowercase()
}

/// The value of an option of FTS5.
fn option(sql: &str, wanted: &str) -> Option<String> {
    let mut words = Words(sql);
    let mut last = String::new();
    loop {
        let word = words.next()?;
        let name = last.to_ascii_lowercase();
        if word == "=" && OPTIONS.iter().find(|option| option.starts_with(&name)) == Some(&wanted) {
            return Some(words.next().unwrap_or_default());
        }
        last = word;
    }
}

/// Names, quoted or not, and single other characters, without white space and comments.
struct Words<'a>(&'a str);

impl Words<'_> {
    fn skip(&mut self) {
        loop {
            self.0 = self.0.trim_start();
            if let Some(rest) = self.0.strip_prefix("--") {
                self.0 = rest.find('\n').and_then(|at| rest.get(at..)).unwrap_or_default();
            } else if let Some(rest) = self.0.strip_prefix("/*") {
                self.0 = rest.find("*/").and_then(|at| rest.get(at + 2..)).unwrap_or_default();
            } else {
                return;
            }
        }
    }
}

impl Iterator for Words<'_> {
    type Item = String;

    fn next(&mut self) -> Option<String> {
        self.skip();
        let mut characters = self.0.char_indices();
        let (_, first) = characters.next()?;
        let close = match first {
            '\'' | '"' | '`' => first,
            '[' => ']',
            _ => {
                let is_name = |character: char| {
                    character.is_ascii_alphanumeric() || "_$".contains(character) || !character.is_ascii()
                };
                let end = if is_name(first) {
                    self.0.find(|character| !is_name(character)).unwrap_or(self.0.len())
                } else {
                    first.len_utf8()
                };
                let (word, rest) = self.0.split_at(end);
                self.0 = rest;
                return Some(word.to_owned());
            }
        };
        let mut word = String::new();
        while let Some((at, character)) = characters.next() {
            if character != close {
                word.push(character);
            } else if close != ']' && self.0.get(at + 1..).is_some_and(|rest| rest.starts_with(close)) {
                word.push(close);
                characters.next();
            } else {
                self.0 = self.0.get(at + 1..).unwrap_or_default();
                return Some(word);
            }
        }
        self.0 = "";
        Some(word)
    }
}

#[cfg(test)]
mod tests {
    use super::{Content, content, has_made};

    #[test]
    fn the_option_is_found_in_any_position() {
        for (sql, expected) in [
            ("CREATE VIRTUAL TABLE f USING fts5(a, content='t', content_rowid='id')", Content::Elsewhere),
            ("CREATE VIRTUAL TABLE f USING fts5(a, content = [my table])", Content::Elsewhere),
            ("CREATE VIRTUAL TABLE content USING fts5(content, tokenize='content = x')", Content::Own),
            ("CREATE VIRTUAL TABLE f$ü☃ USING fts5(a, c='')", Content::Nowhere),
            ("CREATE VIRTUAL TABLE f USING rtree(a, b, c)", Content::Own),
            ("CREATE VIRTUAL TABLE \"content='x'\" USING fts5(a, content=\"\")", Content::Nowhere),
            (
                "CREATE VIRTUAL TABLE f USING fts5(a, /* content=t */ content='', contentless_delete=1)",
                Content::Nowhere,
            ),
            ("CREATE VIRTUAL TABLE f USING fts5(a, -- content=t\n CONTENT=`t``2`)", Content::Elsewhere),
        ] {
            assert_eq!(content(sql), expected, "{sql}");
        }
    }
    #[test]
    fn its_shadow_tables_are_those_that_it_made() {
        for (sql, made) in [
            ("CREATE VIRTUAL TABLE a USING fts5(content)", "data idx content docsize config"),
            (
                "CREATE VIRTUAL TABLE \"a\" USING FTS5(x, CONT='t', columnsize = '1')",
                "data idx docsize config",
            ),
            ("CREATE VIRTUAL TABLE a /* USING b */ USING fts5(x, content='', col=0)", "data idx config"),
            (
                "CREATE VIRTUAL TABLE a USING \"fts5\"(x, content='', contentless_unindexed=1)",
                "data idx content docsize config",
            ),
            ("CREATE VIRTUAL TABLE a USING rtree(id, x, y)", "node rowid parent"),
        ] {
            let all = "data idx content docsize config node rowid parent";
            let found: Vec<_> =
                all.split(' ').filter(|suffix| has_made("A", sql, &format!("a_{suffix}"))).collect();
            assert_eq!(found.join(" "), made, "{sql}");
            assert!(!has_made("a", sql, "b_data") && !has_made("a", sql, "a_b_data"), "{sql}");
        }
    }
}
