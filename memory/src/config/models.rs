//! The language model of `memory.toml`, and what it is used for.

use std::path::Path;
use std::sync::Arc;

use memory_core::{ChatModel, Error, Result};

use super::sections::models::InterpreterKind;
use super::{Config, error};
use crate::registry::Registry;

impl Config {
    /// Whether `[models.chat]` names a language model.
    #[must_use]
    pub fn has_chat_model(&self) -> bool {
        self.file().models.chat.is_some()
    }

    /// Opens the language model of `[models.chat]`, with the clock and ids of `registry`, at hosts that `[egress]` or
    /// the registry allow. Reads its key, but contacts no service.
    ///
    /// # Errors
    /// `not_found` without the section; `capability_unsupported` without the cargo feature `chat-openai`; otherwise
    /// those of the service's options.
    pub fn open_chat_model(&self, registry: &Registry) -> Result<Arc<dyn ChatModel>> {
        let section = self.file().models.chat.as_ref().ok_or_else(|| {
            Error::not_found(format!(
                "{} has no [models.chat], which names the language model to ask",
                self.origin().display()
            ))
        })?;
        let base_dir = self.origin().parent().unwrap_or_else(|| Path::new(""));
        crate::models::open(section, &self.file().egress, base_dir, registry.context()).map_err(|failed| {
            let place = Error::new(failed.kind(), format!("[models.chat]: {}", failed.message()))
                .with_retry(failed.retry())
                .with_source(failed);
            error::in_file(place, self.origin())
        })
    }

    /// The language model that reads the notes of shared state; `None` if `[governed]` leaves them to rules.
    ///
    /// # Errors
    /// As [`Config::open_chat_model`].
    pub fn open_interpreter_model(&self, registry: &Registry) -> Result<Option<Arc<dyn ChatModel>>> {
        match self.file().governed.interpreter {
            InterpreterKind::Rules => Ok(None),
            InterpreterKind::Model => self.open_chat_model(registry).map(Some),
        }
    }

    /// How facts are extracted, according to `[recall.extract]` and the model's time limit; without a quota.
    #[cfg(feature = "recall")]
    #[must_use]
    pub fn extract_options(&self) -> memory_recall::extract::ExtractOptions {
        let section = &self.file().recall.extract;
        let mut options = memory_recall::extract::ExtractOptions::default();
        (options.batch, options.max_attempts) = (section.batch, section.max_attempts);
        #[cfg(feature = "chat-openai")]
        if let Some(super::sections::models::ChatSection::OpenAi(chat)) = &self.file().models.chat {
            // A model may be asked in up to three ways before the service accepts one.
            let asked = std::time::Duration::from_millis(chat.timeout_ms).saturating_mul(3);
            options.lease = asked.saturating_add(std::time::Duration::from_secs(30));
        }
        options
    }

    pub(super) fn check_models(&self) -> Result<()> {
        let file = self.file();
        if let Some(chat) = &file.models.chat {
            return chat.check().map_err(|error| {
                Error::invalid(format!("[models.chat]: {}", error.message())).with_source(error)
            });
        }
        let asks = match (file.governed.interpreter, file.recall.extract.enabled) {
            (InterpreterKind::Model, _) => "`interpreter = \"model\"` under [governed]",
            (_, true) => "`enabled = true` under [recall.extract]",
            _ => return Ok(()),
        };
        Err(Error::invalid(format!("{asks} needs a language model: describe it in [models.chat]")))
    }
}
