//! The lines of a file of any size. Only one line, up to a limit, is in memory.

use std::io::{self, BufRead};

/// Longest line of a conversation that is read, in bytes.
pub(crate) const MAX_LINE_BYTES: usize = 16 << 20;
/// Longest line of an export that is read, in bytes. A record may hold the largest value (64 MiB) as a string in which
/// escaping doubles every byte, plus its text and vectors.
pub(crate) const MAX_RECORD_BYTES: usize = 160 << 20;

/// One line, without its line break.
pub(crate) enum Line<'a> {
    /// UTF-8 text that is not blank.
    Text(&'a str),
    /// A line that cannot be read, and why.
    Broken(String),
}

/// Reads a file line by line, counting from 1.
pub(crate) struct Lines<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
    max_bytes: usize,
}

impl<R: BufRead> Lines<R> {
    pub(crate) fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, max_bytes: MAX_LINE_BYTES }
    }

    /// The lines of an export.
    pub(crate) fn of_records(reader: R) -> Self {
        Self { max_bytes: MAX_RECORD_BYTES, ..Self::new(reader) }
    }

    /// The next line that is not blank, with its number.
    pub(crate) fn next_line(&mut self) -> io::Result<Option<(u64, Line<'_>)>> {
        loop {
            let Some(length) = self.fill()? else { return Ok(None) };
            self.number += 1;
            if length > self.max_bytes {
                let why = format!("the line has {length} bytes; at most {} are read", self.max_bytes);
                return Ok(Some((self.number, Line::Broken(why))));
            }
            if self.number == 1 && self.buffer.starts_with(b"\xef\xbb\xbf") {
                self.buffer.drain(..3);
            }
            if !self.buffer.iter().all(u8::is_ascii_whitespace) {
                break;
            }
        }
        let line = match std::str::from_utf8(&self.buffer) {
            Ok(text) => Line::Text(text.trim_ascii()),
            Err(error) => Line::Broken(format!("the line is not UTF-8 at byte {}", error.valid_up_to() + 1)),
        };
        Ok(Some((self.number, line)))
    }

    /// Fills the buffer with the next line, up to the limit; returns its length.
    fn fill(&mut self) -> io::Result<Option<usize>> {
        self.buffer.clear();
        let mut length = 0;
        loop {
            let available = match self.reader.fill_buf() {
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            if available.is_empty() {
                return Ok((length > 0).then_some(length));
            }
            let (part, ended) = match available.iter().position(|byte| *byte == b'\n') {
                Some(end) => (available.get(..end).unwrap_or_default(), true),
                None => (available, false),
            };
            let room = self.max_bytes.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(part.get(..room).unwrap_or(part));
            length += part.len();
            let consumed = part.len() + usize::from(ended);
            self.reader.consume(consumed);
            if ended {
                return Ok(Some(length));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], max_bytes: usize) -> Vec<(u64, Result<String, String>)> {
        // A tiny buffer, so that every line spans several reads.
        let mut lines = Lines::new(io::BufReader::with_capacity(3, bytes));
        lines.max_bytes = max_bytes;
        let mut read = Vec::new();
        while let Some((number, line)) = lines.next_line().unwrap() {
            read.push((
                number,
                match line {
                    Line::Text(text) => Ok(text.to_owned()),
                    Line::Broken(why) => Err(why),
                },
            ));
        }
        read
    }

    #[test]
    fn lines_are_numbered_and_blank_ones_left_out() {
        let lines = read(b"\xef\xbb\xbfone\r\n\n  \nfour", 100);
        assert_eq!(lines, [(1, Ok("one".to_owned())), (4, Ok("four".to_owned()))]);
    }

    #[test]
    fn a_line_over_the_limit_is_reported_and_the_next_one_is_read() {
        let lines = read(b"123456789\nshort\n", 8);
        assert_eq!(lines[0], (1, Err("the line has 9 bytes; at most 8 are read".to_owned())));
        assert_eq!(lines[1], (2, Ok("short".to_owned())));
    }

    #[test]
    fn a_line_that_is_not_utf_8_is_reported_by_position() {
        let lines = read(b"ok\nab\xffc\n", 100);
        assert_eq!(lines[1], (2, Err("the line is not UTF-8 at byte 3".to_owned())));
    }
}
