//! Streams the elements of one large JSON array: of a file of hundreds of megabytes, only the current element is in
//! memory.

use std::collections::VecDeque;
use std::io::{self, BufRead};

use super::item::{Item, Reader};
use super::turn::Place;

/// Largest element that is read, in bytes.
const MAX_ELEMENT_BYTES: usize = 128 << 20;

/// One element of the array.
enum Element<'a> {
    /// The element's text, not yet known to be JSON.
    Text(&'a str),
    /// An element that cannot be read, and why.
    Broken(String),
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Start,
    Inside,
    Done,
}

/// Splits a JSON array into its elements by looking only at brackets and strings; counts from 1. Elements are parsed
/// later, so a broken one does not affect the others.
struct Elements<R> {
    reader: R,
    buffer: Vec<u8>,
    number: u64,
    state: State,
    max_bytes: usize,
}

impl<R: BufRead> Elements<R> {
    fn new(reader: R) -> Self {
        Self { reader, buffer: Vec::new(), number: 0, state: State::Start, max_bytes: MAX_ELEMENT_BYTES }
    }

    /// The next element and its number. A file that is a single object counts as one element.
    fn next_element(&mut self) -> io::Result<Option<(u64, Element<'_>)>> {
        loop {
            let Some(byte) = self.peek()? else {
                return Ok(match self.state {
                    State::Done => None,
                    State::Start => self.finish("the file is empty"),
                    State::Inside => self.finish("the file ends inside the array; it was cut off"),
                });
            };
            match (self.state, byte) {
                (State::Done, b' ' | b'\t' | b'\r' | b'\n')
                | (State::Start, b' ' | b'\t' | b'\r' | b'\n' | 0xef | 0xbb | 0xbf)
                | (State::Inside, b' ' | b'\t' | b'\r' | b'\n' | b',') => self.reader.consume(1),
                (State::Start, b'[') => {
                    self.reader.consume(1);
                    self.state = State::Inside;
                }
                (State::Start, b'{') => {
                    self.state = State::Done;
                    return self.element(true).map(Some);
                }
                (State::Start, _) => {
                    self.drain()?;
                    return Ok(self.finish("the file is neither a JSON array nor an object"));
                }
                (State::Inside, b']') => {
                    self.reader.consume(1);
                    self.state = State::Done;
                }
                (State::Inside, _) => return self.element(false).map(Some),
                (State::Done, _) => {
                    self.drain()?;
                    return Ok(self.finish("there is text after the end of the array"));
                }
            }
        }
    }

    fn finish(&mut self, why: &str) -> Option<(u64, Element<'static>)> {
        self.state = State::Done;
        self.number += 1;
        Some((self.number, Element::Broken(why.to_owned())))
    }

    fn peek(&mut self) -> io::Result<Option<u8>> {
        loop {
            match self.reader.fill_buf() {
                Ok(available) => return Ok(available.first().copied()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn drain(&mut self) -> io::Result<()> {
        while self.peek()?.is_some() {
            let available = self.reader.fill_buf()?.len();
            self.reader.consume(available);
        }
        Ok(())
    }

    /// Reads up to the comma or bracket that ends the element, leaving that unread; with `alone`, up to the closing
    /// bracket.
    fn element(&mut self, alone: bool) -> io::Result<(u64, Element<'_>)> {
        self.number += 1;
        self.buffer.clear();
        let (mut depth, mut in_string, mut escaped, mut length) = (0_u64, false, false, 0_usize);
        let ended = 'element: loop {
            let available = match self.reader.fill_buf() {
                Ok([]) => break 'element false,
                Ok(available) => available,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => return Err(error),
            };
            let mut taken = 0;
            let mut done = false;
            for byte in available {
                if in_string {
                    match byte {
                        _ if escaped => escaped = false,
                        b'\\' => escaped = true,
                        b'"' => in_string = false,
                        _ => {}
                    }
                } else {
                    match byte {
                        b'"' => in_string = true,
                        b'{' | b'[' => depth += 1,
                        b',' if depth == 0 => done = true,
                        b']' | b'}' if depth == 0 => done = true,
                        b']' | b'}' => depth -= 1,
                        _ => {}
                    }
                    if alone && depth == 0 {
                        taken += 1;
                        done = true;
                    }
                }
                if done {
                    break;
                }
                taken += 1;
            }
            let part = available.get(..taken).unwrap_or_default();
            let room = self.max_bytes.saturating_sub(self.buffer.len());
            self.buffer.extend_from_slice(part.get(..room).unwrap_or(part));
            length += taken;
            // A stray closing brace ends an element, but must be consumed, or this would loop forever.
            let stray = done && !alone && available.get(taken) == Some(&b'}');
            self.reader.consume(taken + usize::from(stray));
            if done {
                break true;
            }
        };
        if !ended {
            self.state = State::Done;
            let why = "the file ends inside this element; it was cut off".to_owned();
            return Ok((self.number, Element::Broken(why)));
        }
        if length > self.max_bytes {
            let why = format!("the element has {length} bytes; at most {} are read", self.max_bytes);
            return Ok((self.number, Element::Broken(why)));
        }
        let element = match std::str::from_utf8(&self.buffer) {
            Ok(text) => Element::Text(text.trim_ascii()),
            Err(error) => {
                Element::Broken(format!("the element is not UTF-8 at byte {}", error.valid_up_to() + 1))
            }
        };
        Ok((self.number, element))
    }
}

/// A reader of an array whose elements hold turns. Only one element is in memory at a time.
pub(super) struct Unfolded<R> {
    elements: Elements<R>,
    ready: VecDeque<Item>,
    /// What messages call an element.
    what: &'static str,
    unfold: Unfold,
}

/// Parses the element with this number into items, or says why it cannot be read.
type Unfold = Box<dyn FnMut(&str, u64) -> Result<Vec<Item>, String> + Send>;

impl<R: BufRead> Unfolded<R> {
    pub(super) fn new(
        input: R,
        what: &'static str,
        unfold: impl FnMut(&str, u64) -> Result<Vec<Item>, String> + Send + 'static,
    ) -> Self {
        Self { elements: Elements::new(input), ready: VecDeque::new(), what, unfold: Box::new(unfold) }
    }
}

impl<R: BufRead + Send> Reader for Unfolded<R> {
    fn next_item(&mut self) -> io::Result<Option<Item>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Ok(Some(item));
            }
            let Some((number, element)) = self.elements.next_element()? else { return Ok(None) };
            let items = match element {
                Element::Broken(why) => Err(why),
                Element::Text(text) => (self.unfold)(text, number),
            };
            match items {
                Ok(items) => self.ready.extend(items),
                Err(why) => {
                    let place = Place::Part(format!("{} {number}", self.what));
                    return Ok(Some(Item::Broken(place, why)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8], max_bytes: usize) -> Vec<Result<String, String>> {
        let mut elements = Elements::new(io::BufReader::with_capacity(3, bytes));
        elements.max_bytes = max_bytes;
        let mut read = Vec::new();
        while let Some((number, element)) = elements.next_element().unwrap() {
            assert_eq!(number, read.len() as u64 + 1);
            read.push(match element {
                Element::Text(text) => Ok(text.to_owned()),
                Element::Broken(why) => Err(why),
            });
        }
        read
    }

    fn good(texts: &[&str]) -> Vec<Result<String, String>> {
        texts.iter().map(|text| Ok((*text).to_owned())).collect()
    }

    #[test]
    fn elements_are_split_at_their_own_commas_only() {
        let text = r#" [ {"a":"],[{\"","b":[1,2]} , 7,[[]],"x" ] "#;
        assert_eq!(read(text.as_bytes(), 100), good(&[r#"{"a":"],[{\"","b":[1,2]}"#, "7", "[[]]", r#""x""#]));
        assert_eq!(read(b"\xef\xbb\xbf[]", 100), good(&[]));
    }

    #[test]
    fn one_object_alone_is_its_own_element() {
        assert_eq!(read(b" {\"a\": 1}\n", 100), good(&["{\"a\": 1}"]));
    }

    #[test]
    fn a_broken_element_does_not_spoil_its_neighbours() {
        let parts = read(b"[{bad}, {\"a\":\xff}, {\"long\":12345678901234567890}, {}]", 20);
        assert_eq!(parts[0], Ok("{bad}".to_owned()));
        assert!(parts[1].as_ref().unwrap_err().contains("UTF-8 at byte 6"));
        assert!(parts[2].as_ref().unwrap_err().contains("29 bytes; at most 20"));
        assert_eq!(parts[3], Ok("{}".to_owned()));
    }

    #[test]
    fn a_file_cut_off_or_foreign_says_so_and_ends() {
        for (text, why) in [
            (&b"[{}, {\"a\":"[..], "cut off"),
            (b"[{},", "cut off"),
            (b"{\"a\":[1", "cut off"),
            (b"[] x", "after the end"),
            (b"{} x", "after the end"),
            (b"hello", "neither"),
            (b"", "empty"),
        ] {
            let parts = read(text, 100);
            assert!(parts.last().unwrap().as_ref().unwrap_err().contains(why), "{parts:?}");
        }
    }

    #[test]
    fn stray_brackets_end_in_finite_time() {
        for text in [&b"[}}}}]"[..], b"[{}}]", b"]]]", b"[[[[[", b"[,,,]"] {
            assert!(read(text, 100).len() <= text.len() + 1);
        }
    }

    #[test]
    fn nesting_of_any_depth_costs_no_stack() {
        let text = format!("[{}{}]", "[".repeat(100_000), "]".repeat(100_000));
        assert_eq!(read(text.as_bytes(), 1 << 20).len(), 1);
    }
}
