//! The wrapper that enforces what a provider advertises.

mod arguments;
mod backend;
mod layer;
mod provider;
mod records;
mod sql;

pub use arguments::check_messages;
pub use backend::check_entry;
pub use records::check_record;

use crate::capabilities::Capabilities;
use crate::error::{Error, Result};
use crate::interposed::Op;
use crate::provider::Provider;

/// A provider whose arguments are validated and whose unadvertised operations are refused before they reach it.
///
/// It implements every facet itself, so its accessors return itself. Every argument it passes on is within
/// [`crate::limits`] and the limits that the provider advertises.
#[derive(Debug)]
pub struct Checked<P> {
    inner: P,
    capabilities: Capabilities,
}

impl<P: Provider> Checked<P> {
    /// Wraps a provider.
    ///
    /// # Errors
    /// `internal` if the provider contradicts itself: a facet flag without its accessor, an accessor without its flag,
    /// no facet at all, or flags that exclude each other.
    pub fn new(inner: P) -> Result<Self> {
        let capabilities = inner.capabilities();
        let mut contradictions: Vec<String> =
            capabilities.contradictions().into_iter().map(str::to_owned).collect();
        for (facet, advertised, served) in [
            ("kv", capabilities.kv, inner.backend().is_some()),
            ("memory_layer", capabilities.memory_layer, inner.layer().is_some()),
            ("sql", capabilities.sql, inner.sql().is_some()),
        ] {
            if advertised != served {
                contradictions.push(format!("`{facet}` is advertised {advertised} and served {served}"));
            }
        }
        if !(capabilities.kv || capabilities.memory_layer || capabilities.sql) {
            contradictions.push("it serves no facet: neither `kv` nor `memory_layer` nor `sql`".to_owned());
        }
        if contradictions.is_empty() {
            Ok(Self { inner, capabilities })
        } else {
            Err(Error::internal(format!(
                "provider `{}` contradicts itself: {}",
                inner.name(),
                contradictions.join("; ")
            )))
        }
    }

    /// The wrapped provider.
    #[must_use]
    pub fn inner(&self) -> &P {
        &self.inner
    }

    fn unsupported(&self, op: Op) -> Error {
        Error::unsupported(op.as_str(), self.inner.name())
    }

    fn unsupported_option(&self, op: Op, option: &'static str) -> Error {
        self.unsupported(op).with_detail("option", option)
    }

    fn require(&self, advertised: bool, op: Op) -> Result<()> {
        if advertised { Ok(()) } else { Err(self.unsupported(op)) }
    }

    fn vector_unsupported(&self, op: Op) -> Error {
        Error::vector_unsupported(
            format!(
                "provider `{}` serves no vectors; search by words, or configure an embedder if the backend takes one",
                self.inner.name()
            ),
        )
        .with_detail("operation", op.as_str())
        .with_detail("provider", self.inner.name())
    }
}
