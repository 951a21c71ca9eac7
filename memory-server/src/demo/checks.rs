//! The tour's user, and the error of a step whose claim does not hold.

use memory_core::{Error, Result};

/// The tenant of the tour.
pub(crate) const TENANT: &str = "demo";
/// Its user.
pub(crate) const USER: &str = "mira";

pub(super) fn expect(holds: bool, what: &str) -> Result<()> {
    if holds { Ok(()) } else { Err(wrong(format!("this did not hold: {what}"))) }
}

pub(super) fn wrong(what: impl Into<String>) -> Error {
    Error::internal(what.into())
}
