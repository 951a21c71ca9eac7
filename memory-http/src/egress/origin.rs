//! The origin of a call: scheme, host and port, without the rest of the URL.

use std::fmt;

use memory_core::{Error, Result};
use url::{Host, Url};

/// Longest URL, in bytes.
pub const MAX_URL_BYTES: usize = 8_192;

/// Scheme, host and port of a URL, normalised: hosts in lower case and Punycode, addresses in canonical form, always
/// with a port.
///
/// Contains no path, parameter or user, so it may appear in errors and logs.
///
/// ```
/// use memory_http::Origin;
/// let origin = Origin::of("https://API.example/v1?key=s3cret")?;
/// assert_eq!(origin.to_string(), "https://api.example:443");
/// assert_eq!(Origin::of("http://2130706433:8080/")?.host(), "127.0.0.1");
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Origin {
    secure: bool,
    host: String,
    port: u16,
}

impl Origin {
    /// The origin of `url`.
    ///
    /// # Errors
    /// `invalid_argument` for anything but an absolute `http` or `https` URL with a host and without user and password;
    /// `too_large` over [`MAX_URL_BYTES`]. The URL is never quoted.
    pub fn of(url: &str) -> Result<Self> {
        parse(url).map(|(_, origin)| origin)
    }

    /// Whether the scheme is `https`.
    #[must_use]
    pub fn is_secure(&self) -> bool {
        self.secure
    }

    /// The host: a name, or an address (IPv6 in brackets).
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = if self.secure { "https" } else { "http" };
        write!(f, "{scheme}://{}:{}", self.host, self.port)
    }
}

/// Parses a URL; returns it with the rest after dropping secrets.
pub(crate) fn parse(text: &str) -> Result<(Url, Origin)> {
    if text.len() > MAX_URL_BYTES {
        return Err(Error::too_large("URL", text.len(), MAX_URL_BYTES, "bytes"));
    }
    // URL parsers strip these silently; here they indicate splicing.
    if text.chars().any(|c| c.is_control() || c.is_whitespace()) {
        return Err(Error::invalid("the URL holds white space or a control character; percent-encode it"));
    }
    // Browsers also accept `https:host`, `https:///host` and `\\` for `/`, which a person reads differently.
    let rest = text.split_once("://").map(|(_, rest)| rest);
    if text.contains('\\') || rest.is_none_or(|rest| rest.starts_with('/')) {
        return Err(Error::invalid("the URL cannot be parsed; write it as https://host/path"));
    }
    let url = Url::parse(text).map_err(|error| {
        Error::invalid("the URL cannot be parsed; write it as https://host/path").with_source(error)
    })?;
    let secure = match url.scheme() {
        "https" => true,
        "http" => false,
        _ => return Err(Error::invalid("the URL is neither https nor http; only these are supported")),
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(Error::invalid(
            "the URL carries a user or password; give credentials by environment variable or file",
        ));
    }
    let (Some(host), Some(port)) = (url.host_str(), url.port_or_known_default()) else {
        return Err(Error::invalid("the URL has no host; write it as https://host/path"));
    };
    let origin = Origin { secure, host: host.to_owned(), port };
    Ok((url, origin))
}

/// The address in the URL itself, in any spelling.
pub(crate) fn literal_address(url: &Url) -> Option<std::net::IpAddr> {
    match url.host()? {
        Host::Ipv4(address) => Some(address.into()),
        Host::Ipv6(address) => Some(address.into()),
        Host::Domain(_) => None,
    }
}
