//! Converts streams of records and dumps from and to vectors.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use memory_core::sql::DumpStream;
use memory_core::{Record, RecordStream, Result};

struct Queue<T>(VecDeque<Result<T>>);

impl<T: Unpin> Stream for Queue<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.pop_front())
    }
}

/// A stream of these.
#[must_use]
pub fn records(records: Vec<Result<Record>>) -> RecordStream {
    Box::pin(Queue(records.into()))
}

/// The next record; `None` at the end.
pub async fn next(stream: &mut RecordStream) -> Option<Result<Record>> {
    std::future::poll_fn(|context| stream.as_mut().poll_next(context)).await
}

/// Every record.
///
/// # Errors
/// The first error of the stream.
pub async fn collect(mut stream: RecordStream) -> Result<Vec<Record>> {
    let mut records = Vec::new();
    while let Some(record) = next(&mut stream).await {
        records.push(record?);
    }
    Ok(records)
}

/// A dump of these lines.
#[must_use]
pub fn lines(lines: Vec<Result<Vec<u8>>>) -> DumpStream {
    Box::pin(Queue(lines.into()))
}

/// The next line of a dump; `None` at its end.
pub async fn next_line(dump: &mut DumpStream) -> Option<Result<Vec<u8>>> {
    std::future::poll_fn(|context| dump.as_mut().poll_next(context)).await
}

/// Every line of a dump.
///
/// # Errors
/// The first error of the dump.
pub async fn collect_lines(mut dump: DumpStream) -> Result<Vec<Vec<u8>>> {
    let mut lines = Vec::new();
    while let Some(line) = next_line(&mut dump).await {
        lines.push(line?);
    }
    Ok(lines)
}
