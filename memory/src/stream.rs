//! Streams, without a dependency.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};

use memory_core::Stream;

/// The next item.
pub(crate) async fn next<T>(stream: &mut Pin<Box<dyn Stream<Item = T> + Send>>) -> Option<T> {
    poll_fn(|context| stream.as_mut().poll_next(context)).await
}

/// A stream of items in memory.
pub(crate) fn of<T: Send + Unpin + 'static>(items: Vec<T>) -> Pin<Box<dyn Stream<Item = T> + Send>> {
    struct Items<T>(std::vec::IntoIter<T>);

    impl<T: Unpin> Stream for Items<T> {
        type Item = T;

        fn poll_next(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<T>> {
            Poll::Ready(self.0.next())
        }
    }

    Box::pin(Items(items.into_iter()))
}
