//! A scope as a service knows it.

use memory_core::layer::FactId;
use memory_core::{Error, ErrorKind, Result, RunContext, Scope};

use crate::keys::keyring::Keyring;

/// A service, as messages name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// What it calls whom a memory belongs to, as `user`.
    pub owner: &'static str,
}

impl Service {
    /// The owner of a scope.
    ///
    /// # Errors
    /// `too_large` where the tenant's id is too long for the prefix that is configured.
    pub fn owner(self, keys: &Keyring, scope: &Scope) -> Result<Owner> {
        Ok(Owner { service: self, id: keys.remote_id(scope)?, scope: scope.clone() })
    }

    /// The owner of a scope that a run asks about. Refuses a scope of another tenant than the run's, also without `Checked`.
    ///
    /// # Errors
    /// `scope_denied`; as [`Service::owner`].
    pub fn owner_for(self, keys: &Keyring, run: &RunContext, scope: &Scope) -> Result<Owner> {
        if run.tenant == scope.tenant {
            return self.owner(keys, scope);
        }
        Err(Error::new(
            ErrorKind::ScopeDenied,
            "the scope belongs to another tenant than the run; use a scope of the run's own tenant",
        ))
    }

    /// `corrupt`: the service answered with `what`.
    #[must_use]
    pub fn corrupt(self, what: &str) -> Error {
        Error::new(
            ErrorKind::Corrupt,
            format!("{} answered with {what}; nothing of the reply is used", self.name),
        )
    }

    /// An id that the service gave.
    ///
    /// # Errors
    /// `corrupt` for one that is no UUID.
    pub fn fact_id(self, id: &str) -> Result<FactId> {
        if is_uuid(id) { FactId::new(id) } else { Err(self.corrupt("a memory whose id is no UUID")) }
    }
}

/// Whom a call is about. No other id ever goes into a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    service: Service,
    id: String,
    scope: Scope,
}

impl Owner {
    /// The id that stands for the scope at the service.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The scope.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Checks whom a reply says that a memory belongs to.
    ///
    /// # Errors
    /// `corrupt` where that is somebody else, or nobody.
    pub fn check(&self, said: Option<&str>) -> Result<()> {
        if said == Some(self.id.as_str()) {
            return Ok(());
        }
        let Service { name, owner } = self.service;
        tracing::warn!(scope = %self.id, service = name, "a reply holds a memory of another {owner} and is refused");
        Err(Error::new(
            ErrorKind::Corrupt,
            format!(
                "{name} answered with a memory of another {owner}, so nothing of the reply is used; check the server"
            ),
        ))
    }
}

/// Whether this is a UUID in its usual form, as the ids of memory services are. Nothing else becomes part of a path.
#[must_use]
pub fn is_uuid(id: &str) -> bool {
    id.len() == 36
        && id.bytes().enumerate().all(|(at, byte)| match at {
            8 | 13 | 18 | 23 => byte == b'-',
            _ => byte.is_ascii_hexdigit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::options::scope_id;

    #[test]
    fn ids_are_of_harmless_characters_short_and_never_the_same() {
        let mut seen = std::collections::BTreeSet::new();
        let ids = ["a", "A", "a.", "../x", "$or", &"x".repeat(100), &"x".repeat(256), "b:user:a"];
        for tenant in ["t", "t/agent", "AND", "a:b", "é", "**"] {
            for id in ids {
                for scope in [Scope::agent(tenant, id), Scope::user(tenant, id), Scope::run(tenant, id)] {
                    let remote = scope_id(&scope.unwrap());
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
