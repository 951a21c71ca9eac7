//! Streams, without a crate for them.

use std::future::poll_fn;
use std::pin::Pin;

use memory_core::Stream;

/// The next item.
pub(super) async fn next<T>(stream: &mut Pin<Box<dyn Stream<Item = T> + Send>>) -> Option<T> {
    poll_fn(|context| stream.as_mut().poll_next(context)).await
}
