//! Who is signed in at the page. A session is a random id in the browser's cookie; its token stays in this process and
//! is checked again with every request.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use axum::http::{HeaderMap, header};
use memory::system;
use memory_core::Result;
use sha2::{Digest as _, Sha256};
use tokio::time::Instant;

use memory_api::hexadecimal;

/// Most sessions at a time, across all tokens; the least recently used one makes room.
const MOST: usize = 1_024;
/// Sessions of one token.
const MOST_OF_TOKEN: usize = 16;
/// A session unused for this long has ended.
const IDLE: Duration = Duration::from_secs(30 * 60);
/// Longest duration of a session.
const LONGEST: Duration = Duration::from_secs(12 * 3_600);

/// The hash of a cookie's id, under which the session is stored, so that a look-up takes equally long for any guess.
type Name = [u8; 32];

struct Session {
    token: String,
    /// The id of its token.
    owner: Arc<str>,
    /// What its forms carry.
    form_key: String,
    /// What the next page will say, once.
    notice: Option<String>,
    begun: Instant,
    used: Instant,
}

/// A session as one request finds it.
pub(super) struct Found {
    pub(super) token: String,
    pub(super) form_key: String,
    pub(super) name: Name,
}

/// The sessions of a server.
pub(super) struct Sessions {
    open: Mutex<HashMap<Name, Session>>,
    /// Whether the browser may send the cookie only over TLS.
    secure: bool,
}

/// Shows no secrets.
impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sessions({})", self.open().len())
    }
}

impl Sessions {
    pub(super) fn new(secure: bool) -> Self {
        Self { open: Mutex::default(), secure }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Name, Session>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session; returns the `Set-Cookie`.
    ///
    /// # Errors
    /// `unavailable` if the host provides no randomness.
    pub(super) fn begin(&self, token: &str, owner: &str, now: Instant) -> Result<String> {
        let (id, form_key) = (hexadecimal(&system::secret()?), hexadecimal(&system::secret()?));
        let mut open = self.open();
        open.retain(|_, session| session.lasts(now));
        for (most, of) in [(MOST_OF_TOKEN, Some(owner)), (MOST, None)] {
            let mut group: Vec<(Instant, Name)> = open
                .iter()
                .filter(|(_, session)| of.is_none_or(|owner| *session.owner == *owner))
                .map(|(name, session)| (session.used, *name))
                .collect();
            group.sort_unstable();
            for (_, name) in group.iter().take((group.len() + 1).saturating_sub(most)) {
                open.remove(name);
            }
        }
        let session = Session {
            token: token.to_owned(),
            owner: owner.into(),
            form_key,
            notice: None,
            begun: now,
            used: now,
        };
        open.insert(hash(&id), session);
        Ok(self.cookie(&id, ""))
    }

    /// The session of a request, which counts as a use.
    pub(super) fn find(&self, headers: &HeaderMap, now: Instant) -> Option<Found> {
        let name = hash(cookie_named(headers, self.cookie_name())?);
        let mut open = self.open();
        let session = open.get_mut(&name)?;
        if !session.lasts(now) {
            open.remove(&name);
            return None;
        }
        session.used = now;
        Some(Found { token: session.token.clone(), form_key: session.form_key.clone(), name })
    }

    /// Ends a session; returns the `Set-Cookie` that removes the browser's cookie.
    pub(super) fn end(&self, name: &Name) -> String {
        self.open().remove(name);
        self.cookie("", "; Max-Age=0")
    }

    /// Leaves a notice for the next page.
    pub(super) fn tell(&self, name: &Name, notice: String) {
        if let Some(session) = self.open().get_mut(name) {
            session.notice = Some(notice);
        }
    }

    /// Takes the notice that was left.
    pub(super) fn told(&self, name: &Name) -> Option<String> {
        self.open().get_mut(name)?.notice.take()
    }

    fn cookie_name(&self) -> &'static str {
        // With this prefix, browsers accept the cookie only from this host and over TLS, never from a neighbouring
        // name.
        if self.secure { "__Host-memory_session" } else { "memory_session" }
    }

    fn cookie(&self, id: &str, end: &str) -> String {
        let secure = if self.secure { "; Secure" } else { "" };
        format!("{}={id}; Path=/; HttpOnly; SameSite=Strict{secure}{end}", self.cookie_name())
    }
}

impl Session {
    fn lasts(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.used) < IDLE && now.saturating_duration_since(self.begun) < LONGEST
    }
}

/// Whether two secrets are equal, in a time that does not depend on where they differ.
pub(super) fn is_same(given: &str, kept: &str) -> bool {
    hash(given) == hash(kept)
}

fn cookie_named<'a>(headers: &'a HeaderMap, wanted: &str) -> Option<&'a str> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find_map(|(name, value)| (name == wanted).then_some(value))
}

fn hash(text: &str) -> Name {
    Sha256::digest(text.as_bytes()).into()
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn sent(cookie: &str) -> HeaderMap {
        let pair = cookie.split(';').next().unwrap_or_default();
        let mut headers = HeaderMap::new();
        headers.insert(header::COOKIE, HeaderValue::from_str(&format!("a=b; {pair}")).unwrap());
        headers
    }

    #[test]
    fn a_session_is_found_by_its_cookie_which_does_not_hold_the_token() {
        let (sessions, now) = (Sessions::new(true), Instant::now());
        let cookie = sessions.begin("memtok_secret", "t-1", now).unwrap();
        assert!(
            cookie.ends_with("; Path=/; HttpOnly; SameSite=Strict; Secure") && !cookie.contains("secret")
        );
        let found = sessions.find(&sent(&cookie), now).unwrap();
        assert_eq!(found.token, "memtok_secret");
        let other = sessions.begin("memtok_secret", "t-1", now).unwrap();
        assert_ne!(found.form_key, sessions.find(&sent(&other), now).unwrap().form_key);
        sessions.end(&found.name);
        assert!(sessions.find(&sent(&cookie), now).is_none() && sessions.find(&sent(&other), now).is_some());
        assert!(sessions.find(&sent("__Host-memory_session="), now).is_none());
    }

    #[test]
    fn sessions_are_bounded_and_the_one_used_longest_ago_makes_room() {
        let (sessions, begun) = (Sessions::new(false), Instant::now());
        let at = |second| begun + Duration::from_secs(second);
        let cookies: Vec<_> = (0_u64..)
            .take(MOST_OF_TOKEN)
            .map(|second| sent(&sessions.begin("a", "t-1", at(second)).unwrap()))
            .collect();
        let other = sent(&sessions.begin("b", "t-2", begun).unwrap());
        let now = at(60);
        assert!(sessions.find(&cookies[0], now).is_some());
        sessions.begin("a", "t-1", now).unwrap();
        assert!(sessions.find(&cookies[0], now).is_some(), "it was just used");
        assert!(sessions.find(&cookies[1], now).is_none());
        assert!(sessions.find(&other, now).is_some(), "another token's");
        for number in 0..MOST + 8 {
            sessions.begin("c", &format!("t-c{number}"), now).unwrap();
        }
        assert_eq!(sessions.open().len(), MOST);
    }

    #[test]
    fn a_session_ends_when_nobody_uses_it_and_after_its_time() {
        let (sessions, begun, tick) = (Sessions::new(false), Instant::now(), Duration::from_secs(1));
        let cookie = sent(&sessions.begin("a", "t-1", begun).unwrap());
        let mut now = begun;
        while now + IDLE - tick < begun + LONGEST {
            now += IDLE - tick;
            assert!(sessions.find(&cookie, now).is_some());
        }
        assert!(sessions.find(&cookie, begun + LONGEST).is_none(), "used all the time, for {LONGEST:?}");
        let idle = sent(&sessions.begin("a", "t-1", now).unwrap());
        assert!(sessions.find(&idle, now + IDLE).is_none());
    }
}
