//! Streams of records.

use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;

use super::transfer::Record;
use crate::error::Result;

/// A stream of export records. An `Err` item ends it.
pub type RecordStream = Pin<Box<dyn Stream<Item = Result<Record>> + Send>>;

/// A stream of records that are available without waiting, read on demand.
pub fn record_stream(records: impl Iterator<Item = Result<Record>> + Send + 'static) -> RecordStream {
    Box::pin(Records(Box::new(records)))
}

struct Records(Box<dyn Iterator<Item = Result<Record>> + Send>);

impl Stream for Records {
    type Item = Result<Record>;

    fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(self.0.next())
    }
}
