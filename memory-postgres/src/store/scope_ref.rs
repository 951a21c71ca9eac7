//! A scope as used in statements.

use memory_core::{Result, Scope, ScopeDigest, ScopeKind};
use tokio_postgres::types::Type;

use crate::error::malformed;
use crate::store::parameters::Value;

/// A scope with its digest and its kind as a number.
#[derive(Clone, Debug)]
pub(crate) struct ScopeRef {
    pub(crate) scope: Scope,
    pub(crate) digest: ScopeDigest,
    kind: i16,
    // Copies from `scope`: a parameter refers to a value of a sized type.
    tenant: String,
    name: String,
}

impl ScopeRef {
    pub(crate) fn of(scope: &Scope) -> Self {
        Self {
            digest: scope.digest(),
            kind: kind_number(scope.kind),
            tenant: scope.tenant.as_str().to_owned(),
            name: scope.id.as_str().to_owned(),
            scope: scope.clone(),
        }
    }

    pub(crate) fn tenant(&self) -> &str {
        &self.tenant
    }

    pub(crate) fn kind(&self) -> i16 {
        self.kind
    }

    /// The first three parameters of most statements.
    pub(crate) fn values(&self) -> [Value<'_>; 3] {
        [(&self.tenant, Type::TEXT), (&self.kind, Type::INT2), (&self.name, Type::TEXT)]
    }

    /// These three, followed by `others`.
    pub(crate) fn parameters<'a, const N: usize>(&'a self, others: [Value<'a>; N]) -> Vec<Value<'a>> {
        self.values().into_iter().chain(others).collect()
    }
}

/// A kind as stored in `scope.kind`: rows sort by it as `ScopeKind` does.
pub(crate) fn kind_number(kind: ScopeKind) -> i16 {
    match kind {
        ScopeKind::Host => -1,
        ScopeKind::Agent => 0,
        ScopeKind::User => 1,
        ScopeKind::Run => 2,
    }
}

/// The inverse of [`kind_number`].
/// Fails with `corrupt` for any other number.
pub(crate) fn kind_of(number: i16) -> Result<ScopeKind> {
    match number {
        -1 => Ok(ScopeKind::Host),
        0 => Ok(ScopeKind::Agent),
        1 => Ok(ScopeKind::User),
        2 => Ok(ScopeKind::Run),
        _ => Err(malformed("scope")),
    }
}
