//! Reads a request: single headers, and the body within limits on size and on the client's pauses. Also response bodies
//! that keep something alive.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderName, header};
use futures_core::Stream;
use hyper::body::{Frame, SizeHint};
use memory_core::{Error, ErrorKind};
use tokio::time::{Instant, Sleep};

use crate::place::Tally;

/// The text of a header that may occur only once.
pub(crate) fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(&name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Error::invalid(format!("the header `{name}` is given twice; send it once")));
    }
    // `HeaderValue::to_str` checks byte by byte, which is slow for a token.
    first
        .map(|value| {
            std::str::from_utf8(value.as_bytes())
                .ok()
                .filter(|text| text.is_ascii())
                .ok_or_else(|| Error::invalid(format!("the header `{name}` is not plain text")))
        })
        .transpose()
}

/// The token in an `Authorization` header.
pub(crate) fn token_of(given: &str) -> Option<&str> {
    given
        .split_once(' ')
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
}

/// The request's token, if any.
pub fn bearer(headers: &HeaderMap) -> Option<&str> {
    token_of(headers.get(header::AUTHORIZATION)?.to_str().ok()?)
}

/// How long to go on reading a body that nobody wants any more, how long its client may pause meanwhile, and how much
/// to read. If the connection were closed earlier, the client would lose the refusal and take it for a lost reply.
const LINGER: Duration = Duration::from_secs(5);
const LINGER_PAUSE: Duration = Duration::from_millis(500);
const LINGER_BYTES: usize = 256 << 20;

struct Guarded {
    inner: BodyDataStream,
    limit: usize,
    read: usize,
    pause: Duration,
    deadline: Pin<Box<Sleep>>,
    /// Whether to read the rest when nobody wants it.
    lingers: bool,
    tally: Option<Tally>,
}

impl Drop for Guarded {
    fn drop(&mut self) {
        if self.lingers {
            linger(std::mem::replace(&mut self.inner, Body::empty().into_data_stream()));
        }
    }
}

/// Reads the rest of a body and discards it.
pub(crate) fn linger(mut body: BodyDataStream) {
    let (Ok(runtime), false) =
        (tokio::runtime::Handle::try_current(), hyper::body::Body::is_end_stream(&body))
    else {
        return;
    };
    runtime.spawn(async move {
        let (end, mut left) = (Instant::now() + LINGER, LINGER_BYTES);
        loop {
            let next = std::future::poll_fn(|context| Pin::new(&mut body).poll_next(context));
            match tokio::time::timeout_at(end.min(Instant::now() + LINGER_PAUSE), next).await {
                Ok(Some(Ok(part))) if part.len() <= left => left -= part.len(),
                _ => return,
            }
        }
    });
}

/// Whether the client sends the body without waiting for `100 Continue`.
pub(crate) fn is_sent_unasked(headers: &HeaderMap) -> bool {
    !headers.contains_key(header::EXPECT)
}

/// The body. Reading it fails with a [`memory_core::Error`] beyond `limit` bytes, if the client pauses for longer than
/// `pause`, or if the tally refuses. `lingers`: if it is dropped early, the rest is read and discarded.
pub(crate) fn guarded(
    body: Body,
    limit: usize,
    pause: Duration,
    lingers: bool,
    tally: Option<Tally>,
) -> Body {
    let (inner, deadline) = (body.into_data_stream(), Box::pin(tokio::time::sleep(pause)));
    Body::from_stream(Guarded { inner, limit, read: 0, pause, deadline, lingers, tally })
}

/// Why a body could not be read.
pub fn cause(error: &axum::Error) -> Error {
    let mut at: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = at {
        if let Some(own) = error.downcast_ref::<Error>() {
            let told = Error::new(own.kind(), own.message().to_owned()).with_retry(own.retry());
            let details = own.details().iter();
            return details.fold(told, |told, (name, value)| told.with_detail(name, value.clone()));
        }
        at = error.source();
    }
    Error::invalid("the body ends too early or is malformed; send it whole")
}

impl Stream for Guarded {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = &mut *self;
        if let Poll::Ready(next) = Pin::new(&mut this.inner).poll_next(context) {
            this.deadline.as_mut().reset(Instant::now() + this.pause);
            this.lingers = matches!(next, Some(Ok(_)));
            return Poll::Ready(next.map(|chunk| {
                let chunk = chunk.map_err(|error| cause(&error))?;
                this.read = this.read.saturating_add(chunk.len());
                if this.read > this.limit {
                    return Err(Error::too_large("body", this.read, this.limit, "bytes"));
                }
                this.tally.as_mut().map_or(Ok(()), |tally| tally.add(&chunk))?;
                Ok(chunk)
            }));
        }
        ready!(this.deadline.as_mut().poll(context));
        this.lingers = false;
        Poll::Ready(Some(Err(Error::new(
            ErrorKind::Timeout,
            "the body did not arrive in time; send it faster",
        ))))
    }
}

struct Until<F> {
    parts: BodyDataStream,
    is_over: F,
}

/// A body that ends at the first part that arrives once `is_over`.
pub fn until(body: Body, is_over: impl Fn() -> bool + Send + Unpin + 'static) -> Body {
    Body::from_stream(Until { parts: body.into_data_stream(), is_over })
}

impl<F: Fn() -> bool + Unpin> Stream for Until<F> {
    type Item = Result<Bytes, axum::Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let part = ready!(Pin::new(&mut self.parts).poll_next(context));
        Poll::Ready(part.filter(|_| !(self.is_over)()))
    }
}

/// How many bytes of a body are handed over at a time.
const PART: usize = 64 << 10;

/// A body that keeps something alive until it has been sent or dropped. It is handed over in small parts, because
/// nobody can tell when a large part has been sent.
struct Keeping<T> {
    inner: Body,
    rest: Bytes,
    _kept: T,
}

/// The body, which keeps `kept` alive until it has been sent or dropped.
pub fn keeping(body: Body, kept: impl Send + Unpin + 'static) -> Body {
    Body::new(Keeping { inner: body, rest: Bytes::new(), _kept: kept })
}

impl<T: Unpin> hyper::body::Body for Keeping<T> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        if self.rest.is_empty() {
            let Some(frame) = ready!(Pin::new(&mut self.inner).poll_frame(context)) else {
                return Poll::Ready(None);
            };
            match frame?.into_data() {
                Ok(data) => self.rest = data,
                Err(trailers) => return Poll::Ready(Some(Ok(trailers))),
            }
        }
        let part = self.rest.len().min(PART);
        Poll::Ready(Some(Ok(Frame::data(self.rest.split_to(part)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty() && self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        let rest = u64::try_from(self.rest.len()).unwrap_or(u64::MAX);
        let (inner, mut hint) = (self.inner.size_hint(), SizeHint::new());
        hint.set_lower(inner.lower().saturating_add(rest));
        if let Some(upper) = inner.upper() {
            hint.set_upper(upper.saturating_add(rest));
        }
        hint
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

    use super::*;

    #[tokio::test]
    async fn a_stream_ends_with_the_first_part_that_comes_when_it_is_over() {
        struct Endless;
        impl Stream for Endless {
            type Item = Result<Bytes, Error>;

            fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
                Poll::Ready(Some(Ok(Bytes::from_static(b": "))))
            }
        }
        let over = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&over);
        let mut body = until(Body::from_stream(Endless), move || seen.load(Relaxed)).into_data_stream();
        let mut next = async || std::future::poll_fn(|context| Pin::new(&mut body).poll_next(context)).await;
        assert!(next().await.is_some_and(|part| part.is_ok()));
        over.store(true, Relaxed);
        assert!(next().await.is_none());
    }
}
