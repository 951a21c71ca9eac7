//! The names of a scope's schema and role in the database for agents' SQL.

use memory_core::{Scope, ScopeDigest};

/// Digits of the digest in a name: 160 bits, well within the 63 bytes that PostgreSQL keeps of an identifier.
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

    /// A name read from the database.
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
}
