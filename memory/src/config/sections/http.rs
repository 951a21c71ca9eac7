//! `[http]` of `memory.toml`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use memory_core::{Error, Op, Result, ScopeKind};
use serde::Deserialize;

/// `[http]`: `memory serve --http`, and the tokens it accepts.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct HttpSection {
    /// The file of tokens, which replicas may share; relative to the folder of `memory.toml`. Default:
    /// `memory.tokens.jsonl` in it.
    pub tokens: Option<PathBuf>,
    /// Open connections: 1 to 100,000. Default: 1,024.
    pub max_connections: usize,
    /// Requests answered at a time: 1 to 10,000. Default: 256.
    pub max_in_flight: usize,
    /// Bytes of a request's body: 1 KiB to 1 GiB. Default: 32 MiB.
    pub max_body_bytes: usize,
    /// How long a client may take for the TLS handshake, or for the head of its next request, in milliseconds: 100 ms to
    /// ten minutes. Default: 15 seconds.
    pub header_timeout_ms: u64,
    /// How long a client may pause while it sends a body, in milliseconds: 100 ms to ten minutes. Default: 10 seconds.
    pub body_timeout_ms: u64,
    /// How long a request may take until its answer begins, and how long its client may take nothing of it, in milliseconds:
    /// 100 ms to one hour. Default: 2 minutes.
    pub request_timeout_ms: u64,
    /// JWTs of an identity provider, accepted in addition to tokens. Default: none.
    pub jwt: Option<JwtSection>,
}

/// `[http.jwt]`: whose JWTs are accepted, and what they allow. Each speaks for one agent of one tenant.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct JwtSection {
    /// What `iss` must be.
    pub issuer: String,
    /// What `aud` must be, or contain.
    pub audience: String,
    /// The issuer's public keys, a JWK Set: an `https` URL, or a file relative to the folder of `memory.toml`.
    pub jwks: String,
    /// The URL of `/mcp` as clients reach it. With it, OAuth clients that bring no token are told whose JWTs are accepted
    /// (RFC 9728). Default: none, and they are not told.
    pub resource: Option<String>,
    /// The claim that names the tenant. Default: `tenant`.
    #[serde(default = "tenant")]
    pub tenant_claim: String,
    /// The claim that names the agent. Default: `sub`.
    #[serde(default = "subject")]
    pub agent_claim: String,
    /// The claim that names the user. Default: none, and no user's memory is reached.
    pub user_claim: Option<String>,
    /// The claim that lists kinds of scope, as an array or separated by spaces. Default: none.
    pub scopes_claim: Option<String>,
    /// The claim that lists operations. Default: none.
    pub ops_claim: Option<String>,
    /// Only these kinds of scope. Default: those of the agent's policy.
    pub scopes: Option<BTreeSet<ScopeKind>>,
    /// Only these operations. Default: all but those on a whole store.
    pub ops: Option<BTreeSet<Op>>,
    /// Only operations that change nothing.
    #[serde(default)]
    pub read_only: bool,
    /// Most requests a minute of each subject, counted by each server. Default: no limit.
    pub rate: Option<u32>,
}

fn tenant() -> String {
    "tenant".to_owned()
}

fn subject() -> String {
    "sub".to_owned()
}

impl JwtSection {
    fn check(&self) -> Result<()> {
        let named = [
            ("issuer", Some(&self.issuer)),
            ("audience", Some(&self.audience)),
            ("jwks", Some(&self.jwks)),
            ("tenant_claim", Some(&self.tenant_claim)),
            ("agent_claim", Some(&self.agent_claim)),
            ("user_claim", self.user_claim.as_ref()),
            ("scopes_claim", self.scopes_claim.as_ref()),
            ("ops_claim", self.ops_claim.as_ref()),
        ];
        if let Some((name, _)) = named.iter().find(|(_, value)| value.is_some_and(String::is_empty)) {
            return Err(Error::invalid(format!(
                "`{name}` under [http.jwt] is empty; name one, or leave it out"
            )));
        }
        if let Some(resource) = &self.resource
            && !(is_url(&self.issuer) && is_url(resource) && resource.ends_with("/mcp"))
        {
            return Err(Error::invalid(
                "`resource` under [http.jwt] is the URL of /mcp as clients reach it, as https://memory.example/mcp, and \
                 `issuer` must be a URL too; plain http is for loopback only",
            ));
        }
        if self.rate == Some(0) {
            return Err(Error::invalid(
                "`rate` under [http.jwt] is 0; give requests a minute, or leave it out",
            ));
        }
        Ok(())
    }
}

/// Whether it is an absolute URL without user, query and fragment: of https, or on loopback of http.
fn is_url(text: &str) -> bool {
    let Some((scheme, rest)) = text.split_once("://") else { return false };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = match authority.rsplit_once(':') {
        Some((host, port)) if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => host,
        Some(_) if !authority.ends_with(']') => return false,
        _ => authority,
    };
    let is_local = matches!(host, "127.0.0.1" | "[::1]" | "localhost");
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()+,;=:/[]%".contains(&byte);
    let is_safe = rest.bytes().all(is_plain) && !rest.contains("/:");
    !host.is_empty() && is_safe && (scheme == "https" || scheme == "http" && is_local)
}

impl Default for HttpSection {
    fn default() -> Self {
        Self {
            tokens: None,
            max_connections: 1_024,
            max_in_flight: 256,
            max_body_bytes: 32 << 20,
            header_timeout_ms: 15_000,
            body_timeout_ms: 10_000,
            request_timeout_ms: 120_000,
            jwt: None,
        }
    }
}

impl HttpSection {
    /// `header_timeout_ms`.
    #[must_use]
    pub fn header_timeout(&self) -> Duration {
        Duration::from_millis(self.header_timeout_ms)
    }

    /// `body_timeout_ms`.
    #[must_use]
    pub fn body_timeout(&self) -> Duration {
        Duration::from_millis(self.body_timeout_ms)
    }

    /// `request_timeout_ms`.
    #[must_use]
    pub fn request_timeout(&self) -> Duration {
        Duration::from_millis(self.request_timeout_ms)
    }

    pub(in crate::config) fn check(&self) -> Result<()> {
        let count = |count: usize| u64::try_from(count).unwrap_or(u64::MAX);
        for (name, value, low, high) in [
            ("max_connections", count(self.max_connections), 1, 100_000),
            ("max_in_flight", count(self.max_in_flight), 1, 10_000),
            ("max_body_bytes", count(self.max_body_bytes), 1 << 10, 1 << 30),
            ("header_timeout_ms", self.header_timeout_ms, 100, 600_000),
            ("body_timeout_ms", self.body_timeout_ms, 100, 600_000),
            ("request_timeout_ms", self.request_timeout_ms, 100, 3_600_000),
        ] {
            if !(low..=high).contains(&value) {
                return Err(Error::invalid(format!("[http] {name} is {value}; it must be {low} to {high}")));
            }
        }
        if self.tokens.as_ref().is_some_and(|file| file.as_os_str().is_empty()) {
            return Err(Error::invalid("`tokens` under [http] is empty; name a file or leave it out"));
        }
        self.jwt.as_ref().map_or(Ok(()), JwtSection::check)
    }
}
