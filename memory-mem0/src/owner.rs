//! A scope as mem0 knows it.

use memory_core::{Error, ErrorKind, Result, Scope};
use memory_http::{Keyring, scope_id};

/// The id that stands for a scope at mem0: `m1.`, the kind, a dot, and the 64 digits of the scope's digest.
///
/// Of letters, digits and dots alone, never blank, never `*`: no filter, path or parameter reads anything into it.
/// Different scopes have different ids, whatever tenants and ids look like.
///
/// ```
/// let scope = memory_core::Scope::agent("acme", "planner")?;
/// assert_eq!(
///     memory_mem0::remote_id(&scope),
///     "m1.agent.f5e5d0f41a407f3dfc25ed005a5748e0d916aee2029190b696967e541147a931"
/// );
/// # Ok::<(), memory_core::Error>(())
/// ```
#[must_use]
pub fn remote_id(scope: &Scope) -> String {
    scope_id(scope)
}

/// Whom a call is about. Nothing else ever goes into `user_id`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Owner {
    id: String,
    pub(crate) scope: Scope,
}

impl Owner {
    /// # Errors
    /// `too_large` where the tenant's id is too long for the prefix that is configured.
    pub(crate) fn of(keys: &Keyring, scope: &Scope) -> Result<Self> {
        Ok(Self { id: keys.remote_id(scope)?, scope: scope.clone() })
    }

    pub(crate) fn id(&self) -> &str {
        &self.id
    }

    /// Holds what a reply says against it.
    ///
    /// # Errors
    /// `corrupt` where the row is another's, or nobody's.
    pub(crate) fn check(&self, user_id: Option<&str>) -> Result<()> {
        if user_id == Some(self.id.as_str()) {
            return Ok(());
        }
        tracing::warn!(scope = %self.id, "mem0 answered with a memory of another user; the reply is refused");
        Err(Error::new(
            ErrorKind::Corrupt,
            "mem0 answered with a memory of another user, so nothing of the reply is used; check the server",
        ))
    }
}

/// Whether it is a UUID in its usual form; mem0 fails with 502 on everything else, and a path must hold nothing
/// else.
pub(crate) fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_of_harmless_characters_and_never_the_same() {
        let mut seen = std::collections::BTreeSet::new();
        for tenant in ["t", "t/agent", "AND", "a:b", "é", "**"] {
            for id in ["a", "A", "a.", "../x", "$or", "x".repeat(256).as_str(), "b:user:a"] {
                for scope in [Scope::agent(tenant, id), Scope::user(tenant, id), Scope::run(tenant, id)] {
                    let remote = remote_id(&scope.unwrap());
                    assert!(remote.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'.'), "{remote}");
                    assert!(remote.len() <= 100);
                    assert!(seen.insert(remote));
                }
            }
        }
    }

    #[test]
    fn a_uuid_is_a_uuid() {
        assert!(is_uuid("00000000-0000-4000-8000-000000000000"));
        for other in [
            "",
            "*",
            "not-a-uuid",
            "../../../../../../../../../../etc/pass",
            "00000000-0000-4000-8000-00000000000g",
            "00000000-0000-4000-8000-0000000000000",
            " 0000000-0000-4000-8000-000000000000",
        ] {
            assert!(!is_uuid(other), "{other}");
        }
    }
}
