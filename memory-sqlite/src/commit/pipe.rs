//! A bounded stream from a worker thread to a possibly slow reader.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use futures_core::Stream;
use memory_core::{Error, Result};

use crate::error::closed;

/// Most items, and most bytes, buffered for a slow reader.
pub(crate) const BUFFER_ITEMS: usize = 64;
pub(crate) const BUFFER_BYTES: usize = 4 << 20;

/// The pipe between a thread and its reader.
pub(crate) struct Pipe<T> {
    state: Mutex<State<T>>,
    /// Signalled when there is space, or the reader is gone.
    not_full: Condvar,
}

struct State<T> {
    items: VecDeque<(usize, Result<T>)>,
    bytes: usize,
    ended: bool,
    abandoned: bool,
    reader: Option<Waker>,
}

impl<T> Default for Pipe<T> {
    fn default() -> Self {
        let state = State { items: VecDeque::new(), bytes: 0, ended: false, abandoned: false, reader: None };
        Self { state: Mutex::new(state), not_full: Condvar::new() }
    }
}

impl<T> Pipe<T> {
    fn lock(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends an item, waiting for space up to the timeout. False if the stream has ended: the reader is gone, or the item or the
    /// wait was an error.
    pub(crate) fn push(
        &self,
        bytes: usize,
        item: Result<T>,
        timeout: Duration,
        is_closed: impl Fn() -> bool,
    ) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        let mut item = item;
        while !state.abandoned
            && (state.items.len() >= BUFFER_ITEMS || state.bytes > BUFFER_BYTES)
            && item.is_ok()
        {
            let now = Instant::now();
            if is_closed() {
                item = Err(closed());
            } else if now >= deadline {
                item = Err(Error::timeout(
                    "the export was cancelled: its next record was not read in time; start it again",
                ));
            } else {
                let pause = (deadline - now).min(Duration::from_millis(100));
                state = self.not_full.wait_timeout(state, pause).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let goes_on = item.is_ok() && !state.abandoned;
        state.bytes += bytes;
        state.items.push_back((bytes, item));
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
        goes_on
    }

    /// Ends the stream.
    pub(crate) fn end(&self) {
        let mut state = self.lock();
        state.ended = true;
        if let Some(reader) = state.reader.take() {
            drop(state);
            reader.wake();
        }
    }
}

/// The reader's end. An error is the last item.
pub(crate) struct Reader<T> {
    pipe: Arc<Pipe<T>>,
    done: bool,
}

impl<T> Reader<T> {
    pub(crate) fn new(pipe: Arc<Pipe<T>>) -> Self {
        Self { pipe, done: false }
    }
}

impl<T> Stream for Reader<T> {
    type Item = Result<T>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        if self.done {
            return Poll::Ready(None);
        }
        let mut state = self.pipe.lock();
        match state.items.pop_front() {
            Some((bytes, item)) => {
                state.bytes -= bytes;
                drop(state);
                self.pipe.not_full.notify_one();
                self.done = item.is_err();
                Poll::Ready(Some(item))
            }
            None if state.ended => Poll::Ready(None),
            None => {
                state.reader = Some(context.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl<T> Drop for Reader<T> {
    fn drop(&mut self) {
        self.pipe.lock().abandoned = true;
        self.pipe.not_full.notify_one();
    }
}
