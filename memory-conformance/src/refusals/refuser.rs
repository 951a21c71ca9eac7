//! Checks that an answer is the expected refusal.

use std::fmt::Debug;

use memory_core::{ErrorKind, ListQuery, Result, Scope};

use crate::case::Need;
use crate::check::{CaseResult, check, expect_kind};
use crate::cx::Cx;

/// Checks answers for the expected refusal.
pub(super) struct Refuser<'a> {
    pub(super) need: Need,
    pub(super) cx: &'a Cx,
}

impl Refuser<'_> {
    /// Fails the case unless `op` was refused with the right kind and details. `via` says how it was called.
    pub(super) fn expect<T: Debug>(&self, via: &str, op: &str, result: Result<T>) -> CaseResult {
        let kind = if matches!(self.need, Need::Vector | Need::SqlVectors) {
            ErrorKind::VectorUnsupported
        } else {
            ErrorKind::Unsupported
        };
        let error = expect_kind!(
            result,
            kind,
            "`{op}`, {via}, by a provider that does not advertise `{:?}`",
            self.need
        );
        let named = |detail: &str, name: &str| {
            error.details().get(detail).and_then(|value| value.as_str()) == Some(name)
        };
        let provider = self.cx.provider().name();
        check!(
            named("operation", op),
            "`{op}`, {via}: details.operation of the refusal does not name the operation"
        );
        check!(
            named("provider", provider),
            "`{op}`, {via}: details.provider of the refusal does not name the provider"
        );
        Ok(())
    }

    /// Fails the case if refused writes left an entry.
    pub(super) async fn nothing_stored(&self, scope: &Scope, via: &str) -> CaseResult {
        let keys = self.cx.keys(scope, ListQuery::default()).await?;
        check!(keys.is_empty(), "refused writes {via} left {keys:?} behind");
        Ok(())
    }
}
