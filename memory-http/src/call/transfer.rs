//! Bodies that are sent or read as they come: [`Upload`], [`Download`].

use std::fmt;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use futures_core::Stream;
use http_body::{Body as _, Frame};
use memory_core::{Error, Result};

use crate::call::failure::Failure;
use crate::call::reply::Reply;
use crate::call::request::Call;

/// A request's body, made while it is sent.
pub type Upload = Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>;

/// An upload in the form that the transport needs: shareable, though nobody shares it.
pub(crate) struct UploadBody(pub(crate) Mutex<Upload>);

impl http_body::Body for UploadBody {
    type Data = Bytes;
    type Error = std::convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        let upload = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        let part = ready!(upload.as_mut().poll_next(context));
        Poll::Ready(part.map(|part| Ok(Frame::data(part.into()))))
    }
}

/// Whether the transport has asked for a request's body, which it does before it sends the head. The first to claim
/// this wins: a call that claims it when its time is up has sent nothing, and never will.
#[derive(Clone, Debug, Default)]
pub(crate) struct Unsent(Arc<AtomicBool>);

impl Unsent {
    /// Returns whether nobody claimed it before.
    pub(crate) fn claim(&self) -> bool {
        !self.0.swap(true, Ordering::AcqRel)
    }

    /// The body, which claims this when it is requested.
    pub(crate) fn watch(&self, body: reqwest::Body) -> reqwest::Body {
        reqwest::Body::wrap(WatchedBody { body, unsent: Some(self.clone()) })
    }
}

struct WatchedBody {
    body: reqwest::Body,
    /// Present until it is requested.
    unsent: Option<Unsent>,
}

impl http_body::Body for WatchedBody {
    type Data = Bytes;
    type Error = Box<dyn std::error::Error + Send + Sync>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, Self::Error>>> {
        if self.unsent.take().is_some_and(|unsent| !unsent.claim()) {
            return Poll::Ready(Some(Err("the call has ended".into())));
        }
        Pin::new(&mut self.body).poll_frame(context).map_err(Into::into)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A reply whose body is read as it arrives, as a stream of parts. Dropping it closes the connection.
pub struct Download {
    pub(crate) reply: Reply,
    /// `None` once it ended, and for a status other than 2xx, whose body is in `reply`.
    pub(crate) body: Option<reqwest::Body>,
    pub(crate) call: Call,
}

impl Download {
    /// The status and headers; the body too, for a status other than 2xx.
    #[must_use]
    pub fn reply(&self) -> &Reply {
        &self.reply
    }
}

impl Stream for Download {
    type Item = Result<Bytes, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            let Some(body) = &mut self.body else { return Poll::Ready(None) };
            match ready!(Pin::new(body).poll_frame(context)) {
                Some(Ok(frame)) => {
                    if let Ok(part) = frame.into_data() {
                        return Poll::Ready(Some(Ok(part)));
                    }
                }
                Some(Err(error)) => {
                    self.body = None;
                    return Poll::Ready(Some(Err(Failure::of_transport(error, &self.call).error)));
                }
                None => self.body = None,
            }
        }
    }
}

impl fmt::Debug for Download {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Download").field("reply", &self.reply).finish_non_exhaustive()
    }
}
