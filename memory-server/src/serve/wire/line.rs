//! Reads lines of limited length from a byte stream. Longer ones are skipped without being kept.

use std::io::{self, BufRead};

use super::stray_id::StrayId;

/// The next item of the stream.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// A whole line is in the buffer, without its end.
    Whole,
    /// A line over the limit was skipped. Contains the text of its `id`, if it had one.
    TooLong(Option<String>),
    /// The stream ended. A last line without a line end is dropped, since it may be cut off.
    End,
}

/// Reads the next line into `buffer`, which never holds more than `limit` bytes plus a line end.
pub(crate) fn next_line(stream: &mut impl BufRead, buffer: &mut Vec<u8>, limit: usize) -> io::Result<Line> {
    buffer.clear();
    let mut passing: Option<StrayId> = None;
    loop {
        let available = match stream.fill_buf() {
            Ok(available) => available,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error),
        };
        if available.is_empty() {
            return Ok(Line::End);
        }
        let end = available.iter().position(|byte| *byte == b'\n');
        let part = available.get(..end.unwrap_or(available.len())).unwrap_or_default();
        if passing.is_none() && buffer.len().saturating_add(part.len()) > limit {
            let mut id = StrayId::default();
            id.feed(buffer);
            buffer.clear();
            buffer.shrink_to_fit();
            passing = Some(id);
        }
        match &mut passing {
            Some(id) => id.feed(part),
            None => buffer.extend_from_slice(part),
        }
        let used = part.len() + usize::from(end.is_some());
        stream.consume(used);
        if end.is_some() {
            if let Some(id) = passing {
                return Ok(Line::TooLong(id.found()));
            }
            if buffer.last() == Some(&b'\r') {
                buffer.pop();
            }
            return Ok(Line::Whole);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    /// Everything in the stream, as seen by a reader with a buffer of `step` bytes.
    fn lines(bytes: &[u8], limit: usize, step: usize) -> Vec<(Line, Vec<u8>)> {
        let mut stream = BufReader::with_capacity(step, bytes);
        let mut buffer = Vec::new();
        let mut seen = Vec::new();
        loop {
            let line = next_line(&mut stream, &mut buffer, limit).unwrap();
            if line == Line::End {
                return seen;
            }
            let kept = if line == Line::Whole { buffer.clone() } else { Vec::new() };
            seen.push((line, kept));
        }
    }

    #[test]
    fn lines_come_whole_whatever_the_reads_are() {
        for step in 1..9 {
            let seen = lines(b"one\r\n\ntwo\nlast without an end", 8, step);
            let kept: Vec<&[u8]> = seen.iter().map(|(_, kept)| kept.as_slice()).collect();
            assert_eq!(kept, [b"one".as_slice(), b"", b"two"], "reads of {step}");
        }
    }

    #[test]
    fn a_line_of_exactly_the_limit_is_kept_and_one_byte_more_is_not() {
        assert_eq!(lines(b"12345678\n", 8, 3), [(Line::Whole, b"12345678".to_vec())]);
        assert_eq!(lines(b"123456789\n", 8, 3), [(Line::TooLong(None), Vec::new())]);
    }

    #[test]
    fn after_a_line_that_is_too_long_the_next_one_is_read() {
        for step in 1..9 {
            let seen = lines(b"{\"a\":\"xxxxxxxxxxxxxxx\",\"id\":7}\nnext\n", 10, step);
            assert_eq!(seen.first().unwrap().0, Line::TooLong(Some("7".to_owned())), "reads of {step}");
            assert_eq!(seen.get(1).unwrap().1, b"next");
        }
    }

    #[test]
    fn an_endless_line_is_not_kept() {
        let mut stream = BufReader::new(io::Read::take(io::repeat(b'x'), 64 << 20));
        let mut buffer = Vec::new();
        assert_eq!(next_line(&mut stream, &mut buffer, 1 << 10).unwrap(), Line::End);
        assert!(buffer.capacity() <= 2 << 10, "{}", buffer.capacity());
    }
}
