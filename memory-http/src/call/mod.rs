//! One call: request, reply and retries.

pub(crate) mod breaker;
pub(crate) mod failure;
pub(crate) mod kind;
pub(crate) mod reply;
pub(crate) mod request;
pub(crate) mod retry;
pub(crate) mod timer;
pub(crate) mod transfer;
