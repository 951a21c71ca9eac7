//! Which hosts may be reached: [`EgressPolicy`].

use std::collections::BTreeSet;
use std::net::IpAddr;

use memory_core::{Error, ErrorKind, Result};
use url::Url;

use crate::egress::address::AddressClass;
use crate::egress::origin::{self, Origin};

/// What the client may reach. By default only public addresses over https; anything else only if
/// [`EgressPolicy::allow_host`] lists the host and port.
///
/// Only the policy grants exemptions; nothing in a URL, a less trusted configuration or a reply adds to it.
///
/// ```
/// use memory_http::EgressPolicy;
/// let policy = EgressPolicy::new().allow_host("localhost:11434")?;
/// assert!(policy.check("http://localhost:11434/v1").is_ok());
/// assert!(policy.check("http://localhost:11435/v1").is_err());
/// assert!(policy.check("https://169.254.169.254/latest/meta-data").is_err());
/// # Ok::<(), memory_core::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EgressPolicy {
    listed: BTreeSet<(String, u16)>,
}

impl EgressPolicy {
    /// Only public addresses over https.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lists `host:port`, exactly as in URLs: this host may have a private or loopback address and be used without TLS.
    ///
    /// A listed *name* still cannot resolve to link-local, multicast or metadata addresses; list the address itself for
    /// those.
    ///
    /// # Errors
    /// `invalid_argument` if it is not `host:port`.
    pub fn allow_host(mut self, host_port: &str) -> Result<Self> {
        self.listed.insert(parse_listed(host_port)?);
        Ok(self)
    }

    /// Checks what the URL alone shows: scheme, listing, and an address in it. Names are checked again by their
    /// resolved address when connecting.
    ///
    /// # Errors
    /// `egress_denied` if the policy does not allow it, `invalid_argument` for an invalid URL.
    pub fn check(&self, url: &str) -> Result<()> {
        let (url, origin) = origin::parse(url)?;
        self.admit(&url, &origin).map(drop)
    }

    /// Whether `origin` is listed; an error if it must not be reached at all.
    pub(crate) fn admit(&self, url: &Url, origin: &Origin) -> Result<bool> {
        if self.listed.contains(&(origin.host().to_owned(), origin.port())) {
            return Ok(true);
        }
        if !origin.is_secure() {
            return Err(Error::new(
                ErrorKind::EgressDenied,
                format!(
                    "{origin} is not https; use https, or have the operator list `{}:{}`",
                    origin.host(),
                    origin.port()
                ),
            ));
        }
        match origin::literal_address(url).map(AddressClass::of) {
            Some(class) if !class.is_public() => Err(refusal(origin, class)),
            _ => Ok(false),
        }
    }
}

/// The allowed addresses among those a name resolved to; if there are none, the class of the first.
pub(crate) fn admissible(
    addresses: impl IntoIterator<Item = IpAddr>,
    listed: bool,
) -> std::result::Result<Vec<IpAddr>, AddressClass> {
    let mut refused = None;
    let mut admitted = Vec::new();
    for address in addresses {
        let class = AddressClass::of(address);
        if class.is_public() || (listed && !class.is_never_meant()) {
            admitted.push(address);
        } else {
            refused.get_or_insert(class);
        }
    }
    match refused {
        Some(class) if admitted.is_empty() => Err(class),
        _ => Ok(admitted),
    }
}

pub(crate) fn refusal(origin: &Origin, class: AddressClass) -> Error {
    Error::new(
        ErrorKind::EgressDenied,
        format!(
            "{origin} has a {class} address, which is refused; if it is intended, have the operator list `{}:{}`",
            origin.host(),
            origin.port()
        ),
    )
    .with_detail("address_class", class.to_string())
}

fn parse_listed(text: &str) -> Result<(String, u16)> {
    let wrong = || {
        Error::invalid(
            "a listed host is written as host:port, as in `localhost:11434` or `[::1]:8080`, \
             without scheme, path or wildcard",
        )
    };
    let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
    let port: u16 = port.parse().map_err(|_| wrong())?;
    if port == 0 || host.is_empty() || host.contains(['*', '/', '@', '?', '#', '\\']) {
        return Err(wrong());
    }
    // Normalised like the URLs of calls.
    let origin = Origin::of(&format!("http://{host}:{port}/")).map_err(|_| wrong())?;
    Ok((origin.host().to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listed_host_is_one_host_and_one_port() {
        for wrong in [
            "",
            "localhost",
            "localhost:",
            ":80",
            "*:80",
            "*.example:80",
            "http://localhost:80",
            "a@b:80",
            "h:0",
            "h:65536",
            "h/x:80",
            "::1:80",
        ] {
            assert_eq!(
                EgressPolicy::new().allow_host(wrong).unwrap_err().kind(),
                ErrorKind::InvalidArgument,
                "{wrong:?}"
            );
        }
        let policy =
            EgressPolicy::new().allow_host("LocalHost:80").unwrap().allow_host("[::1]:8080").unwrap();
        for right in
            ["http://localhost/", "http://localhost:80/x", "http://[::1]:8080/", "http://[0:0::1]:8080/"]
        {
            assert!(policy.check(right).is_ok(), "{right}");
        }
        for other in
            ["http://localhost:81/", "https://localhost./", "http://localhost.:80/", "http://127.0.0.1/"]
        {
            let error = policy.check(other).map(|()| other);
            // `localhost.` by https is an ordinary name: its address decides.
            if other.starts_with("https") {
                assert!(error.is_ok());
            } else {
                assert_eq!(error.unwrap_err().kind(), ErrorKind::EgressDenied, "{other}");
            }
        }
    }

    #[test]
    fn a_listed_name_does_not_lead_to_the_metadata_service() {
        let answer = |text: &str| text.parse::<IpAddr>().unwrap();
        assert_eq!(admissible([answer("10.0.0.7")], true), Ok(vec![answer("10.0.0.7")]));
        assert_eq!(admissible([answer("169.254.169.254")], true), Err(AddressClass::Metadata));
        for carried in ["::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "::ffff:0.0.0.0"] {
            assert_eq!(admissible([answer(carried)], true), Err(AddressClass::Transition));
        }
        assert_eq!(admissible([answer("10.0.0.7")], false), Err(AddressClass::Private));
        let mixed = [answer("127.0.0.1"), answer("1.1.1.1")];
        assert_eq!(
            admissible(mixed, false),
            Ok(vec![answer("1.1.1.1")]),
            "what is refused is not connected to"
        );
        assert_eq!(admissible([], false), Ok(vec![]));
    }
}
