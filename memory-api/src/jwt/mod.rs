//! JWTs of an identity provider, accepted besides tokens: verifies them and turns their claims into a grant. What no
//! claim says is not allowed.

mod keys;
mod resource;
mod verifier;

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Duration;

use jsonwebtoken::errors::ErrorKind as Refused;
use jsonwebtoken::{Validation, decode, decode_header};
use memory::Config;
use memory::config::JwtSection;
use memory::system::{RandomIds, SystemClock};
use memory_core::{Error, ErrorKind, Op, Result, ScopeKind};
use memory_http::{EgressPolicy, HttpClient, Limits, RetryPolicy};
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

pub use self::resource::Resource;
pub(crate) use self::resource::challenge;

use self::keys::{Keys, MAX_BYTES, Source};
use crate::boxed::Boxed;
use crate::caller::{Grant, SUBJECT};

/// Longest text of one.
const MAX_TEXT_BYTES: usize = 16 << 10;
/// How far the clocks of issuer and server may differ, in seconds.
const LEEWAY_SECONDS: u64 = 30;
/// Time limit for the issuer's keys.
const PATIENCE: Duration = Duration::from_secs(5);
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 24;

/// Who a JWT speaks for.
#[derive(Debug)]
pub(crate) struct Holder {
    /// The same for every JWT of the same subject with the same rights.
    pub id: Arc<str>,
    pub grant: Grant,
}

/// `[http.jwt]` and the issuer's keys.
#[derive(Debug)]
pub struct Jwt {
    section: JwtSection,
    keys: Arc<Keys>,
    resource: Option<Resource>,
}

impl Jwt {
    /// The configured issuer, with its keys read once. If it cannot be reached now, it is asked again later; `note`
    /// tells the operator.
    ///
    /// # Errors
    /// Those of [`Jwt::check`], except for an issuer that cannot be reached.
    pub fn open(config: &Config, note: fn(&str)) -> Boxed<'_, Result<Option<Self>>> {
        Box::pin(async move {
            let Some(jwt) = Self::unread(config, note)? else { return Ok(None) };
            match jwt.keys.read().await {
                Err(error) if jwt.is_remote() => {
                    note(&format!("memory: the keys of [http.jwt] cannot be read: {error}"));
                }
                read => read?,
            }
            Ok(Some(jwt))
        })
    }

    /// Whether the issuer's keys can be read now; `None` if no issuer is configured, or if it would have to be asked
    /// but `offline` is set.
    ///
    /// # Errors
    /// `not_found`, `forbidden` or `invalid_argument` for a file of keys that cannot be used, or a malformed URL; `unavailable`.
    pub fn check(config: &Config, offline: bool) -> Boxed<'_, Result<Option<()>>> {
        Box::pin(async move {
            match Self::unread(config, |_| ())? {
                Some(jwt) if !(offline && jwt.is_remote()) => jwt.keys.read().await.map(Some),
                _ => Ok(None),
            }
        })
    }

    /// Whether the keys come from a server.
    fn is_remote(&self) -> bool {
        self.section.jwks.contains("://")
    }

    fn unread(config: &Config, note: fn(&str)) -> Result<Option<Self>> {
        let Some(section) = config.file().http.jwt.clone() else { return Ok(None) };
        verifier::install();
        let is_url = section.jwks.contains("://");
        let source = if is_url {
            let policy = config
                .file()
                .egress
                .allow
                .iter()
                .try_fold(EgressPolicy::new(), |policy, host| policy.allow_host(host))?;
            policy.check(&section.jwks)?;
            let limits =
                Limits { max_response_bytes: MAX_BYTES, total_timeout: PATIENCE, ..Limits::default() };
            let client = HttpClient::builder(policy, Arc::new(SystemClock), Arc::new(RandomIds))
                .limits(limits)
                .retry(RetryPolicy { attempts: 1, ..RetryPolicy::default() })
                .build()?;
            Source::Url(client, section.jwks.clone())
        } else {
            let folder = config.origin().parent().map(std::path::Path::to_owned).unwrap_or_default();
            Source::File(folder.join(&section.jwks))
        };
        let resource = Resource::of(&section);
        Ok(Some(Self { section, keys: Arc::new(Keys::new(source, note)), resource }))
    }

    /// What OAuth clients are told of `/mcp`, if its URL is configured.
    pub(crate) fn resource(&self) -> Option<&Resource> {
        self.resource.as_ref()
    }

    /// Each holder's limit of requests per minute.
    pub(crate) fn per_minute(&self) -> Option<u32> {
        self.section.rate
    }

    /// Reads the issuer's keys again if this JWT needs it.
    pub(crate) async fn prepare(&self, text: &str) {
        if text.len() <= MAX_TEXT_BYTES
            && let Ok(header) = decode_header(text)
            && verifier::ACCEPTED.contains(&header.alg)
        {
            self.keys.refresh(header.kid.as_deref(), header.alg).await;
        }
    }

    /// Who it speaks for, if it is genuine, meant for this server, in force, and has every required claim.
    ///
    /// # Errors
    /// `unauthenticated`; `unavailable` if the issuer's keys are unknown.
    pub(crate) fn verified(&self, text: &str) -> Result<Holder> {
        let refused =
            |why: &str| Err(Error::new(ErrorKind::Unauthenticated, format!("the JWT is refused: {why}")));
        if text.len() > MAX_TEXT_BYTES {
            return refused("it is too long");
        }
        let Ok(header) = decode_header(text) else {
            return refused("it is malformed, or of another algorithm");
        };
        if !verifier::ACCEPTED.contains(&header.alg) || header.crit.is_some() {
            return refused("only RS256, PS256, ES256 and EdDSA are accepted, without `crit`");
        }
        let mut rules = Validation::new(header.alg);
        rules.leeway = LEEWAY_SECONDS;
        rules.validate_nbf = true;
        rules.set_issuer(&[&self.section.issuer]);
        rules.set_audience(&[&self.section.audience]);
        rules.set_required_spec_claims(&["exp", "iss", "aud"]);
        let decoded = self
            .keys
            .with(header.kid.as_deref(), header.alg, |key| decode::<Map<String, Value>>(text, key, &rules))?;
        let claims = match decoded {
            None => return refused("no key of the issuer has its `kid` and algorithm"),
            Some(Ok(decoded)) => decoded.claims,
            Some(Err(error)) => {
                return refused(match error.kind() {
                    Refused::ExpiredSignature => "it has expired",
                    Refused::ImmatureSignature => "it is not in force yet",
                    Refused::InvalidIssuer => "it is of another issuer",
                    Refused::InvalidAudience => "it is for another audience",
                    Refused::MissingRequiredClaim(_) => "it needs `exp`, `iss` and `aud`",
                    _ => "its signature or a claim is not valid",
                });
            }
        };
        // The library would accept one of several issuers.
        if claims.get("iss").and_then(Value::as_str) != Some(self.section.issuer.as_str()) {
            return refused("it is of another issuer");
        }
        match self.grant(&claims) {
            Ok(grant) => Ok(Holder { id: id(&self.section.issuer, &claims, &grant), grant }),
            Err(why) => refused(&why),
        }
    }

    /// What the claims allow. Every claim that the configuration names must be present.
    fn grant(&self, claims: &Map<String, Value>) -> Result<Grant, String> {
        let section = &self.section;
        let text = |name: &str| match claims.get(name) {
            Some(Value::String(text)) => Ok(text.as_str()),
            _ => Err(format!("it needs the claim `{name}`, a text")),
        };
        let unfit = |name: &str| {
            let why = format!("the claim `{name}` is no id");
            move |_: Error| why
        };
        let user = match &section.user_claim {
            Some(name) => Some(text(name)?.parse().map_err(unfit(name))?),
            None => None,
        };
        let kinds = words(claims, section.scopes_claim.as_deref())?
            .map(|words| words.iter().filter_map(|word| word.parse().ok()).collect::<BTreeSet<ScopeKind>>());
        let ops = words(claims, section.ops_claim.as_deref())?.map(|words| {
            Op::ALL.iter().copied().filter(|op| words.contains(op.as_str())).collect::<BTreeSet<Op>>()
        });
        Ok(Grant {
            tenant: Some(text(&section.tenant_claim)?.parse().map_err(unfit(&section.tenant_claim))?),
            agent: Some(text(&section.agent_claim)?.parse().map_err(unfit(&section.agent_claim))?),
            user,
            kinds: both(section.scopes.clone(), kinds),
            ops: both(section.ops.clone(), ops),
            read_only: section.read_only,
        })
    }
}

/// Whether a bearer may be a JWT.
pub(crate) fn is_jwt(text: &str) -> bool {
    text.starts_with("ey") && text.bytes().filter(|byte| *byte == b'.').count() == 2
}

/// The words of a claim: an array of strings, or a string with spaces between them. Unknown words are ignored.
fn words<'a>(
    claims: &'a Map<String, Value>,
    name: Option<&str>,
) -> Result<Option<BTreeSet<&'a str>>, String> {
    let Some(name) = name else { return Ok(None) };
    match claims.get(name) {
        Some(Value::String(text)) => Ok(Some(text.split(' ').collect())),
        Some(Value::Array(words)) => Ok(Some(words.iter().filter_map(Value::as_str).collect())),
        _ => Err(format!("it needs the claim `{name}`, a text or an array of texts")),
    }
}

/// The intersection; `None` imposes no limit.
fn both<T: Ord + Copy>(one: Option<BTreeSet<T>>, other: Option<BTreeSet<T>>) -> Option<BTreeSet<T>> {
    match (one, other) {
        (Some(one), Some(other)) => Some(one.intersection(&other).copied().collect()),
        (one, other) => one.or(other),
    }
}

/// The id of a holder: the same for a new JWT with the same subject and rights, and for no other.
fn id(issuer: &str, claims: &Map<String, Value>, grant: &Grant) -> Arc<str> {
    let what = (
        issuer,
        claims.get("sub"),
        (&grant.tenant, &grant.agent, &grant.user),
        (&grant.kinds, &grant.ops, grant.read_only),
    );
    let text = serde_json::to_vec(&what).unwrap_or_default();
    let mut id = Sha256::digest(&text).iter().fold(SUBJECT.to_owned(), |mut id, byte| {
        let _ = write!(id, "{byte:02x}");
        id
    });
    id.truncate(SUBJECT.len() + ID_DIGITS);
    id.into()
}
