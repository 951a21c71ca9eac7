//! Streams that are sent.

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use futures_core::Stream;
use memory_core::{Error, Failure, Result};

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
