//! The password of a scope's role.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use memory_core::{Error, Result};
use sha2::Sha256;

/// The key from which passwords of roles are derived. `Debug` shows nothing of it.
#[derive(Clone)]
pub(crate) struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Minimum length of a key in bytes: shorter ones could be guessed.
pub(crate) const SHORTEST_KEY: usize = 32;

impl Key {
    /// Fails with `invalid_argument` if it is too short.
    pub(crate) fn new(bytes: &[u8]) -> Result<Self> {
        let short =
            || Error::invalid(format!("the key of postgres.sql must have at least {SHORTEST_KEY} bytes"));
        if bytes.len() < SHORTEST_KEY {
            return Err(short());
        }
        Hmac::new_from_slice(bytes).map(Self).map_err(|_| short())
    }

    /// The password of a role.
    pub(crate) fn password(&self, role: &str) -> String {
        let mut mac = self.0.clone();
        mac.update(b"memory.sql.role.v1\0");
        mac.update(role.as_bytes());
        mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The SCRAM verifier that the server stores. The password cannot be derived from it.
    pub(crate) fn verifier(&self, role: &str) -> String {
        postgres_protocol::password::scram_sha_256(self.password(role).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_depends_on_the_key_and_the_role() {
        let (one, other) = (Key::new(&[1; 32]).unwrap(), Key::new(&[2; 32]).unwrap());
        assert_eq!(one.password("r"), one.password("r"));
        assert_ne!(one.password("r"), other.password("r"));
        assert_ne!(one.password("r"), one.password("s"));
        let verifier = one.verifier("r");
        assert!(verifier.starts_with("SCRAM-SHA-256$") && !verifier.contains(&one.password("r")));
        assert!(Key::new(&[1; 31]).is_err() && !format!("{one:?}").contains('1'));
    }
}
