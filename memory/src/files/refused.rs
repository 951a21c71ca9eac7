//! Why a command did nothing.

use memory_core::{Error, ErrorKind};

#[derive(Debug)]
pub(super) enum Refused {
    /// In the wording that models know.
    Said(ErrorKind, String),
    /// In the wording of the store, the policy or the drift guard.
    Failed(Error),
}

pub(super) type Done<T> = Result<T, Refused>;

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

impl Refused {
    pub(super) fn missing(text: String) -> Self {
        Self::Said(ErrorKind::NotFound, text)
    }

    pub(super) fn invalid(text: String) -> Self {
        Self::Said(ErrorKind::InvalidArgument, text)
    }

    pub(super) fn exists(text: String) -> Self {
        Self::Said(ErrorKind::Conflict, text)
    }
}
