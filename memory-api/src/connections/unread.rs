//! A connection whose client must read: one that reads nothing for too long is ended, because it holds a place and its
//! answers in memory.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep};

/// A stream. Writing fails if the peer reads nothing for longer than `pause`.
pub(super) struct Taken<S> {
    stream: S,
    pause: Duration,
    /// When the pending write fails, if there is one.
    until: Option<Pin<Box<Sleep>>>,
}

impl<S> Taken<S> {
    pub(super) fn new(stream: S, pause: Duration) -> Self {
        Self { stream, pause, until: None }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Taken<S> {
    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        work: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if let Poll::Ready(done) = work(Pin::new(&mut self.stream), context) {
            self.until = None;
            return Poll::Ready(done);
        }
        let end = Instant::now() + self.pause;
        let until = self.until.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(end)));
        ready!(until.as_mut().poll(context));
        Poll::Ready(Err(io::Error::from(io::ErrorKind::TimedOut)))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Taken<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Taken<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write(context, bytes))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, |stream, context| stream.poll_flush(context))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, |stream, context| stream.poll_shutdown(context))
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.within(context, |stream, context| stream.poll_write_vectored(context, bytes))
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
