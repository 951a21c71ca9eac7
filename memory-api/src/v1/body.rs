//! Bodies of requests: whole, or as streams.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use axum::body::{Body, BodyDataStream, Bytes, to_bytes};
use memory_core::interposed::frames::Lines;
use memory_core::{Error, Result, Stream};

use crate::body::cause;

/// Largest body that is read as a whole: the largest bulk insert plus the names around it.
pub(super) const MAX_BODY_BYTES: usize = 80 << 20;

/// A body as text.
pub(super) async fn text(body: Body) -> Result<String> {
    let bytes = to_bytes(body, MAX_BODY_BYTES).await.map_err(unread)?;
    String::from_utf8(bytes.into())
        .map_err(|error| Error::invalid("the body is not UTF-8").with_source(error))
}

/// Why a body could not be read: the error of a lower layer, or that it is too large or incomplete.
fn unread(error: axum::Error) -> Error {
    let mut source = std::error::Error::source(&error);
    while let Some(at) = source {
        if at.to_string().contains("length limit") {
            return Error::too_large("body", MAX_BODY_BYTES.saturating_add(1), MAX_BODY_BYTES, "bytes");
        }
        source = at.source();
    }
    cause(&error).with_source(error)
}

/// A body as it comes.
pub(super) struct Parts(BodyDataStream);

impl Stream for Parts {
    type Item = Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let part = ready!(Pin::new(&mut self.0).poll_next(context));
        Poll::Ready(part.map(|part| part.map_err(unread)))
    }
}

/// The first line of a body, which holds the arguments, and the lines after it.
pub(super) async fn lines(body: Body) -> Result<(String, Lines<Parts>)> {
    let mut lines = Lines::new(Parts(body.into_data_stream()));
    let first = std::future::poll_fn(|context| lines.poll_line(context)).await;
    let first = first.ok_or_else(|| {
        Error::invalid("the body has no line; its first line is the JSON object of the arguments")
    })??;
    Ok((first, lines))
}

/// A stream of lines as a body.
pub(super) struct Written<S>(pub(super) S);

impl<S: Stream<Item = Vec<u8>> + Unpin> Stream for Written<S> {
    type Item = Result<Vec<u8>, std::convert::Infallible>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Pin::new(&mut self.0).poll_next(context).map(|part| part.map(Ok))
    }
}
