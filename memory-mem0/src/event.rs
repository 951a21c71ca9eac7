//! Events of the Platform. It reports any event to anyone who knows its id, so the id that callers get is bound to the
//! scope: it carries a proof that it was issued for this scope and key.

use hmac::{Hmac, KeyInit as _, Mac as _};
use memory_core::layer::EventId;
use memory_core::{Error, Result, Scope, Secret};
use sha2::Sha256;

/// Digits of the proof.
const TAG_DIGITS: usize = 32;
/// Longest event id of the Platform.
const MAX_REMOTE_DIGITS: usize = 128;

/// The id that callers get for an event of the Platform.
/// Fails with `corrupt` if the Platform's id is malformed.
pub(crate) fn bind(key: &Secret, scope: &Scope, remote: &str) -> Result<EventId> {
    if !is_plain(remote) {
        return Err(Error::corrupt("mem0 answered with a malformed event id; check the server"));
    }
    EventId::new(format!("{}.{remote}", tag(key, scope, remote)?))
}

/// The Platform's id of an event of this scope.
/// Fails with `not_found` for an event of another scope, or a malformed id.
pub(crate) fn unbind<'a>(key: &Secret, scope: &Scope, event: &'a EventId) -> Result<&'a str> {
    event
        .as_str()
        .split_once('.')
        .filter(|(proof, remote)| is_plain(remote) && tag(key, scope, remote).is_ok_and(|tag| tag == *proof))
        .map(|(_, remote)| remote)
        .ok_or_else(unknown)
}

/// The error for an event that is not this scope's. It does not say whether the event exists.
pub(crate) fn unknown() -> Error {
    Error::not_found("this scope has no such event; use the id that `add` returned")
}

fn is_plain(id: &str) -> bool {
    (1..=MAX_REMOTE_DIGITS).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// HMAC-SHA256 of the scope and the id, under the key.
fn tag(key: &Secret, scope: &Scope, remote: &str) -> Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
        .map_err(|_| Error::internal("HMAC rejected a key, though it accepts any length"))?;
    mac.update(b"memory.mem0.event.v1");
    mac.update(scope.digest().as_bytes());
    mac.update(remote.as_bytes());
    let mut tag: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    tag.truncate(TAG_DIGITS);
    Ok(tag)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn issued_ids_stay_valid() {
        let scope = Scope::agent("acme", "planner").unwrap();
        let tag = |key: &str| tag(&Secret::new(key), &scope, "2c4d1f44-4f7b").unwrap();
        assert_eq!(tag("k"), "aa96cab134307c6ab15d95492413b76e");
        // A key longer than a block.
        assert_eq!(tag(&"k".repeat(131)), "ae6df3bfbb62cf215d972e9d5ffa1274");
    }

    #[test]
    fn an_event_id_is_valid_only_for_its_scope_and_key() {
        let (key, other) = (Secret::new("k"), Secret::new("l"));
        let (scope, stranger) = (Scope::agent("t", "a").unwrap(), Scope::user("t", "a").unwrap());
        let event = bind(&key, &scope, "2c4d1f44-4f7b").unwrap();
        assert_eq!(unbind(&key, &scope, &event).unwrap(), "2c4d1f44-4f7b");
        assert!(unbind(&key, &stranger, &event).is_err());
        assert!(unbind(&other, &scope, &event).is_err());
        for bad in ["2c4d1f44-4f7b", ".", "x.", ".x", "../x", &format!("{event}/..")] {
            assert!(unbind(&key, &scope, &EventId::new(bad).unwrap()).is_err(), "{bad}");
        }
        assert!(bind(&key, &scope, "../v1/memories").is_err());
    }
}
