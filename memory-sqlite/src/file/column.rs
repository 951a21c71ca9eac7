//! Decoding columns.

use memory_core::{Result, Scope, ScopeId, ScopeKind, TenantId, Timestamp};

use crate::error::malformed;

pub(crate) fn time(millis: i64) -> Result<Timestamp> {
    Timestamp::from_millis(millis).map_err(|_| malformed("time"))
}

pub(crate) fn unsigned(number: i64, what: &'static str) -> Result<u64> {
    u64::try_from(number).map_err(|_| malformed(what))
}

/// Versions and sizes stay far below 2^63.
pub(crate) fn signed(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Rows of `scope` sort by kind as `ScopeKind` does.
pub(crate) fn kind_number(kind: ScopeKind) -> i64 {
    match kind {
        ScopeKind::Host => -1,
        ScopeKind::Agent => 0,
        ScopeKind::User => 1,
        ScopeKind::Run => 2,
    }
}

/// The inverse of [`kind_number`].
pub(crate) fn kind(number: i64) -> Result<ScopeKind> {
    match number {
        -1 => Ok(ScopeKind::Host),
        0 => Ok(ScopeKind::Agent),
        1 => Ok(ScopeKind::User),
        2 => Ok(ScopeKind::Run),
        _ => Err(malformed("scope")),
    }
}

/// The scope named by the columns `tenant`, `kind` and `name`.
pub(crate) fn scope(tenant: String, number: i64, name: String) -> Result<Scope> {
    let tenant = TenantId::new(tenant).map_err(|_| malformed("scope"))?;
    let id = ScopeId::new(name).map_err(|_| malformed("scope"))?;
    Ok(Scope::new(tenant, kind(number)?, id))
}
