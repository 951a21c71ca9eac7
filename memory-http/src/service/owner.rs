//! The owner of memories at a service.

use memory_core::layer::FactId;
use memory_core::{Error, Result, RunContext, Scope};

use crate::keys::keyring::Keyring;

/// A service, for messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Service {
    /// Its name.
    pub name: &'static str,
    /// The service's word for the owner of a memory, such as `user`.
    pub owner: &'static str,
}

impl Service {
    /// The owner of a scope.
    ///
    /// # Errors
    /// `too_large` if the tenant's id is too long for the configured prefix.
    pub fn owner(self, keys: &Keyring, scope: &Scope) -> Result<Owner> {
        Ok(Owner { service: self, id: keys.remote_id(scope)?, scope: scope.clone() })
    }

    /// The owner of a scope that a run asks about. Refuses a scope of another tenant, even without `Checked`.
    ///
    /// # Errors
    /// `scope_denied`; as [`Service::owner`].
    pub fn owner_for(self, keys: &Keyring, run: &RunContext, scope: &Scope) -> Result<Owner> {
        if run.tenant == scope.tenant {
            return self.owner(keys, scope);
        }
        Err(Error::scope_denied(
            "the scope belongs to another tenant than the run; use a scope of the run's own tenant",
        ))
    }

    /// `corrupt`: the service answered with `what`.
    #[must_use]
    pub fn corrupt(self, what: &str) -> Error {
        Error::corrupt(format!("{} answered with {what}; nothing of the reply is used", self.name))
    }

    /// An id from the service.
    ///
    /// # Errors
    /// `corrupt` if it is not a UUID.
    pub fn fact_id(self, id: &str) -> Result<FactId> {
        if is_uuid(id) { FactId::new(id) } else { Err(self.corrupt("a memory whose id is not a UUID")) }
    }
}

/// The owner that a call is about. No other id ever goes into a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Owner {
    service: Service,
    id: String,
    scope: Scope,
}

impl Owner {
    /// The scope's id at the service.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// The scope.
    #[must_use]
    pub fn scope(&self) -> &Scope {
        &self.scope
    }

    /// Checks the owner in a reply.
    ///
    /// # Errors
    /// `corrupt` if it is someone else, or missing.
    pub fn check(&self, said: Option<&str>) -> Result<()> {
        if said == Some(self.id.as_str()) {
            return Ok(());
        }
        let Service { name, owner } = self.service;
        tracing::warn!(scope = %self.id, service = name, "a reply holds a memory of another {owner} and is refused");
        Err(Error::corrupt(format!(
            "{name} answered with a memory of another {owner}, so nothing of the reply is used; check the server"
        )))
    }
}

/// Whether this is a UUID in the usual form, as used by memory services. Nothing else becomes part of a path.
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
