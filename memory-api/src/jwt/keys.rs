//! The public keys of an issuer: a JWK Set from a file or a URL, cached, and read again when it is old or a key is
//! missing.

use std::io::Read as _;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use memory_core::{Error, ErrorKind, Result, Retry};
use memory_http::{Call, CallKind, HttpClient, Method};
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::{Mutex, OwnedMutexGuard};
use tokio::time::Instant;

use super::verifier::ACCEPTED;

/// Largest set, in bytes.
pub(super) const MAX_BYTES: usize = 1 << 20;
/// Most keys of a set.
const MAX_KEYS: usize = 100;
/// A set older than this is read again by the next request.
const FRESH: Duration = Duration::from_secs(10 * 60);
/// A set that could not be refreshed stays valid for this long.
const VALID: Duration = Duration::from_secs(60 * 60);
/// The least time between two attempts, so that unknown keys cost the issuer nothing.
const PAUSE: Duration = Duration::from_secs(10);

/// Where a set is.
#[derive(Debug)]
pub(super) enum Source {
    File(PathBuf),
    Url(HttpClient, String),
}

impl Source {
    async fn read(&self) -> Result<Vec<Key>> {
        match self {
            Self::File(path) => {
                let failed = |error: std::io::Error| {
                    let text = format!(
                        "the file of keys {} cannot be read ({error}); correct `jwks` under [http.jwt], or the file",
                        path.display()
                    );
                    let kind = match error.kind() {
                        std::io::ErrorKind::PermissionDenied => ErrorKind::Forbidden,
                        _ => ErrorKind::NotFound,
                    };
                    Error::new(kind, text).with_retry(Retry::Never).with_source(error)
                };
                let mut text = String::new();
                let file = std::fs::File::open(path).map_err(failed)?;
                let limit = u64::try_from(MAX_BYTES).unwrap_or(u64::MAX);
                file.take(limit.saturating_add(1)).read_to_string(&mut text).map_err(failed)?;
                parsed(text.as_bytes())
            }
            Self::Url(client, url) => {
                let reply = client.request(Call::new(Method::Get, url)?.kind(CallKind::Safe)).await?;
                parsed(reply.body())
            }
        }
    }
}

/// A key for checking signatures.
#[derive(Debug)]
pub(super) struct Key {
    id: Option<String>,
    algorithms: Vec<Algorithm>,
    pub(super) key: DecodingKey,
}

impl Key {
    /// The key, if it is a signature key for an accepted algorithm.
    fn of(value: Value) -> Option<Self> {
        // Keys that this program cannot read are for others.
        let jwk: Jwk = serde_json::from_value(value).ok()?;
        if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
            return None;
        }
        let mut algorithms = match &jwk.algorithm {
            AlgorithmParameters::RSA(_) => vec![Algorithm::RS256, Algorithm::PS256],
            AlgorithmParameters::EllipticCurve(of) if of.curve == EllipticCurve::P256 => {
                vec![Algorithm::ES256]
            }
            AlgorithmParameters::OctetKeyPair(of) if of.curve == EllipticCurve::Ed25519 => {
                vec![Algorithm::EdDSA]
            }
            _ => return None,
        };
        if let Some(only) = jwk.common.key_algorithm {
            let only = only.to_string().parse().ok().filter(|only| ACCEPTED.contains(only))?;
            algorithms.retain(|algorithm| *algorithm == only);
        }
        let key = DecodingKey::from_jwk(&jwk).ok()?;
        (!algorithms.is_empty()).then_some(Self { id: jwk.common.key_id, algorithms, key })
    }
}

fn parsed(text: &[u8]) -> Result<Vec<Key>> {
    #[derive(Deserialize)]
    struct Set {
        keys: Vec<Value>,
    }
    if text.len() > MAX_BYTES {
        return Err(Error::too_large("set of keys", text.len(), MAX_BYTES, "bytes"));
    }
    let set: Set = serde_json::from_slice(text).map_err(|error| {
        Error::invalid("what `jwks` names is no JWK Set: {\"keys\": […]}").with_source(error)
    })?;
    if set.keys.len() > MAX_KEYS {
        return Err(Error::too_large("set of keys", set.keys.len(), MAX_KEYS, "keys"));
    }
    let keys: Vec<Key> = set.keys.into_iter().filter_map(Key::of).collect();
    if keys.is_empty() {
        return Err(Error::invalid(
            "what `jwks` names has no public key for RS256, PS256, ES256 (P-256) or EdDSA (Ed25519)",
        ));
    }
    Ok(keys)
}

/// The keys as they were last read.
#[derive(Debug, Default)]
struct Set {
    keys: Vec<Key>,
    read: Option<Instant>,
}

impl Set {
    fn is_younger(&self, than: Duration) -> bool {
        self.read.is_some_and(|read| read.elapsed() < than)
    }

    /// The key with that id for this algorithm; without an id, the only key for it. Keys of two types may share an id.
    fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<&Key> {
        let mut fit = self
            .keys
            .iter()
            .filter(|key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id));
        fit.next().filter(|_| id.is_some() || fit.next().is_none())
    }
}

/// The keys of an issuer.
#[derive(Debug)]
pub(super) struct Keys {
    source: Source,
    note: fn(&str),
    set: RwLock<Arc<Set>>,
    /// When they were last requested. Locked during a read, so that one request reads them for all.
    asked: Arc<Mutex<Option<Instant>>>,
}

impl Keys {
    pub(super) fn new(source: Source, note: fn(&str)) -> Self {
        Self { source, note, set: RwLock::default(), asked: Arc::default() }
    }

    fn set(&self) -> Arc<Set> {
        Arc::clone(&self.set.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads them.
    ///
    /// # Errors
    /// `unavailable`; `invalid_argument` for anything but a set with a usable key.
    pub(super) async fn read(&self) -> Result<()> {
        let set = Set { keys: self.source.read().await?, read: Some(Instant::now()) };
        *self.set.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(set);
        Ok(())
    }

    /// Reads them again if they are old or this one is missing, unless that was tried a moment ago. Does not wait if
    /// the key is still valid.
    pub(super) async fn refresh(self: &Arc<Self>, id: Option<&str>, algorithm: Algorithm) {
        let set = self.set();
        let is_known = set.find(id, algorithm).is_some();
        if is_known && set.is_younger(FRESH) {
            return;
        }
        if is_known && set.is_younger(VALID) {
            if let Ok(asked) = Arc::clone(&self.asked).try_lock_owned() {
                let keys = Arc::clone(self);
                drop(tokio::spawn(async move { keys.read_unless_asked(asked).await }));
            }
            return;
        }
        let asked = Arc::clone(&self.asked).lock_owned().await;
        // Another request may have read them by now.
        let set = self.set();
        if set.find(id, algorithm).is_none() || !set.is_younger(FRESH) {
            self.read_unless_asked(asked).await;
        }
    }

    async fn read_unless_asked(&self, mut asked: OwnedMutexGuard<Option<Instant>>) {
        if asked.is_some_and(|asked| asked.elapsed() < PAUSE) {
            return;
        }
        *asked = Some(Instant::now());
        if let Err(error) = self.read().await {
            (self.note)(&format!("memory: the keys of [http.jwt] cannot be read: {error}"));
        }
    }

    /// Applies `with` to the key with that id for this algorithm; `None` if there is none.
    ///
    /// # Errors
    /// `unavailable` if the keys could not be read for too long.
    pub(super) fn with<T>(
        &self,
        id: Option<&str>,
        algorithm: Algorithm,
        run: impl FnOnce(&DecodingKey) -> T,
    ) -> Result<Option<T>> {
        let set = self.set();
        if !set.is_younger(VALID) {
            return Err(Error::new(
                ErrorKind::Unavailable,
                "the keys of the issuer cannot be read now; try again later",
            )
            .with_retry(Retry::After(PAUSE)));
        }
        Ok(set.find(id, algorithm).map(|key| run(&key.key)))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;

    use memory::system::{RandomIds, SystemClock};

    use super::*;

    /// An issuer that does not answer must not stall callers whose key is known.
    #[tokio::test]
    async fn a_key_that_counts_is_not_waited_for() {
        let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let host = silent.local_addr().unwrap().to_string();
        let policy = memory_http::EgressPolicy::new().allow_host(&host).unwrap();
        let client = HttpClient::builder(policy, Arc::new(SystemClock), Arc::new(RandomIds)).build().unwrap();
        let keys = Arc::new(Keys::new(Source::Url(client, format!("http://{host}/jwks")), |_| ()));
        let key = Key {
            id: Some("k".into()),
            algorithms: vec![Algorithm::EdDSA],
            key: DecodingKey::from_secret(b""),
        };
        let read = Instant::now().checked_sub(FRESH);
        *keys.set.write().unwrap() = Arc::new(Set { keys: vec![key], read });
        for _ in 0..2 {
            let mut refreshed = std::pin::pin!(keys.refresh(Some("k"), Algorithm::EdDSA));
            let polled = std::future::poll_fn(|context| Poll::Ready(refreshed.as_mut().poll(context))).await;
            assert!(polled.is_ready());
        }
        assert!(keys.asked.try_lock().is_err(), "it is being read");
    }
}
