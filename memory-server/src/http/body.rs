//! What a request brings: a header that comes once, and its body within limits of size and of the client's pauses. And an
//! answer's body with what it keeps.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Body, BodyDataStream, Bytes};
use axum::http::{HeaderMap, HeaderName};
use futures_core::Stream;
use hyper::body::{Frame, SizeHint};
use memory_core::{Error, ErrorKind};
use tokio::time::{Instant, Sleep};

/// The text of a header that may be there once.
pub(crate) fn only(headers: &HeaderMap, name: HeaderName) -> Result<Option<&str>, Error> {
    let mut values = headers.get_all(&name).iter();
    let first = values.next();
    if values.next().is_some() {
        return Err(Error::invalid(format!("the header `{name}` is given twice; send it once")));
    }
    // `HeaderValue::to_str` looks at one byte after another, which of a token takes a while.
    first
        .map(|value| {
            std::str::from_utf8(value.as_bytes())
                .ok()
                .filter(|text| text.is_ascii())
                .ok_or_else(|| Error::invalid(format!("the header `{name}` is not plain text")))
        })
        .transpose()
}

struct Guarded {
    inner: BodyDataStream,
    limit: usize,
    read: usize,
    pause: Duration,
    deadline: Pin<Box<Sleep>>,
}

/// The body; over `limit` bytes, or where the client pauses longer than `pause`, reading it fails with a
/// [`memory_core::Error`].
pub(crate) fn guarded(body: Body, limit: usize, pause: Duration) -> Body {
    let inner = body.into_data_stream();
    Body::from_stream(Guarded { inner, limit, read: 0, pause, deadline: Box::pin(tokio::time::sleep(pause)) })
}

/// Why a body could not be read.
pub(crate) fn cause(error: &axum::Error) -> Error {
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
            return Poll::Ready(next.map(|chunk| {
                let chunk = chunk.map_err(|error| cause(&error))?;
                this.read = this.read.saturating_add(chunk.len());
                if this.read > this.limit {
                    return Err(Error::too_large("body", this.read, this.limit, "bytes"));
                }
                Ok(chunk)
            }));
        }
        ready!(this.deadline.as_mut().poll(context));
        Poll::Ready(Some(Err(Error::new(
            ErrorKind::Timeout,
            "the body did not arrive in time; send it faster",
        ))))
    }
}

/// Bytes of a body that are given away at once.
const PART: usize = 64 << 10;

/// A body that keeps something until it is sent or given up. It goes in small parts: of a large one that is given away
/// whole, nobody knows when it is sent.
struct Keeping<T> {
    inner: Body,
    rest: Bytes,
    _kept: T,
}

/// The body, which keeps `kept` until it is sent or given up.
pub(crate) fn keeping(body: Body, kept: impl Send + Unpin + 'static) -> Body {
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
