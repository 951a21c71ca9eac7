//! Events of the Platform. It tells of any event to whoever knows its id, so the id that is handed out is bound to
//! the scope: whoever has it can prove that it was made for this scope with this key.

use hmac::{Hmac, KeyInit as _, Mac as _};
use memory_core::layer::EventId;
use memory_core::{Error, ErrorKind, Result, Scope, Secret};
use sha2::Sha256;

/// Digits of the proof.
const TAG_DIGITS: usize = 32;
/// Longest id of the Platform's.
const MAX_REMOTE_DIGITS: usize = 128;

/// The id that is handed out for an event of the Platform's.
///
/// # Errors
/// `corrupt` for an id that is none.
pub(crate) fn bind(key: &Secret, scope: &Scope, remote: &str) -> Result<EventId> {
    if !is_plain(remote) {
        return Err(Error::new(
            ErrorKind::Corrupt,
            "mem0 gave an event an id that is none; check the server",
        ));
    }
    EventId::new(format!("{}.{remote}", tag(key, scope, remote)?))
}

/// The Platform's id of an event of this scope.
///
/// # Errors
/// `not_found` for one of another scope, or none at all.
pub(crate) fn unbind<'a>(key: &Secret, scope: &Scope, event: &'a EventId) -> Result<&'a str> {
    event
        .as_str()
        .split_once('.')
        .filter(|(proof, remote)| is_plain(remote) && tag(key, scope, remote).is_ok_and(|tag| tag == *proof))
        .map(|(_, remote)| remote)
        .ok_or_else(unknown)
}

/// What is said of an event that is not this scope's, whatever it is.
pub(crate) fn unknown() -> Error {
    Error::new(ErrorKind::NotFound, "this scope has no such event; ask with the id that `add` gave")
}

fn is_plain(id: &str) -> bool {
    (1..=MAX_REMOTE_DIGITS).contains(&id.len()) && id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
}

/// HMAC-SHA256 by the key over the scope and the id.
fn tag(key: &Secret, scope: &Scope, remote: &str) -> Result<String> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key.expose().as_bytes())
        .map_err(|_| Error::internal("HMAC refuses a key, though it takes any"))?;
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
    fn ids_that_were_handed_out_stay_good() {
        let scope = Scope::agent("acme", "planner").unwrap();
        let tag = |key: &str| tag(&Secret::new(key), &scope, "2c4d1f44-4f7b").unwrap();
        assert_eq!(tag("k"), "aa96cab134307c6ab15d95492413b76e");
        // A key longer than a block.
        assert_eq!(tag(&"k".repeat(131)), "ae6df3bfbb62cf215d972e9d5ffa1274");
    }

    #[test]
    fn an_event_is_good_for_its_scope_and_key_alone() {
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
