//! A libpq URL: hosts, database, user and parameters.
//!
//! The driver's `Config` parses the part before the `?`. The parameters are parsed here: `Config` does not know
//! `sslmode=verify-full` and the TLS files, `passfile`, `client_encoding`, `gssencmode`, `keepalives_count` or
//! `target_session_attrs=primary`; it adds a `host` parameter to the URL's hosts where libpq replaces them; and its
//! errors do not list the allowed values.

use std::fmt;
use std::net::IpAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

use memory_core::{Error, Result};
use tokio_postgres::Config as DriverConfig;
use tokio_postgres::config::{
    ChannelBinding, Host, LoadBalanceHosts, SslMode, SslNegotiation, TargetSessionAttrs,
};

/// What to verify of a server's certificate, according to libpq's `sslmode`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verify {
    /// Nothing: the connection is encrypted, but to anyone.
    Nothing,
    /// That a trusted authority signed it.
    Authority,
    /// Also that it is for this host.
    Full,
}

/// The files and rules for TLS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TlsOptions {
    pub(crate) verify: Verify,
    /// Trusted authorities; `None` for those of the system.
    pub(crate) roots: Option<PathBuf>,
    /// The client's certificate and key.
    pub(crate) client: Option<(PathBuf, PathBuf)>,
    pub(crate) direct: bool,
}

/// Where the password comes from.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum Password {
    /// The URL holds it.
    Given(Vec<u8>),
    /// A libpq password file, read for each connection.
    File(PathBuf),
    /// An environment variable, read for each connection.
    Variable(String),
    None,
}

/// A parsed URL. `Debug` shows none of it.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Address {
    /// Everything but hosts and password.
    base: DriverConfig,
    pub(crate) hosts: Vec<(Option<Host>, Option<IpAddr>, u16)>,
    pub(crate) password: Password,
    pub(crate) tls: TlsOptions,
    pub(crate) spread: bool,
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Address").finish_non_exhaustive()
    }
}

/// libpq's parameters that a URL may have; all others are options of [`PostgresConfig`](crate::PostgresConfig).
const PARAMETERS: &[&str] = &[
    "application_name",
    "channel_binding",
    "client_encoding",
    "connect_timeout",
    "dbname",
    "gssencmode",
    "host",
    "hostaddr",
    "keepalives",
    "keepalives_count",
    "keepalives_idle",
    "keepalives_interval",
    "load_balance_hosts",
    "options",
    "passfile",
    "password",
    "port",
    "sslcert",
    "sslkey",
    "sslmode",
    "sslnegotiation",
    "sslrootcert",
    "target_session_attrs",
    "tcp_user_timeout",
    "user",
];

/// Whether a parameter of a `postgres:` URL belongs to the connection, according to libpq's documentation.
#[must_use]
pub fn is_connection_parameter(name: &str) -> bool {
    PARAMETERS.contains(&name)
}

/// Splits a URL before its parameters, dropping the `?`. A password may contain an unencoded `?`; the parameters begin
/// at the first `?` after the `@`.
pub(crate) fn split_query(url: &str) -> (&str, &str) {
    let authority = url.find('@').unwrap_or(0);
    match url.get(authority..).and_then(|rest| rest.find('?')) {
        Some(at) => {
            let (place, query) = url.split_at(authority + at);
            (place, query.strip_prefix('?').unwrap_or(query))
        }
        None => (url, ""),
    }
}

impl Address {
    /// Parses a URL. Fails with `invalid_argument`, naming the parameter; nothing else in the URL is quoted.
    pub(crate) fn parse(url: &str, password_env: Option<&str>, base_dir: Option<&Path>) -> Result<Self> {
        if !(url.starts_with("postgres://") || url.starts_with("postgresql://")) {
            return Err(Error::invalid(
                "postgres.url must be `postgres://user@host:port/database?name=value`, as libpq writes it",
            ));
        }
        let (place, query) = split_query(url);
        // Its error quotes the input.
        let base = DriverConfig::from_str(place).map_err(|_| {
            Error::invalid(
                "postgres.url cannot be read; write `postgres://user@host:port/database`, and percent-encode what is not a \
                 letter or a digit in user, password and database",
            )
        })?;
        let mut reading = Reading::new(base, base_dir);
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').ok_or_else(|| {
                Error::invalid("a parameter of postgres.url has no `=`; write `?name=value`")
            })?;
            let value = percent_decoded(value)
                .ok_or_else(|| Error::invalid("a parameter of postgres.url has an invalid percent-escape"))?;
            if !is_connection_parameter(name) {
                return Err(Error::invalid(
                    "a parameter of postgres.url is unknown; docs/postgres.md lists the supported ones of libpq",
                )
                .with_detail("parameters", PARAMETERS));
            }
            reading.parameter(name, &value)?;
        }
        reading.finish(password_env)
    }

    /// The driver's configuration for one host, without the password.
    pub(crate) fn driver(&self, host: usize) -> DriverConfig {
        let mut config = without_hosts(&self.base);
        if let Some((name, address, port)) = self.hosts.get(host) {
            match name {
                Some(Host::Tcp(name)) => set(config.host(name)),
                #[cfg(unix)]
                Some(Host::Unix(path)) => set(config.host_path(path)),
                None => {}
            }
            if let Some(address) = address {
                config.hostaddr(*address);
            }
            config.port(*port);
        }
        config
    }

    /// The same address for another database user.
    pub(crate) fn for_user(&self, user: &str, password: &[u8]) -> Self {
        let mut address = self.clone();
        address.base.user(user);
        address.password = Password::Given(password.to_vec());
        address
    }

    pub(crate) fn base(&self) -> &DriverConfig {
        &self.base
    }

    pub(crate) fn base_mut(&mut self) -> &mut DriverConfig {
        &mut self.base
    }
}

struct Reading {
    base_dir: Option<PathBuf>,
    config: DriverConfig,
    hosts: Vec<Host>,
    addresses: Vec<IpAddr>,
    ports: Vec<u16>,
    passfile: Option<PathBuf>,
    verify: Option<Verify>,
    roots: Option<String>,
    certificate: Option<PathBuf>,
    key: Option<PathBuf>,
}

fn wrong(name: &str, allowed: &str) -> Error {
    Error::invalid(format!("the parameter `{name}` of postgres.url must be {allowed}"))
        .with_detail("parameter", name)
}

impl Reading {
    fn new(parsed: DriverConfig, base_dir: Option<&Path>) -> Self {
        Self {
            base_dir: base_dir.map(Path::to_path_buf),
            hosts: parsed.get_hosts().to_vec(),
            addresses: parsed.get_hostaddrs().to_vec(),
            ports: parsed.get_ports().to_vec(),
            passfile: None,
            verify: None,
            roots: None,
            certificate: None,
            key: None,
            config: without_hosts(&parsed),
        }
        .with_defaults(&parsed)
    }

    fn with_defaults(mut self, parsed: &DriverConfig) -> Self {
        if let Some(password) = parsed.get_password() {
            self.config.password(password);
        }
        // A server that takes no writes is useless here.
        self.config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        self
    }

    fn based(&self, path: &str) -> PathBuf {
        self.base_dir.as_ref().map_or_else(|| PathBuf::from(path), |base| base.join(path))
    }

    fn parameter(&mut self, name: &str, value: &str) -> Result<()> {
        let config = &mut self.config;
        match name {
            "user" => set(config.user(value)),
            "password" => set(config.password(value)),
            "dbname" => set(config.dbname(value)),
            "options" => set(config.options(value)),
            "application_name" => set(config.application_name(value)),
            "passfile" => self.passfile = Some(self.based(value)),
            "client_encoding" => match value.to_ascii_lowercase().as_str() {
                "utf8" | "utf-8" | "auto" => {}
                _ => return Err(wrong(name, "`utf8`")),
            },
            "gssencmode" => match value {
                "disable" | "prefer" => {}
                _ => return Err(wrong(name, "`disable` or `prefer`: only TLS is supported")),
            },
            "host" => self.hosts = value.split(',').filter(|host| !host.is_empty()).map(host_of).collect(),
            "hostaddr" => {
                let read = value.split(',').map(str::parse::<IpAddr>).collect::<std::result::Result<_, _>>();
                self.addresses = read.map_err(|_| wrong(name, "IP addresses, separated by commas"))?;
            }
            "port" => {
                let read = value
                    .split(',')
                    .map(|port| if port.is_empty() { Ok(5432) } else { port.parse::<u16>() })
                    .collect::<std::result::Result<_, _>>();
                self.ports = read.map_err(|_| wrong(name, "port numbers, separated by commas"))?;
            }
            "connect_timeout" => set(config.connect_timeout(Duration::from_secs(whole(name, value)?))),
            "tcp_user_timeout" => set(config.tcp_user_timeout(Duration::from_millis(whole(name, value)?))),
            "keepalives" => set(config.keepalives(whole(name, value)? != 0)),
            "keepalives_idle" => set(config.keepalives_idle(Duration::from_secs(whole(name, value)?.max(1)))),
            "keepalives_interval" => {
                set(config.keepalives_interval(Duration::from_secs(whole(name, value)?.max(1))));
            }
            "keepalives_count" => {
                let count = u32::try_from(whole(name, value)?).map_err(|_| wrong(name, "a small number"))?;
                config.keepalives_retries(count);
            }
            "target_session_attrs" => set(config.target_session_attrs(match value {
                "any" => TargetSessionAttrs::Any,
                "read-write" | "primary" => TargetSessionAttrs::ReadWrite,
                _ => return Err(wrong(name, "`read-write`, `primary` or `any`: a standby takes no writes")),
            })),
            "load_balance_hosts" => set(config.load_balance_hosts(match value {
                "disable" => LoadBalanceHosts::Disable,
                "random" => LoadBalanceHosts::Random,
                _ => return Err(wrong(name, "`disable` or `random`")),
            })),
            "channel_binding" => set(config.channel_binding(match value {
                "disable" => ChannelBinding::Disable,
                "prefer" => ChannelBinding::Prefer,
                "require" => ChannelBinding::Require,
                _ => return Err(wrong(name, "`disable`, `prefer` or `require`")),
            })),
            "sslnegotiation" => set(config.ssl_negotiation(match value {
                "postgres" => SslNegotiation::Postgres,
                "direct" => SslNegotiation::Direct,
                _ => return Err(wrong(name, "`postgres` or `direct`")),
            })),
            "sslmode" => {
                let (mode, verify) = match value {
                    "disable" => (SslMode::Disable, None),
                    "prefer" => (SslMode::Prefer, None),
                    "require" => (SslMode::Require, None),
                    "verify-ca" => (SslMode::Require, Some(Verify::Authority)),
                    "verify-full" => (SslMode::Require, Some(Verify::Full)),
                    _ => {
                        return Err(wrong(
                            name,
                            "`disable`, `prefer`, `require`, `verify-ca` or `verify-full`",
                        ));
                    }
                };
                config.ssl_mode(mode);
                self.verify = verify;
            }
            "sslrootcert" => self.roots = Some(value.to_owned()),
            "sslcert" => self.certificate = Some(self.based(value)),
            "sslkey" => self.key = Some(self.based(value)),
            _ => return Err(wrong(name, "one of the documented values")),
        }
        Ok(())
    }

    fn finish(mut self, password_env: Option<&str>) -> Result<Address> {
        if self.hosts.is_empty() && self.addresses.is_empty() {
            self.hosts.push(Host::Tcp("localhost".to_owned()));
        }
        let count = self.hosts.len().max(self.addresses.len());
        let fits = |length: usize| length == 0 || length == count;
        if !fits(self.hosts.len())
            || !fits(self.addresses.len())
            || !(fits(self.ports.len()) || self.ports.len() == 1)
        {
            return Err(Error::invalid(
                "postgres.url must have as many ports and addresses as hosts, or one port for all of them",
            ));
        }
        let hosts = (0..count)
            .map(|index| {
                let port = self.ports.get(index).or(self.ports.first()).copied().unwrap_or(5432);
                (self.hosts.get(index).cloned(), self.addresses.get(index).copied(), port)
            })
            .collect();
        let system = self.roots.as_deref() == Some("system");
        let verify = match (self.verify, &self.roots) {
            // Like libpq: with the system's many authorities, the name must match too.
            (_, Some(_)) if system => {
                self.config.ssl_mode(SslMode::Require);
                Verify::Full
            }
            (Some(verify), _) => verify,
            // Like libpq: if roots are given, `require` means verify-ca.
            (None, Some(_)) if self.config.get_ssl_mode() == SslMode::Require => Verify::Authority,
            (None, _) => Verify::Nothing,
        };
        let client = match (self.certificate.take(), self.key.take()) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => return Err(Error::invalid("postgres.url must have `sslcert` and `sslkey`, or neither")),
        };
        let password = match (self.config.get_password(), self.passfile.take(), password_env) {
            (Some(password), ..) => Password::Given(password.to_vec()),
            (None, Some(file), _) => Password::File(file),
            (None, None, Some(variable)) => Password::Variable(variable.to_owned()),
            (None, None, None) => Password::None,
        };
        Ok(Address {
            spread: self.config.get_load_balance_hosts() == LoadBalanceHosts::Random,
            tls: TlsOptions {
                verify,
                roots: self.roots.as_deref().filter(|_| !system).map(|path| self.based(path)),
                client,
                direct: self.config.get_ssl_negotiation() == SslNegotiation::Direct,
            },
            base: without_hosts(&self.config),
            hosts,
            password,
        })
    }
}

/// Drops the reference that the driver's setters return for chaining.
fn set(_: &mut DriverConfig) {}

fn host_of(host: &str) -> Host {
    #[cfg(unix)]
    if host.starts_with('/') {
        return Host::Unix(PathBuf::from(host));
    }
    Host::Tcp(host.to_owned())
}

fn whole(name: &str, value: &str) -> Result<u64> {
    match value.parse::<u64>() {
        Ok(number) if number <= 86_400_000 => Ok(number),
        _ => Err(wrong(name, "a whole number, 0 to 86400000")),
    }
}

/// A copy without hosts and password.
fn without_hosts(config: &DriverConfig) -> DriverConfig {
    let mut copy = DriverConfig::new();
    if let Some(user) = config.get_user() {
        copy.user(user);
    }
    if let Some(name) = config.get_dbname() {
        copy.dbname(name);
    }
    if let Some(options) = config.get_options() {
        copy.options(options);
    }
    if let Some(name) = config.get_application_name() {
        copy.application_name(name);
    }
    if let Some(timeout) = config.get_connect_timeout() {
        copy.connect_timeout(*timeout);
    }
    if let Some(timeout) = config.get_tcp_user_timeout() {
        copy.tcp_user_timeout(*timeout);
    }
    copy.keepalives(config.get_keepalives());
    copy.keepalives_idle(config.get_keepalives_idle());
    if let Some(interval) = config.get_keepalives_interval() {
        copy.keepalives_interval(interval);
    }
    if let Some(retries) = config.get_keepalives_retries() {
        copy.keepalives_retries(retries);
    }
    copy.ssl_mode(config.get_ssl_mode());
    copy.ssl_negotiation(config.get_ssl_negotiation());
    copy.target_session_attrs(config.get_target_session_attrs());
    copy.channel_binding(config.get_channel_binding());
    copy
}

pub(crate) fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let digit = |byte: Option<u8>| char::from(byte?).to_digit(16);
            let (high, low) = (digit(rest.next())?, digit(rest.next())?);
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok().filter(|text| !text.contains('\0'))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Address {
        Address::parse(text, None, None).unwrap()
    }

    #[test]
    fn hosts_ports_and_addresses_are_paired() {
        let address = read("postgres://app@a:1,b,[::1]:3/memory");
        let shown: Vec<_> =
            address.hosts.iter().map(|(host, _, port)| (host.clone().unwrap(), *port)).collect();
        let tcp = |name: &str| Host::Tcp(name.to_owned());
        assert_eq!(shown, [(tcp("a"), 1), (tcp("b"), 5432), (tcp("::1"), 3)]);
        assert_eq!(address.driver(1).get_hosts(), [tcp("b")]);
        let address = read("postgres:///memory?host=a,b&port=7&user=app");
        assert_eq!((address.hosts.len(), address.hosts[1].2), (2, 7));
        assert_eq!(
            read("postgres://app@%2Fvar%2Frun/memory").hosts[0].0,
            Some(Host::Unix("/var/run".into()))
        );
        assert!(Address::parse("postgres://a,b/memory?port=1,2,3", None, None).is_err());
    }

    #[test]
    fn a_standby_is_refused_unless_the_url_says_any() {
        assert_eq!(read("postgres://a/b").base().get_target_session_attrs(), TargetSessionAttrs::ReadWrite);
        let any = read("postgres://a/b?target_session_attrs=any");
        assert_eq!(any.base().get_target_session_attrs(), TargetSessionAttrs::Any);
        assert!(Address::parse("postgres://a/b?target_session_attrs=standby", None, None).is_err());
    }

    #[test]
    fn tls_modes_are_libpqs() {
        for (query, mode, verify) in [
            ("", SslMode::Prefer, Verify::Nothing),
            ("?sslmode=disable", SslMode::Disable, Verify::Nothing),
            ("?sslmode=require", SslMode::Require, Verify::Nothing),
            ("?sslmode=require&sslrootcert=/ca.pem", SslMode::Require, Verify::Authority),
            ("?sslmode=verify-ca&sslrootcert=/ca.pem", SslMode::Require, Verify::Authority),
            ("?sslmode=verify-full", SslMode::Require, Verify::Full),
            ("?sslrootcert=system", SslMode::Require, Verify::Full),
        ] {
            let address = read(&format!("postgres://a/b{query}"));
            assert_eq!((address.base().get_ssl_mode(), address.tls.verify), (mode, verify), "{query}");
        }
    }

    #[test]
    fn no_error_and_no_debug_shows_the_url() {
        for bad in [
            "hunter2",
            "mysql://app:hunter2@a/b",
            "postgres://app:hunter2@a:port/b",
            "postgres://app:hunter2@a/b?hunter2=1",
            "postgres://app:hunter2@a/b?sslmode=hunter2",
            "postgres://app:hunter2@a/b?port=hunter2",
            "postgres://app:hunter2@a/b?hunter2",
            "postgres://app:hunter2@a/b?user=%zz",
        ] {
            let error = Address::parse(bad, None, None).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{bad}: {error:?}");
        }
        assert!(!format!("{:?}", read("postgres://app:hunter2@a/b")).contains("hunter2"));
    }
}
