//! Checks that come before anything else.

use memory_core::{Error, Result, RunContext, Scope};

/// Checks that the scope is of the run's own tenant.
///
/// # Errors
/// `scope_denied`.
pub fn check_tenant(run: &RunContext, scope: &Scope) -> Result<()> {
    if run.tenant == scope.tenant {
        Ok(())
    } else {
        Err(Error::scope_denied("the scope belongs to another tenant than the run"))
    }
}
