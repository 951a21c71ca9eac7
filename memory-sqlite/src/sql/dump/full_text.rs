//! Where a full-text index stores its texts, according to the statement that created it.

/// Where the texts are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// In the table itself.
    Own,
    /// In the table or view named by the option `content`.
    Elsewhere,
    /// Nowhere: `content=''`.
    Nowhere,
}

/// Parses the option `content` of `CREATE VIRTUAL TABLE … USING fts5(…)`.
pub(crate) fn content(sql: &str) -> Content {
    let mut words = Words(sql);
    let mut last = None;
    while let Some(word) = words.next() {
        if word == "=" && last.take().is_some_and(|name: String| name.eq_ignore_ascii_case("content")) {
            return match words.next() {
                Some(value) if !value.is_empty() && value != "," && value != ")" => Content::Elsewhere,
                _ => Content::Nowhere,
            };
        }
        last = Some(word);
    }
    Content::Nowhere
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
                let is_name = |character: char| character.is_alphanumeric() || character == '_';
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
    use super::{Content, content};

    #[test]
    fn the_option_is_found_in_any_position() {
        for (sql, expected) in [
            ("CREATE VIRTUAL TABLE f USING fts5(a, content='t', content_rowid='id')", Content::Elsewhere),
            ("CREATE VIRTUAL TABLE f USING fts5(a, content = [my table])", Content::Elsewhere),
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
}
