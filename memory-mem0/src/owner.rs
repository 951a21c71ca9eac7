//! The id of a scope at mem0.

use memory_core::Scope;
use memory_http::scope_id;
use memory_http::service::Service;

/// The names that messages use.
pub(crate) const SERVICE: Service = Service { name: "mem0", owner: "user" };

/// The id that stands for a scope at mem0: `m1.`, the kind, a dot, and the 64 digits of the scope's digest.
///
/// It has only letters, digits and dots and is never blank, so it has no special meaning in a filter, path or parameter.
/// Different scopes have different ids, whatever their tenants and ids contain.
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
