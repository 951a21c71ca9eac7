//! What an agent may use on PostgreSQL by default.

use super::Policy;

/// Fills in the lists.
pub(super) fn fill(policy: &mut Policy) {
    let _ = policy;
}
