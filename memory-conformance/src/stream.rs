//! Record streams from and to vectors.

use std::collections::VecDeque;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use memory_core::{Record, RecordStream, Result};

struct Queue(VecDeque<Result<Record>>);

impl Stream for Queue {
    type Item = Result<Record>;

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
