//! The embedders of `memory.toml`, by name.

use std::path::Path;
use std::sync::Arc;

use memory_core::{Embedder, Error, Result};

use super::sections::embedders::EmbedderSection;
use super::{Config, error};
use crate::embedders::BUNDLED;
use crate::registry::Registry;

impl Config {
    /// Names of the embedders, in order.
    pub fn embedders(&self) -> impl Iterator<Item = &str> {
        self.file().embedders.keys().map(String::as_str)
    }

    /// The section of an embedder. [`BUNDLED`] needs none.
    ///
    /// # Errors
    /// `not_found`, listing the names.
    pub fn embedder(&self, name: &str) -> Result<&EmbedderSection> {
        if name == BUNDLED {
            return Ok(&EmbedderSection::Bundled);
        }
        self.file().embedders.get(name).ok_or_else(|| {
            let names: Vec<&str> = self.embedders().collect();
            let list = if names.is_empty() { "none".to_owned() } else { names.join(", ") };
            Error::not_found(format!(
                "{} has no embedder with that name; there are: {list}",
                self.origin().display()
            ))
            .with_detail("embedders", names)
        })
    }

    /// The name of a backend's embedder; `None` if its entries get no vectors.
    ///
    /// # Errors
    /// `not_found` if there is no such backend.
    pub fn embedder_of(&self, backend: &str) -> Result<Option<&str>> {
        self.backend_url(backend)?;
        Ok(self.file().backends.get(backend).and_then(|section| section.embedder.as_deref()))
    }

    /// Opens an embedder by name, with the clock and ids of `registry`. Reads a local model's files, but contacts no
    /// service.
    ///
    /// # Errors
    /// Those of [`Config::embedder`], and of that kind of embedder.
    pub fn open_embedder(&self, registry: &Registry, name: &str) -> Result<Arc<dyn Embedder>> {
        let section = self.embedder(name)?;
        let base_dir = self.origin().parent().unwrap_or_else(|| Path::new(""));
        crate::embedders::open(section, &self.file().egress, base_dir, registry.context()).map_err(|failed| {
            let place = Error::new(failed.kind(), format!("[embedders.{name}]: {}", failed.message()))
                .with_retry(failed.retry())
                .with_source(failed);
            error::in_file(place, self.origin())
        })
    }

    pub(super) fn check_embedders(&self) -> Result<()> {
        for (name, section) in &self.file().embedders {
            if name == BUNDLED {
                return Err(Error::invalid(format!(
                    "[embedders.{name}]: this name stands for the model that comes with the program; choose another"
                )));
            }
            section.check().map_err(|error| {
                Error::invalid(format!("[embedders.{name}]: {}", error.message())).with_source(error)
            })?;
        }
        for (name, section) in &self.file().backends {
            if let Some(embedder) = &section.embedder {
                self.embedder(embedder).map_err(|error| {
                    Error::invalid(format!(
                        "[backends.{name}] names an embedder that is not under [embedders]"
                    ))
                    .with_source(error)
                })?;
            }
        }
        crate::embedders::check_egress(&self.file().egress)
    }
}
