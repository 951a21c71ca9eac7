//! The method of a call, and whether it may be repeated.

/// The method of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Method {
    /// `GET`.
    Get,
    /// `POST`.
    Post,
    /// `PUT`.
    Put,
    /// `PATCH`.
    Patch,
    /// `DELETE`.
    Delete,
}

impl Method {
    /// Its name on the wire.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Get => "GET",
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
            Self::Delete => "DELETE",
        }
    }

    pub(crate) fn to_transport(self) -> reqwest::Method {
        match self {
            Self::Get => reqwest::Method::GET,
            Self::Post => reqwest::Method::POST,
            Self::Put => reqwest::Method::PUT,
            Self::Patch => reqwest::Method::PATCH,
            Self::Delete => reqwest::Method::DELETE,
        }
    }
}

/// The effect of repeating a call. It decides which failures are retried, and how a lost reply is reported.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// Changes nothing on the server: a read, a search, an embedding. Repeated if the reply was lost or cut short, and
    /// after 408, 425, 429, 500, 502, 503 and 504.
    Safe,
    /// Changes something, and repeating it changes nothing more: a put, a delete. As `Safe`, but a 500 is final.
    Idempotent,
    /// Must not happen twice. Repeated only if it cannot have happened: no connection, or 429. A lost reply and every
    /// 5xx except 501 and 505 are `outcome_unknown`, since even a 503 may come from a proxy whose server did the work.
    NotIdempotent,
}

impl CallKind {
    pub(crate) fn repeats(self, status: u16) -> bool {
        match self {
            Self::Safe => matches!(status, 408 | 425 | 429 | 500 | 502 | 503 | 504),
            Self::Idempotent => matches!(status, 408 | 425 | 429 | 502 | 503 | 504),
            Self::NotIdempotent => status == 429,
        }
    }
}
