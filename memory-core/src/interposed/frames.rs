//! The streams of an operation as lines (NDJSON), for connections that can break at any point.
//!
//! Each item is a line `{"item": …}`. The last line is `{"end": N}` with the number of items, or `{"error": {…}}`;
//! without either, the stream was cut off. A stream sent to an operation starts with a line of its arguments.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures_core::Stream;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::failure::Failure;
use crate::backend::Record;
use crate::error::{Error, Result};
use crate::json;

/// Longest line, in bytes: a record of the largest value with all its vectors, or a line of a dump.
const MAX_LINE_BYTES: usize = 64 << 20;
/// Lines are passed on together once they reach this many bytes.
const PART_BYTES: usize = 64 << 10;

/// An item of a stream.
pub trait Item: Sized + Send + 'static {
    /// Writes it as JSON without line breaks.
    ///
    /// # Errors
    /// `internal` if it has no JSON form.
    fn write(&self) -> Result<String>;

    /// Reads what [`Item::write`] wrote.
    ///
    /// # Errors
    /// `invalid_argument`.
    fn read(json: &str) -> Result<Self>;
}

fn unreadable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::invalid(format!("an item of the stream cannot be read: {error}")).with_source(error)
}

impl Item for Record {
    fn write(&self) -> Result<String> {
        self.to_line()
    }

    fn read(json: &str) -> Result<Self> {
        Self::from_line(json).map_err(unreadable)
    }
}

/// A line of a dump, in base64, since it may contain any bytes.
impl Item for Vec<u8> {
    fn write(&self) -> Result<String> {
        Ok(format!("\"{}\"", STANDARD.encode(self)))
    }

    fn read(json: &str) -> Result<Self> {
        let text: String = serde_json::from_str(json).map_err(unreadable)?;
        STANDARD.decode(text).map_err(unreadable)
    }
}

/// One line.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Frame {
    Item(Box<RawValue>),
    End(u64),
    Error(Failure),
}

type Items<T> = Pin<Box<dyn Stream<Item = Result<T>> + Send>>;

/// Items as chunks of bytes, each made of whole lines. There is always a last line.
pub struct Written<T> {
    items: Items<T>,
    part: Vec<u8>,
    count: u64,
    ended: bool,
}

impl<T: Item> Written<T> {
    /// Writes `items`; `arguments` is the first line, if there is one.
    #[must_use]
    pub fn new(arguments: Option<&str>, items: Items<T>) -> Self {
        let part = arguments.map_or_else(Vec::new, |line| format!("{line}\n").into_bytes());
        Self { items, part, count: 0, ended: false }
    }

    fn line(&mut self, text: &str) {
        self.part.extend_from_slice(text.as_bytes());
        self.part.push(b'\n');
    }

    fn end(&mut self, last: &Frame) {
        self.ended = true;
        let text = serde_json::to_string(last)
            .unwrap_or_else(|_| r#"{"error":{"code":"internal","message":""}}"#.to_owned());
        self.line(&text);
    }
}

impl<T: Item> Stream for Written<T> {
    type Item = Vec<u8>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Vec<u8>>> {
        let this = &mut *self;
        while !this.ended && this.part.len() < PART_BYTES {
            let Poll::Ready(next) = this.items.as_mut().poll_next(context) else {
                if this.part.is_empty() {
                    return Poll::Pending;
                }
                break;
            };
            match next.map(|item| item.and_then(|item| item.write())) {
                Some(Ok(json)) => {
                    this.count += 1;
                    this.line(&format!("{{\"item\":{json}}}"));
                }
                Some(Err(error)) => this.end(&Frame::Error(Failure::from(&error))),
                None => this.end(&Frame::End(this.count)),
            }
        }
        let part = std::mem::take(&mut this.part);
        Poll::Ready((!part.is_empty()).then_some(part))
    }
}

/// The lines of a body that arrives in parts.
pub struct Lines<S> {
    parts: S,
    bytes: Vec<u8>,
    /// Where the next line starts.
    begin: usize,
    /// There is no line break before this position.
    searched: usize,
}

impl<B: AsRef<[u8]>, S: Stream<Item = Result<B>> + Unpin> Lines<S> {
    /// Reads `parts`.
    pub fn new(parts: S) -> Self {
        Self { parts, bytes: Vec::new(), begin: 0, searched: 0 }
    }

    /// The next line.
    ///
    /// # Errors
    /// `None` at the end of the input; an unfinished line is dropped. The input's errors; `too_large` and
    /// `invalid_argument` for a line that is too long or not UTF-8.
    pub fn poll_line(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<String>>> {
        loop {
            let unsearched = self.bytes.get(self.searched..).unwrap_or_default();
            if let Some(at) = unsearched.iter().position(|byte| *byte == b'\n') {
                let end = self.searched + at;
                let line = self.bytes.get(self.begin..end).unwrap_or_default();
                let line = std::str::from_utf8(line).map(str::to_owned);
                (self.begin, self.searched) = (end + 1, end + 1);
                return Poll::Ready(Some(
                    line.map_err(|error| Error::invalid("a line is not UTF-8").with_source(error)),
                ));
            }
            self.bytes.drain(..self.begin);
            self.begin = 0;
            self.searched = self.bytes.len();
            if self.searched > MAX_LINE_BYTES {
                return Poll::Ready(Some(Err(Error::too_large(
                    "line",
                    self.searched,
                    MAX_LINE_BYTES,
                    "bytes",
                ))));
            }
            match ready!(Pin::new(&mut self.parts).poll_next(context)) {
                Some(Ok(part)) => self.bytes.extend_from_slice(part.as_ref()),
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => return Poll::Ready(None),
            }
        }
    }
}

/// How far a body has been read.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    Items,
    /// The last line was read; nothing may follow it.
    Last,
    Ended,
}

/// The items of a body, up to its last line.
pub struct Read<T, S> {
    lines: Lines<S>,
    count: u64,
    progress: Progress,
    is_request: bool,
    item: std::marker::PhantomData<fn() -> T>,
}

impl<T, S> Read<T, S> {
    /// Reads the lines that follow.
    pub fn new(lines: Lines<S>) -> Self {
        Self { lines, count: 0, progress: Progress::Items, is_request: false, item: std::marker::PhantomData }
    }

    /// The same for a body that a caller sends: an error in its last line is the caller's.
    pub fn of_request(lines: Lines<S>) -> Self {
        Self { is_request: true, ..Self::new(lines) }
    }
}

impl<T: Item, B: AsRef<[u8]>, S: Stream<Item = Result<B>> + Unpin> Stream for Read<T, S> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let this = &mut *self;
        while this.progress != Progress::Ended {
            let line = ready!(this.lines.poll_line(context));
            let item = match line {
                None if this.progress == Progress::Last && this.lines.bytes.is_empty() => break,
                Some(Err(error)) => Err(error),
                _ if this.progress == Progress::Last => Err(Error::invalid(
                    "something follows the last line of the stream; send each stream by itself",
                )),
                None => Err(cut()),
                Some(Ok(line)) => match json::from_str(&line) {
                    Err(error) => Err(unreadable(error)),
                    Ok(Frame::Item(json)) => T::read(json.get()),
                    Ok(Frame::End(count)) if count == this.count => {
                        this.progress = Progress::Last;
                        continue;
                    }
                    Ok(Frame::End(_)) => Err(cut()),
                    Ok(Frame::Error(failure)) if this.is_request => Err(given_up(&failure.into())),
                    Ok(Frame::Error(failure)) => Err(failure.into()),
                },
            };
            this.count += 1;
            if item.is_err() {
                this.progress = Progress::Ended;
            }
            return Poll::Ready(Some(item));
        }
        this.progress = Progress::Ended;
        Poll::Ready(None)
    }
}

fn given_up(error: &Error) -> Error {
    Error::invalid(format!(
        "the stream ends with an error of its sender, `{}`: {}; mend it and send the stream again",
        error.kind().code(),
        error.message()
    ))
}

fn cut() -> Error {
    Error::unavailable("the stream ended before its last line, so part of it is missing; try again")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ErrorKind;

    /// A stream of these items.
    struct Of<T>(std::vec::IntoIter<T>);

    impl<T: Unpin> Stream for Of<T> {
        type Item = T;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
            Poll::Ready(self.0.next())
        }
    }

    fn all<T>(mut stream: impl Stream<Item = T> + Unpin) -> Vec<T> {
        let mut context = Context::from_waker(std::task::Waker::noop());
        let mut items = Vec::new();
        while let Poll::Ready(Some(item)) = Pin::new(&mut stream).poll_next(&mut context) {
            items.push(item);
        }
        items
    }

    fn read(bytes: &[u8], part: usize) -> Vec<Result<Vec<u8>>> {
        let parts: Vec<Result<Vec<u8>>> = bytes.chunks(part).map(|part| Ok(part.to_vec())).collect();
        all(Read::new(Lines::new(Of(parts.into_iter()))))
    }

    #[test]
    fn items_survive_and_a_cut_stream_is_never_taken_for_whole() {
        let items = vec![b"one\ntwo".to_vec(), vec![0, 255], Vec::new()];
        let source: Items<Vec<u8>> =
            Box::pin(Of(items.iter().cloned().map(Ok).collect::<Vec<_>>().into_iter()));
        let bytes = all(Written::new(None, source)).concat();
        for part in [1, 7, bytes.len()] {
            let back: Vec<Vec<u8>> = read(&bytes, part).into_iter().map(Result::unwrap).collect();
            assert_eq!(back, items);
        }
        for length in 0..bytes.len() {
            let last = read(&bytes[..length], 5).pop().unwrap();
            assert_eq!(last.unwrap_err().kind(), ErrorKind::Unavailable, "cut after {length} bytes");
        }
    }

    #[test]
    fn what_follows_the_last_line_is_not_left_out_in_silence() {
        for more in ["{\"item\":\"AQ==\"}\n", "{\"end\":1}\n", "{\"end\":2}\n", "\n", "x"] {
            let bytes = format!("{{\"item\":\"AQ==\"}}\n{{\"end\":1}}\n{more}");
            for part in [1, 100] {
                let mut back = read(bytes.as_bytes(), part);
                assert_eq!(back.pop().unwrap().unwrap_err().kind(), ErrorKind::InvalidArgument, "{more}");
                assert_eq!(back.len(), 1, "{more}");
            }
        }
    }

    #[test]
    fn an_error_of_the_sender_is_not_one_of_the_reader() {
        let parts = vec![Ok(b"{\"error\":{\"code\":\"internal\",\"message\":\"oh\"}}\n")];
        let error = all(Read::<Vec<u8>, _>::of_request(Lines::new(Of(parts.into_iter())))).pop().unwrap();
        let error = error.unwrap_err();
        assert!(
            error.kind() == ErrorKind::InvalidArgument && error.message().contains("`internal`: oh"),
            "{error}"
        );
    }

    #[test]
    fn an_error_is_the_last_item() {
        let source: Items<Vec<u8>> =
            Box::pin(Of(vec![Ok(vec![1]), Err(Error::run_ended()), Ok(vec![2])].into_iter()));
        let mut back = read(&all(Written::new(None, source)).concat(), 9);
        assert_eq!(back.pop().unwrap().unwrap_err().kind(), ErrorKind::RunEnded);
        assert_eq!(back.len(), 1);
    }
}
