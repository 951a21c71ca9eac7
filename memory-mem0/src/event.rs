//! Events of the Platform. It tells of any event to whoever knows its id, so the id that is handed out is bound to
//! the scope: whoever has it can prove that it was made for this scope with this key.

use memory_core::layer::EventId;
use memory_core::{Error, ErrorKind, Result, Scope, Secret};
use sha2::{Digest as _, Sha256};

/// Digits of the proof.
const TAG_DIGITS: usize = 32;
/// Longest id of the Platform's.
const MAX_REMOTE_DIGITS: usize = 128;
/// Block of SHA-256, in bytes.
const BLOCK: usize = 64;

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
    EventId::new(format!("{}.{remote}", tag(key, scope, remote)))
}

/// The Platform's id of an event of this scope.
///
/// # Errors
/// `not_found` for one of another scope, or none at all.
pub(crate) fn unbind<'a>(key: &Secret, scope: &Scope, event: &'a EventId) -> Result<&'a str> {
    event
        .as_str()
        .split_once('.')
        .filter(|(proof, remote)| is_plain(remote) && *proof == tag(key, scope, remote))
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

fn tag(key: &Secret, scope: &Scope, remote: &str) -> String {
    let mut message = b"memory.mem0.event.v1".to_vec();
    message.extend_from_slice(scope.digest().as_bytes());
    message.extend_from_slice(remote.as_bytes());
    let mut tag = String::new();
    for byte in hmac(key.expose().as_bytes(), &message) {
        tag.push_str(&format!("{byte:02x}"));
    }
    tag.truncate(TAG_DIGITS);
    tag
}

/// HMAC-SHA256 (RFC 2104).
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let hashed = Sha256::digest(key);
    let key = if key.len() > BLOCK { hashed.as_slice() } else { key };
    let pad = |byte: u8| {
        let mut block: Vec<u8> = key.iter().map(|key| key ^ byte).collect();
        block.resize(BLOCK, byte);
        block
    };
    let inner = Sha256::new().chain_update(pad(0x36)).chain_update(message).finalize();
    Sha256::new().chain_update(pad(0x5c)).chain_update(inner).finalize().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proof_is_hmac_sha_256() {
        // RFC 4231, cases 2 and 6.
        let digits = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(
            digits(hmac(b"Jefe", b"what do ya want for nothing?")),
            "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
        );
        assert_eq!(
            digits(hmac(&[0xaa; 131], b"Test Using Larger Than Block-Size Key - Hash Key First")),
            "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54"
        );
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
