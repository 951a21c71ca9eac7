//! Streams that are sent, and streams that are read.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_core::Stream;
use memory_core::{Error, Failure, Result};
use tokio::time::{Sleep, sleep};

/// What ended a stream that was sent.
#[derive(Clone, Default)]
pub(crate) struct Cause(Arc<Mutex<Option<Error>>>);

impl Cause {
    /// The error, once.
    pub(crate) fn take(&self) -> Option<Error> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

/// A stream that notes its error, for the caller to have it with its cause; the server gets it without.
pub(crate) struct Noted<T> {
    pub(crate) items: Pin<Box<dyn Stream<Item = Result<T>> + Send>>,
    pub(crate) cause: Cause,
}

impl<T> Stream for Noted<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let item = ready!(self.items.as_mut().poll_next(context));
        Poll::Ready(item.map(|item| {
            item.map_err(|error| {
                let told = Failure::from(&error).into();
                *self.cause.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                told
            })
        }))
    }
}

/// A stream that is read, with a deadline for each of its items.
pub(crate) struct Timed<S> {
    items: Option<S>,
    timeout: Duration,
    /// Of the item that is waited for.
    deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Timed<S> {
    pub(crate) fn new(items: S, timeout: Duration) -> Self {
        Self { items: Some(items), timeout, deadline: None }
    }
}

impl<T, S: Stream<Item = Result<T>> + Unpin> Stream for Timed<S> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Result<T>>> {
        let this = &mut *self;
        let Some(items) = &mut this.items else { return Poll::Ready(None) };
        if let Poll::Ready(item) = Pin::new(items).poll_next(context) {
            this.deadline = None;
            return Poll::Ready(item);
        }
        let timeout = this.timeout;
        ready!(this.deadline.get_or_insert_with(|| Box::pin(sleep(timeout))).as_mut().poll(context));
        this.items = None;
        Poll::Ready(Some(Err(Error::timeout(
            "the server did not send the next part of the stream in time; try again, or raise `stream_timeout_ms`",
        ))))
    }
}
