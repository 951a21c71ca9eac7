//! The base URL of a service, and the URLs under it.

use std::fmt;

use memory_core::{Error, Result};

use crate::egress::origin::{self, Origin};

/// A base URL to which paths and parameters are added safely: everything except letters, digits and `-._~` is
/// percent-encoded, and `.` and `..` are refused.
///
/// ```
/// use memory_http::Endpoint;
/// let service = Endpoint::parse("https://api.example/memory/")?;
/// assert_eq!(
///     service.url(&["v1", "a b/../c"], &[("user_id", "x&y=*")])?,
///     "https://api.example/memory/v1/a%20b%2F..%2Fc?user_id=x%26y%3D%2A"
/// );
/// assert!(service.url(&[".."], &[]).is_err());
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    base: String,
    origin: Origin,
}

impl Endpoint {
    /// Parses a base URL; trailing slashes are ignored.
    ///
    /// # Errors
    /// As [`Origin::of`], and `invalid_argument` for a URL with parameters or a fragment.
    pub fn parse(base: &str) -> Result<Self> {
        let (url, origin) = origin::parse(base)?;
        if url.query().is_some() || url.fragment().is_some() {
            return Err(Error::invalid(
                "a base URL has no parameters and no fragment; write scheme, host and path",
            ));
        }
        Ok(Self { base: url.as_str().trim_end_matches('/').to_owned(), origin })
    }

    /// Scheme, host and port.
    #[must_use]
    pub fn origin(&self) -> &Origin {
        &self.origin
    }

    /// The URL of a path and parameters under the base. An empty last segment adds a trailing slash.
    ///
    /// # Errors
    /// `invalid_argument` for a segment that is `.`, `..`, or empty and not the last; `too_large` for a URL of
    /// over 8,192 bytes.
    pub fn url(&self, path: &[&str], parameters: &[(&str, &str)]) -> Result<String> {
        let mut url = self.base.clone();
        for (index, segment) in path.iter().enumerate() {
            let last = index.saturating_add(1) == path.len();
            if matches!(*segment, "." | "..") || (segment.is_empty() && !last) {
                return Err(Error::invalid("a part of the path is empty or leads up; name the actual part"));
            }
            url.push('/');
            encode(segment, &mut url);
        }
        for (index, (name, value)) in parameters.iter().enumerate() {
            url.push(if index == 0 { '?' } else { '&' });
            encode(name, &mut url);
            url.push('=');
            encode(value, &mut url);
        }
        if url.len() > origin::MAX_URL_BYTES {
            return Err(Error::too_large("URL", url.len(), origin::MAX_URL_BYTES, "bytes"));
        }
        Ok(url)
    }
}

/// Shows only the origin: a path may be confidential.
impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Endpoint({})", self.origin)
    }
}

fn encode(text: &str, url: &mut String) {
    use fmt::Write as _;
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            url.push(char::from(byte));
        } else {
            // Writing to a string cannot fail.
            let _ = write!(url, "%{byte:02X}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slashes_are_where_they_are_asked_for() {
        let service = Endpoint::parse("http://localhost:8080///").unwrap();
        assert_eq!(service.url(&[], &[]).unwrap(), "http://localhost:8080");
        assert_eq!(service.url(&["v1", "ping", ""], &[]).unwrap(), "http://localhost:8080/v1/ping/");
        assert_eq!(
            service.url(&["a"], &[("b", ""), ("c", "é")]).unwrap(),
            "http://localhost:8080/a?b=&c=%C3%A9"
        );
    }

    #[test]
    fn nothing_leads_up_or_elsewhere() {
        let service = Endpoint::parse("https://api.example/base").unwrap();
        for path in [&["."][..], &["..", "x"], &["", "x"], &["x", "..", "y"]] {
            assert!(service.url(path, &[]).is_err(), "{path:?}");
        }
        for segment in ["%2e%2e", "../x", "//evil.example", "\\evil", "x?y#z", "@evil", "a\r\nb", "\0"] {
            let url = service.url(&[segment], &[(segment, segment)]).unwrap();
            let (parsed, origin) = origin::parse(&url).unwrap();
            assert_eq!(origin.to_string(), "https://api.example:443", "{segment:?}");
            assert!(parsed.path().starts_with("/base/"), "{url}");
            assert_eq!(parsed.path_segments().unwrap().count(), 2, "{url}");
            assert_eq!(parsed.query_pairs().count(), 1, "{url}");
        }
        assert!(service.url(&[&"x".repeat(9_000)], &[]).is_err());
        assert!(Endpoint::parse("https://api.example/?key=1").is_err());
        assert!(Endpoint::parse("https://api.example/#x").is_err());
    }
}
