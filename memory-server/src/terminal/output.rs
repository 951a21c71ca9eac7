//! What a command prints: text for a person or JSON for a program, never both on one stream.

use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use memory::system::SystemClock;
use memory_core::layer::printable;
use memory_core::{Clock as _, Timestamp};
use serde::Serialize;
use serde_json::{Map, Value};

use super::failure::Failure;

/// How many things of a kind a report for a person names.
pub(crate) const NAMED: usize = 20;

/// Standard output.
pub struct Out {
    json: bool,
    terminal: bool,
    colour: bool,
    /// Width of the terminal; `None` if nothing is cut.
    columns: Option<usize>,
    /// Whether the next rows continue a table whose header has been printed.
    pub(crate) continues: bool,
    writer: Box<dyn Write + Send>,
}

impl Out {
    /// Standard output. Colour only on a terminal, and not if `NO_COLOR` is set.
    pub fn standard(json: bool) -> Self {
        let terminal = io::stdout().is_terminal();
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let columns = console::Term::stdout().size_checked().map(|(_, columns)| usize::from(columns));
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self {
            json,
            terminal,
            colour: terminal && !no_colour && !dumb && !json,
            columns: columns.filter(|columns| terminal && *columns > 0),
            continues: false,
            writer: Box::new(io::BufWriter::new(io::stdout())),
        }
    }

    /// Whether output is JSON.
    pub fn is_json(&self) -> bool {
        self.json
    }

    /// Writes a JSON document on one line. If a fallback answered, an object names it in `fallback`; anything else,
    /// such as the `null` for a missing entry, is wrapped in an object as its `answer`.
    pub fn document<T: Serialize + ?Sized>(&mut self, document: &T) -> Result<(), Failure> {
        self.json(serde_json::to_string(document))
    }

    /// Not generic, because every command has its own type of document.
    fn json(&mut self, text: serde_json::Result<String>) -> Result<(), Failure> {
        let text = text.map_err(|error| Failure::Output(error.into()))?;
        let Some(who) = memory::fallback::fell_back() else {
            self.bytes(text.as_bytes())?;
            return self.bytes(b"\n");
        };
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

    /// Prints the document as JSON, or what `text` prints for a person.
    pub(crate) fn tell<T: Serialize + ?Sized>(
        &mut self,
        document: &T,
        text: impl FnOnce(&mut Self) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        if self.json { self.document(document) } else { text(self) }
    }

    /// Prints how many things of a kind there are, then the first of them, one per line. Prints nothing if there are
    /// none.
    pub(crate) fn named<T>(
        &mut self,
        what: &str,
        count: u64,
        first: &[T],
        line: impl Fn(&T) -> String,
    ) -> Result<(), Failure> {
        if count > 0 {
            self.line(format!("{count} {what}:"))?;
            for one in first.iter().take(NAMED) {
                self.line(format!("  {}", line(one)))?;
            }
            more(count);
        }
        Ok(())
    }

    /// Writes a line of text, safe for a terminal.
    pub fn line(&mut self, text: impl AsRef<str>) -> Result<(), Failure> {
        let text = printable(text.as_ref(), "\n\t");
        self.writer.write_all(text.as_bytes()).map_err(Failure::Output)?;
        self.bytes(b"\n")
    }

    /// Writes a line of stored text unchanged, unless a terminal would act on it.
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

    /// Prints rows under a header, with aligned columns. On a terminal, long cells are cut so that a row fits on a
    /// line; elsewhere nothing is cut.
    pub fn table<const N: usize>(&mut self, head: [&str; N], rows: &[[String; N]]) -> Result<(), Failure> {
        let rows: Vec<[Cow<'_, str>; N]> =
            rows.iter().map(|row| row.each_ref().map(|cell| printable(cell, ""))).collect();
        let mut widths = head.map(width);
        for row in &rows {
            for (widest, cell) in widths.iter_mut().zip(row) {
                *widest = match self.columns {
                    Some(_) => (*widest).max(width(cell)),
                    None => (*widest).max(width(cell)).min(60),
                };
            }
        }
        let cut = self.fit(&mut widths);
        let shown = |cell: &'_ str, widest: &usize| -> String {
            if cut { console::truncate_str(cell, *widest, "…").into_owned() } else { cell.to_owned() }
        };
        let cells = |row: &[&str]| -> Vec<String> {
            row.iter().zip(&widths).map(|(cell, widest)| shown(cell, widest)).collect()
        };
        if !self.continues {
            let head = cells(&head);
            let head = self.bold(&aligned(head.iter().map(String::as_str), &widths));
            self.bytes(head.as_bytes())?;
            self.bytes(b"\n")?;
        }
        for row in &rows {
            let row = cells(&row.each_ref().map(Cow::as_ref));
            let line = aligned(row.iter().map(String::as_str), &widths);
            self.bytes(line.as_bytes())?;
            self.bytes(b"\n")?;
        }
        Ok(())
    }

    /// How many characters of a value to print: a terminal line's worth; elsewhere all.
    pub(crate) fn shown(&self) -> usize {
        if self.terminal { self.columns.unwrap_or(80) } else { usize::MAX }
    }

    /// Narrows the widest columns until a row, with two spaces between columns, fits the terminal. Returns whether it
    /// narrowed any.
    pub(crate) fn fit(&self, widths: &mut [usize]) -> bool {
        self.columns.is_some_and(|columns| narrow(widths, columns))
    }

    /// Bold if colour is on.
    pub fn bold(&self, text: &str) -> String {
        if self.colour { format!("\x1b[1m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Writes a line whose parts are already safe for a terminal.
    pub fn styled(&mut self, text: &str) -> Result<(), Failure> {
        self.bytes(text.as_bytes())?;
        self.bytes(b"\n")
    }
}

/// Says how many of `count` things were not named.
pub(crate) fn more(count: u64) {
    let shown = NAMED as u64;
    if count > shown {
        note(&format!("and {} more; --json names up to a thousand", count - shown));
    }
}

/// A value that serialises to one word, as that word.
pub(crate) fn word(value: &impl Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
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

/// Columns that a text takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    console::measure_text_width(text)
}

/// Narrows the widest columns, the last of equally wide ones first, until the row fits or nothing is left to take.
fn narrow(widths: &mut [usize], columns: usize) -> bool {
    const GAP: usize = 2;
    let room = columns.saturating_sub(GAP * widths.len().saturating_sub(1));
    let mut over = widths.iter().sum::<usize>().saturating_sub(room);
    let narrows = over > 0;
    while over > 0 {
        let Some(widest) = widths.iter_mut().max_by_key(|width| **width).filter(|width| **width > 1) else {
            break;
        };
        *widest -= 1;
        over -= 1;
    }
    narrows
}

/// Whether each line on standard error is a JSON object.
static JSON_LINES: AtomicBool = AtomicBool::new(false);

/// From now on, notes are JSON objects, like lines of the log.
pub(super) fn write_json_lines() {
    JSON_LINES.store(true, Relaxed);
}

/// A line of the log as a JSON object.
pub(super) fn json_line(level: &str, target: &str, message: &str, fields: Map<String, Value>) -> String {
    #[derive(Serialize)]
    struct Line<'a> {
        time: Timestamp,
        level: &'a str,
        target: &'a str,
        message: &'a str,
        #[serde(skip_serializing_if = "Map::is_empty")]
        fields: Map<String, Value>,
    }
    let line = Line { time: SystemClock.now(), level, target, message, fields };
    serde_json::to_string(&line).unwrap_or_default()
}

/// Prints a line on standard error. A closed stream is ignored.
pub fn note(text: &str) {
    if JSON_LINES.load(Relaxed) {
        let message = text.strip_prefix("memory: ").unwrap_or(text);
        complain(&json_line("INFO", "memory", message, Map::new()));
    } else {
        complain(&printable(text, "\n"));
    }
}

/// Writes a line to standard error as it is.
pub(crate) fn complain(line: &str) {
    let _ = writeln!(io::stderr().lock(), "{line}");
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

/// `1 entry`, `2 entries`: for nouns whose plural ends in `s`, or `ies` in place of `y`.
pub(crate) fn counted(count: impl fmt::Display + PartialEq + From<u8>, noun: &str) -> String {
    match noun.strip_suffix('y') {
        _ if count == 1.into() => format!("{count} {noun}"),
        Some(stem) => format!("{count} {stem}ies"),
        None => format!("{count} {noun}s"),
    }
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
    fn a_line_of_the_log_is_one_object_whatever_is_in_it() {
        let fields = Map::from_iter([("op".to_owned(), "set".into()), ("rows".to_owned(), 3.into())]);
        let line = json_line("WARN", "memory::audit", "two\nlines", fields);
        assert_eq!(line.lines().count(), 1);
        let read: Value = serde_json::from_str(&line).unwrap();
        assert_eq!((&read["level"], &read["message"]), (&"WARN".into(), &"two\nlines".into()));
        assert_eq!((&read["fields"]["op"], &read["fields"]["rows"]), (&"set".into(), &3.into()));
        read["time"].as_str().unwrap().parse::<Timestamp>().unwrap();
    }

    #[test]
    fn one_of_a_thing_is_singular() {
        let counted =
            [(0, "turn"), (1, "entry"), (2, "expired entry")].map(|(count, noun)| counted(count, noun));
        assert_eq!(counted, ["0 turns", "1 entry", "2 expired entries"]);
    }

    #[test]
    fn the_widest_columns_give_way_first() {
        let mut widths = [30, 4, 80];
        assert!(narrow(&mut widths, 60));
        assert_eq!((widths, widths.iter().sum::<usize>() + 4), ([26, 4, 26], 60));
        assert!(!narrow(&mut widths, 60));
        let mut tiny = [5, 5, 5];
        narrow(&mut tiny, 4);
        assert_eq!(tiny, [1, 1, 1]);
    }

    #[test]
    fn columns_are_aligned_by_characters() {
        let line = aligned(["é", "b"].into_iter(), &[3, 1]);
        assert_eq!(line, "é    b");
        assert_eq!(excerpt("one\ntwo three", 7), "one two…");
        assert_eq!(bytes(1_536), "1.5 KiB");
    }
}
