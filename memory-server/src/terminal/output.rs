//! What a command prints: text for a person or JSON for a program, never both on one stream.

use std::borrow::Cow;
use std::io::{self, IsTerminal as _, Write};

use serde::Serialize;

use super::failure::Failure;

/// Standard output.
pub struct Out {
    json: bool,
    terminal: bool,
    colour: bool,
    writer: Box<dyn Write + Send>,
}

impl Out {
    /// Standard output; colour on a terminal only, and not where `NO_COLOR` is set.
    pub fn standard(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            terminal,
            colour: terminal && !no_colour && !dumb && !json,
            writer: Box::new(io::BufWriter::new(io::stdout())),
        }
    }

    /// Whether output is JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a JSON document in one line. If a fallback answered, an object names it in `fallback`; anything else, such as
    /// the `null` for an entry that is not there, becomes the `answer` of one.
    pub fn document<T: Serialize + ?Sized>(&mut self, document: &T) -> Result<(), Failure> {
        let Some(who) = memory::fallback::fell_back() else {
            serde_json::to_writer(&mut self.writer, document)
                .map_err(|error| Failure::Output(error.into()))?;
            return self.bytes(b"\n");
        };
        let text = serde_json::to_string(document).map_err(|error| Failure::Output(error.into()))?;
        let who = serde_json::to_string(&who).map_err(|error| Failure::Output(error.into()))?;
        match text.strip_suffix('}') {
            Some("{") => self.bytes(format!("{{\"fallback\":{who}}}").as_bytes())?,
            Some(members) => self.bytes(format!("{members},\"fallback\":{who}}}").as_bytes())?,
            None => self.bytes(
                format!("{{\"answer\":{text},\"source\":\"fallback\",\"fallback\":{who}}}").as_bytes(),
            )?,
        }
        self.bytes(b"\n")
    }

    /// Writes a line of text, safe for a terminal.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        let text = printable(text.as_ref(), "\n\t");
        self.writer.write_all(text.as_bytes()).map_err(Failure::Output)?;
        self.bytes(b"\n")
    }

    /// Writes a line of stored text: exactly, unless a terminal would act on it.
    pub fn raw_line(&mut self, text: &str) -> Result<(), Failure> {
        if self.terminal {
            return self.line(text);
        }
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Failure> {
        self.writer.write_all(bytes).map_err(Failure::Output)
    }

    /// The writer, for modules that print directly.
    pub fn writer(&mut self) -> &mut (dyn Write + Send) {
        &mut *self.writer
    }

    /// Writes what is buffered.
    pub fn flush(&mut self) -> Result<(), Failure> {
        self.writer.flush().map_err(Failure::Output)
    }

    /// Prints rows under a header, columns aligned; the last column is never cut.
    pub fn table<const N: usize>(&mut self, head: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
        let rows: Vec<[Cow<'_, str>; N]> =
            rows.iter().map(|row| row.each_ref().map(|cell| printable(cell, ""))).collect();
        let mut widths = head.map(width);
        for row in &rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = (*widest).max(width(cell)).min(60);
            }
        }
        let head = self.bold(&aligned(head.into_iter(), &widths));
        self.bytes(head.as_bytes())?;
        self.bytes(b"\n")?;
        for row in &rows {
            let line = aligned(row.iter().map(Cow::as_ref), &widths);
            self.bytes(line.as_bytes())?;
            self.bytes(b"\n")?;
        }
        Ok(())
    }

    /// Bold where colour is shown.
    pub fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Writes a line whose parts are already safe for a terminal.
    pub fn styled(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }
}

fn aligned<'a>(cells: impl Iterator<Item = &'a str>, widths: &[usize]) -> String {
    let mut line = String::new();
    for (index, (cell, widest)) in cells.zip(widths).enumerate() {
        if index > 0 {
            line.push_str("  ");
        }
        line.push_str(cell);
        if index + 1 < widths.len() {
            line.extend(std::iter::repeat_n(' ', widest.saturating_sub(width(cell))));
        }
    }
    line.truncate(line.trim_end().len());
    line
}

fn width(text: &str) -> usize {
    text.chars().count()
}

/// Control characters as escapes, so that stored text cannot act on a terminal.
pub(crate) fn printable<'a>(text: &'a str, allowed: &str) -> Cow<'a, str> {
    let acts = |character: char| {
        (character.is_control() && !allowed.contains(character))
            // Bidirectional overrides make text read as something else.
            || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
    };
    if !text.contains(acts) {
        return Cow::Borrowed(text);
    }
    text.chars()
        .map(
            |character| {
                if acts(character) { character.escape_default().to_string() } else { character.to_string() }
            },
        )
        .collect::<String>()
        .into()
}

/// The first characters of a text, on one line.
pub fn excerpt(text: &str, characters: usize) -> String {
    let mut line = String::new();
    for (count, character) in text.chars().enumerate() {
        if count == characters {
            line.push('…');
            break;
        }
        line.push(if character.is_whitespace() { ' ' } else { character });
    }
    line
}

/// `1.5 MiB`.
#[allow(clippy::cast_precision_loss, reason = "one decimal is shown")]
pub fn bytes(count: u64) -> String {
    match count {
        0..1_024 => format!("{count} B"),
        1_024..1_048_576 => format!("{:.1} KiB", count as f64 / 1_024.0),
        1_048_576..1_073_741_824 => format!("{:.1} MiB", count as f64 / 1_048_576.0),
        _ => format!("{:.1} GiB", count as f64 / 1_073_741_824.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_text_cannot_act_on_a_terminal() {
        assert_eq!(printable("a\x1b[2Jb\u{9b}c", ""), "a\\u{1b}[2Jb\\u{9b}c");
        assert_eq!(printable("abc\u{202e}fed", ""), "abc\\u{202e}fed");
        assert_eq!(printable("two\nlines", "\n"), "two\nlines");
        assert!(matches!(printable("Zürich 東京", ""), Cow::Borrowed(_)));
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let line = aligned(["é", "b"].into_iter(), &[3, 1]);
        assert_eq!(line, "é    b");
        assert_eq!(excerpt("one\ntwo three", 7), "one two…");
        assert_eq!(bytes(1_536), "1.5 KiB");
    }
}
