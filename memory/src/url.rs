//! A backend's URL: `scheme:path?name=value`.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use memory_core::{Error, Result};

/// Longest URL, in bytes.
pub const MAX_URL_BYTES: usize = 8_192;
const MAX_SCHEME_BYTES: usize = 32;

/// A backend's URL. `Display` and `Debug` show where it points but no secrets: they omit user, password, the path after
/// a host and the values of parameters.
///
/// ```
/// use memory::BackendUrl;
/// let url: BackendUrl = "postgres://app:s3cret@db.example/memory?sslmode=require".parse()?;
/// assert_eq!(url.scheme(), "postgres");
/// assert_eq!(url.to_string(), "postgres://…@db.example/…?sslmode=…");
/// # Ok::<(), memory::Error>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct BackendUrl {
    scheme: String,
    rest: String,
}

impl BackendUrl {
    /// Splits off the scheme; the factory parses the rest.
    ///
    /// # Errors
    /// `invalid_argument` without a scheme, or with control characters; `too_large` over 8 KiB.
    /// The text is never quoted, since it may contain a password.
    pub fn parse(text: &str) -> Result<Self> {
        if text.len() > MAX_URL_BYTES {
            return Err(Error::too_large("backend URL", text.len(), MAX_URL_BYTES, "bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(Error::invalid(
                "the backend URL has a control character; percent-encode it or remove it",
            ));
        }
        match text.split_once(':') {
            Some((scheme, rest)) if is_scheme(scheme) => {
                Ok(Self { scheme: scheme.to_owned(), rest: rest.to_owned() })
            }
            _ => Err(Error::invalid(
                "a backend URL begins with a scheme in lower case, as in `sqlite:memory.db` or `sqlite::memory:`",
            )),
        }
    }

    /// The part before the first colon.
    #[must_use]
    pub fn scheme(&self) -> &str {
        &self.scheme
    }

    /// Everything after the first colon, including secrets, not decoded.
    #[must_use]
    pub fn expose_rest(&self) -> &str {
        &self.rest
    }

    /// The part between scheme and parameters, percent-decoded.
    ///
    /// # Errors
    /// `invalid_argument` for an invalid escape, an escape that is not UTF-8, NUL, or a fragment.
    pub fn decoded_path(&self) -> Result<String> {
        if self.rest.contains('#') {
            return Err(Error::invalid(
                "the backend URL has a `#`; write it as %23 where it belongs to the path",
            ));
        }
        percent_decode(self.rest.split_once('?').map_or(self.rest.as_str(), |(path, _)| path))
    }

    /// The same with more parameters. A repeated parameter is refused by [`BackendUrl::parameters`].
    pub(crate) fn with_parameters(&self, more: &[(String, String)]) -> Self {
        let mut rest = self.rest.clone();
        for (name, value) in more {
            rest.push(if rest.contains('?') { '&' } else { '?' });
            percent_encode(name, &mut rest);
            rest.push('=');
            percent_encode(value, &mut rest);
        }
        Self { scheme: self.scheme.clone(), rest }
    }

    /// Identifies the store in one spelling, for code that keeps data about it and cannot ask the store: scheme, host,
    /// path and sorted parameters. Omits user, password, and parameters that contain a secret or only affect how the
    /// store is used (limits, TLS, the program's name). Not for display.
    #[must_use]
    pub fn identity(&self) -> String {
        let scheme = if self.scheme == "postgresql" { "postgres" } else { self.scheme.as_str() };
        let (place, query) = self.rest.split_once('?').unwrap_or((self.rest.as_str(), ""));
        let place = match place.strip_prefix("//") {
            None => place.to_owned(),
            Some(place) => {
                let (host, path) = place.split_at(place.find('/').unwrap_or(place.len()));
                let host = host.rsplit_once('@').map_or(host, |(_, host)| host).to_ascii_lowercase();
                format!("//{host}{}", path.trim_end_matches('/'))
            }
        };
        // A part that cannot be decoded is used as is.
        let decoded = |text: &str| percent_decode(text).unwrap_or_else(|_| text.to_owned());
        let parameters: std::collections::BTreeSet<(String, String)> = query
            .split('&')
            .filter_map(|pair| pair.split_once('='))
            .map(|(name, value)| (decoded(name), decoded(value)))
            .filter(|(name, _)| says_which_store(name))
            .collect();
        format!("{scheme}:{place} {parameters:?}")
    }

    /// The parameters after `?`, percent-decoded, each once.
    ///
    /// # Errors
    /// `invalid_argument` for one without `=`, a repeated one, or an invalid escape.
    pub fn parameters(&self) -> Result<BTreeMap<String, String>> {
        let mut parameters = BTreeMap::new();
        let Some((_, query)) = self.rest.split_once('?') else { return Ok(parameters) };
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Error::invalid("a parameter of the backend URL has no `=`; write `?name=value&name=value`")
            })?;
            let name = percent_decode(name)?;
            if !is_parameter_name(&name) {
                return Err(Error::invalid(
                    "a parameter name of the backend URL is not made of letters, digits, `_`, `-` and `.`",
                ));
            }
            if parameters.contains_key(&name) {
                return Err(Error::invalid(format!(
                    "the backend URL has the parameter `{name}` twice; keep one"
                )));
            }
            parameters.insert(name, percent_decode(value)?);
        }
        Ok(parameters)
    }
}

fn is_scheme(text: &str) -> bool {
    text.len() <= MAX_SCHEME_BYTES
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.'))
}

/// Whether a scheme may be registered.
pub(crate) fn check_scheme(text: &str) -> Result<()> {
    if is_scheme(text) {
        Ok(())
    } else {
        Err(Error::invalid(
            "a scheme is 1 to 32 of a-z, 0-9, `+`, `-`, `.` and begins with a letter (RFC 3986, in lower case)",
        ))
    }
}

fn is_parameter_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.'))
}

fn says_which_store(name: &str) -> bool {
    let is_use = ["_ms", "_bytes", "_timeout", "_file"].iter().any(|ending| name.ends_with(ending))
        && !matches!(name, "api_key_file" | "tenant_key_file");
    !(is_use
        || name.starts_with("ssl")
        || name.contains("password")
        || matches!(name, "passfile" | "application_name"))
}

fn percent_encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/') {
            out.push(char::from(byte));
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
}

fn percent_decode(text: &str) -> Result<String> {
    let broken =
        || Error::invalid("a `%` in the backend URL is not followed by two hexadecimal digits; write %25");
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let mut digit = || {
                rest.next()
                    .and_then(|digit| char::from(digit).to_digit(16))
                    .and_then(|digit| u8::try_from(digit).ok())
            };
            let (high, low) = (digit().ok_or_else(broken)?, digit().ok_or_else(broken)?);
            bytes.push(high << 4 | low);
        } else {
            bytes.push(byte);
        }
    }
    if bytes.contains(&0) {
        return Err(Error::invalid("the backend URL contains a NUL (%00); remove it"));
    }
    String::from_utf8(bytes).map_err(|_| Error::invalid("the escapes of the backend URL are not UTF-8"))
}

impl FromStr for BackendUrl {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::parse(text)
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.scheme)?;
        let (hidden, shown) = match self.rest.rsplit_once('@') {
            // A password may contain any of `/?#@` unencoded, and a path or parameter may contain `@`. After such an
            // `@` there may be a host or part of a secret.
            Some((before, _)) if before.trim_start_matches('/').contains(['/', '?', '#']) => {
                return f.write_str("…");
            }
            Some((_, shown)) => (true, shown),
            None => (false, self.rest.as_str()),
        };
        let has_host = self.rest.starts_with("//");
        let shown = if has_host && !hidden { shown.trim_start_matches('/') } else { shown };
        let shown = shown.split_once('#').map_or(shown, |(shown, _)| shown);
        let (place, query) = shown.split_once('?').unwrap_or((shown, ""));
        if has_host {
            f.write_str(if self.rest.starts_with("///") { "///" } else { "//" })?;
        }
        if hidden {
            f.write_str("…@")?;
        }
        match place.split_once('/') {
            Some((host, _)) if has_host => write!(f, "{host}/…")?,
            _ => f.write_str(place)?,
        }
        for (index, pair) in query.split('&').filter(|pair| !pair.is_empty()).enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            match pair.split_once('=') {
                Some((name, _)) if is_parameter_name(name) => write!(f, "{separator}{name}=…")?,
                _ => write!(f, "{separator}…")?,
            }
        }
        Ok(())
    }
}

impl fmt::Debug for BackendUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BackendUrl({self})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn url(text: &str) -> BackendUrl {
        BackendUrl::parse(text).unwrap()
    }

    #[test]
    fn path_and_parameters_are_percent_decoded() {
        let url = url("sqlite:my%20notes/%C3%A9%3F.db?durability=normal&name=a%26b");
        assert_eq!(url.decoded_path().unwrap(), "my notes/é?.db");
        let parameters = url.parameters().unwrap();
        assert_eq!(parameters["durability"], "normal");
        assert_eq!(parameters["name"], "a&b");
    }

    #[test]
    fn broken_urls_are_refused_without_being_quoted() {
        for bad in ["", "memory.db", ":x", "SQLite:x", "1a:x", "a b:x", "hunter2\n:x", &"x".repeat(9_000)] {
            let error = BackendUrl::parse(bad).unwrap_err();
            assert!(!error.to_string().contains("hunter2"), "{error}");
        }
        for bad in ["sqlite:%", "sqlite:%4", "sqlite:%zz", "sqlite:%ff", "sqlite:a%00b", "sqlite:a#b"] {
            assert!(url(bad).decoded_path().is_err(), "{bad}");
        }
        for bad in ["sqlite:a?x", "sqlite:a?x=1&x=2", "sqlite:a?=1", "sqlite:a?x y=1", "sqlite:a?x=%"] {
            assert!(url(bad).parameters().is_err(), "{bad}");
        }
    }

    #[test]
    fn neither_display_nor_debug_shows_a_secret() {
        for text in [
            "postgres://app:hunter2@db/memory",
            "postgres://app:hun/hunter2@db/memory",
            "postgres://app:p?hunter2@db/memory",
            "postgres://app:p#hunter2@db",
            "postgres://app@hunter2@db",
            "mem0+https://api.example/v1?api_key=hunter2",
            "mem0+https://api.example/hunter2",
            "mem0+https://api.example#hunter2",
            "mem0+https://api.example?hunter2",
            "mem0+https://api.example/v1?api_key=a@hunter2",
            "mem0+https://api.example/v1/a@hunter2/b",
            "mem0+https://api.example#a@hunter2",
            "mem0+https://api.example?a=b#&hunter2=c",
            "redis:app:hunter2@host",
        ] {
            let url = url(text);
            for shown in [url.to_string(), format!("{url:?}")] {
                assert!(!shown.contains("hunter2"), "{text} shows as {shown}");
                assert!(shown.contains(url.scheme()));
            }
        }
    }

    #[test]
    fn an_identity_is_unique_per_store_and_equal_for_all_its_spellings() {
        let of = |text: &str| url(text).identity();
        let prod = of("postgres://app:hunter2@db.example/prod?schema=a&sslmode=require");
        assert!(!prod.contains("hunter2") && !prod.contains("app"), "{prod}");
        for other in [
            "postgres://app:hunter2@db.example/staging?schema=a&sslmode=require",
            "postgres://app:hunter2@db.example/prod?schema=b&sslmode=require",
            "postgres://app:hunter2@db.example:5433/prod?schema=a&sslmode=require",
        ] {
            assert_ne!(of(other), prod, "{other}");
        }
        for same in [
            "postgresql://other@DB.example/prod?schema=a",
            "postgres://db.example/prod/?connect_timeout=5&schema=%61&password=hunter2",
        ] {
            assert_eq!(of(same), prod, "{same}");
        }
        assert_ne!(of("mem0+https://h/?api_key=env:A"), of("mem0+https://h/?api_key=env:B"));
        assert_eq!(
            of("mem0+https://h/base?timeout_ms=5&api_key=env:A"),
            of("mem0+https://h/base/?api_key=env:A")
        );
    }

    #[test]
    fn a_local_path_is_shown() {
        assert_eq!(url("sqlite:dir/a.db?durability=full").to_string(), "sqlite:dir/a.db?durability=…");
        assert_eq!(url("sqlite::memory:").to_string(), "sqlite::memory:");
    }
}
