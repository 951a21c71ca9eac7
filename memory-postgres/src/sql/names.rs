//! What a scope's schema and role are called, and the password of the role.

use std::fmt;

use hmac::{Hmac, KeyInit as _, Mac as _};
use memory_core::{Error, Result, Scope, ScopeDigest};
use sha2::Sha256;

/// Digits of the digest in a name: 160 bits, and no identifier comes near the 63 bytes that PostgreSQL keeps.
const DIGITS: usize = 40;

/// The name of a scope in the agents' database: hexadecimal digits of its digest.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Hex(String);

impl Hex {
    pub(crate) fn of(scope: &Scope) -> Self {
        Self::of_digest(&scope.digest())
    }

    pub(crate) fn of_digest(digest: &ScopeDigest) -> Self {
        Self(digest.to_hex().chars().take(DIGITS).collect())
    }

    /// Of a scope that the database knows by it.
    pub(crate) fn known(hex: String) -> Self {
        Self(hex)
    }

    pub(crate) fn as_str(&self) -> &str {
        &self.0
    }

    pub(crate) fn schema(&self) -> String {
        format!("mem_s_{}", self.0)
    }

    pub(crate) fn role(&self) -> String {
        format!("mem_r_{}", self.0)
    }
}

/// The key that passwords of roles are made with. `Debug` shows nothing of it.
#[derive(Clone)]
pub(crate) struct Key(Hmac<Sha256>);

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

/// Fewest bytes of a key: what makes guessing hopeless.
pub(crate) const SHORTEST_KEY: usize = 32;

impl Key {
    /// # Errors
    /// `invalid_argument` where it is too short.
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

    /// What the server keeps of it: a password cannot be had from this.
    pub(crate) fn verifier(&self, role: &str) -> String {
        postgres_protocol::password::scram_sha_256(self.password(role).as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_fit_and_differ() {
        let (a, b) = (Scope::agent("public", "a").unwrap(), Scope::user("public", "a").unwrap());
        let (a, b) = (Hex::of(&a), Hex::of(&b));
        assert_ne!(a, b);
        for name in [a.schema(), a.role()] {
            assert_eq!(name.len(), 46);
            assert!(
                name.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_')
            );
        }
    }

    #[test]
    fn a_password_is_of_the_key_and_the_role() {
        let (one, other) = (Key::new(&[1; 32]).unwrap(), Key::new(&[2; 32]).unwrap());
        assert_eq!(one.password("r"), one.password("r"));
        assert_ne!(one.password("r"), other.password("r"));
        assert_ne!(one.password("r"), one.password("s"));
        let verifier = one.verifier("r");
        assert!(verifier.starts_with("SCRAM-SHA-256$") && !verifier.contains(&one.password("r")));
        assert!(Key::new(&[1; 31]).is_err() && !format!("{one:?}").contains('1'));
    }
}
