//! A token: what is printed once, and what is kept of it.

use std::collections::BTreeSet;
use std::sync::Arc;

use memory::system;
use memory_core::{Op, Result, ScopeId, ScopeKind, TenantId, Timestamp};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::caller::Grant;

/// The prefix of every token, so that secret scanners recognise it.
const PREFIX: &str = "memtok_";
/// Hexadecimal digits of an id.
const ID_DIGITS: usize = 12;
/// Hexadecimal digits of a secret: 256 bits.
const SECRET_DIGITS: usize = 64;
const HASH_BYTES: usize = 32;

/// What is kept of a token: only its hash, never the token itself.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    /// Its id, used in logs.
    pub id: Arc<str>,
    /// The operator's name for it.
    pub name: String,
    /// SHA-256 of the whole token, in hexadecimal.
    pub hash: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// `None`: every tenant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The only agent whose memory it reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<ScopeId>,
    /// The only user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<ScopeId>,
    /// Kinds of scope; `None` for those of the policy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scopes: Option<BTreeSet<ScopeKind>>,
    /// Operations; `None` for all except those on the whole store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ops: Option<BTreeSet<Op>>,
    /// Only operations that change nothing.
    #[serde(default)]
    pub read_only: bool,
    /// It is refused from this millisecond on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Requests a minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_minute: Option<u32>,
}

impl Token {
    /// Makes a token. Its text is shown once and stored nowhere.
    ///
    /// # Errors
    /// `unavailable` if the host provides no randomness.
    pub fn make(name: String, grant: Grant, now: Timestamp) -> Result<(String, Self)> {
        let digits = hexadecimal(&system::secret()?);
        let id = format!("t-{}", hexadecimal(&system::secret()?).get(..ID_DIGITS).unwrap_or_default());
        let text = format!("{PREFIX}{}_{digits}", id.trim_start_matches("t-"));
        let token = Self {
            id: id.into(),
            name,
            hash: hexadecimal(&hash(&text)),
            created_at: now,
            tenant: grant.tenant,
            agent: grant.agent,
            user: grant.user,
            scopes: grant.kinds,
            ops: grant.ops,
            read_only: grant.read_only,
            expires_at: None,
            per_minute: None,
        };
        Ok((text, token))
    }

    /// What it allows.
    pub fn grant(&self) -> Grant {
        Grant {
            tenant: self.tenant.clone(),
            agent: self.agent.clone(),
            user: self.user.clone(),
            kinds: self.scopes.clone(),
            ops: self.ops.clone(),
            read_only: self.read_only,
        }
    }

    /// Whether this is the token's text. Takes the same time whichever digit differs.
    pub(crate) fn is(&self, text: &str) -> bool {
        let (pairs, _) = self.hash.as_bytes().as_chunks();
        let differences = hash(text)
            .iter()
            .zip(pairs)
            .fold(0, |all, (byte, [high, low])| all | (digit(byte >> 4) ^ high) | (digit(byte & 15) ^ low));
        self.hash.len() == 2 * HASH_BYTES && std::hint::black_box(differences) == 0
    }

    /// Whether it is too old at this time.
    pub fn is_expired(&self, now: Timestamp) -> bool {
        self.expires_at.is_some_and(|at| at <= now)
    }
}

/// The digits of the id in a token's text, which are not secret; `None` if the text does not look like a token. Whether
/// it is valid, [`Token::is`] decides.
pub(crate) fn digits_of(text: &str) -> Option<&str> {
    let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
    (id.len() == ID_DIGITS && secret.len() == SECRET_DIGITS).then_some(id)
}

/// Whether a text looks like a token's id.
pub(crate) fn is_id(text: &str) -> bool {
    text.strip_prefix("t-").is_some_and(|digits| {
        digits.len() == ID_DIGITS && digits.bytes().all(|digit| digit.is_ascii_hexdigit())
    })
}

fn hash(text: &str) -> [u8; HASH_BYTES] {
    Sha256::digest(text.as_bytes()).into()
}

/// Bytes in hexadecimal, two digits each.
#[must_use]
pub fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).map(char::from).collect()
}

#[inline]
fn digit(half: u8) -> u8 {
    if half < 10 { b'0' + half } else { b'a' - 10 + half }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_recognised_by_its_hash_alone() {
        let (text, token) = Token::make("ci".to_owned(), Grant::default(), Timestamp::EPOCH).unwrap();
        assert_eq!(digits_of(&text), token.id.strip_prefix("t-"));
        assert!(token.is(&text));
        let secret = text.rsplit('_').next().unwrap();
        assert!(!serde_json::to_string(&token).unwrap().contains(secret));
        for wrong in ["", &text[..text.len() - 1], &text.to_uppercase(), &format!("{text}0")] {
            assert!(!token.is(wrong) && digits_of(wrong).is_none(), "{wrong}");
        }
        let (other, _) = Token::make("ci".to_owned(), Grant::default(), Timestamp::EPOCH).unwrap();
        assert!(!token.is(&other));
    }
}
