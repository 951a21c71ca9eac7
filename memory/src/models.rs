//! Opens the language model named in `memory.toml` (feature `chat-openai`).

use std::path::Path;
use std::sync::Arc;

use memory_core::{ChatModel, Result};
#[cfg(not(feature = "chat-openai"))]
use memory_core::{Error, ErrorKind, Retry};

use crate::config::sections::embedders::EgressSection;
use crate::config::sections::models::ChatSection;
use crate::factory::OpenContext;

#[cfg(feature = "chat-openai")]
pub use memory_embed::OpenAiChatOptions;

/// Opens what `[models.chat]` describes.
#[cfg(feature = "chat-openai")]
pub(crate) fn open(
    section: &ChatSection,
    egress: &EgressSection,
    base_dir: &Path,
    context: &OpenContext,
) -> Result<Arc<dyn ChatModel>> {
    let ChatSection::OpenAi(options) = section else {
        return Err(memory_core::Error::internal("a build with a chat API has no section for it"));
    };
    let mut options = (**options).clone();
    options.api_key_file = options.api_key_file.map(|file| base_dir.join(file));
    options.ca_file = options.ca_file.map(|file| base_dir.join(file));
    let policy = crate::embedders::policy(egress, &context.allowed_hosts)?;
    let (clock, ids) = (Arc::clone(&context.clock), Arc::clone(&context.ids));
    Ok(Arc::new(memory_embed::OpenAiChat::open(options, policy, clock, ids)?))
}

/// This build has none.
#[cfg(not(feature = "chat-openai"))]
pub(crate) fn open(
    _: &ChatSection,
    _: &EgressSection,
    _: &Path,
    _: &OpenContext,
) -> Result<Arc<dyn ChatModel>> {
    Err(Error::new(
        ErrorKind::Unsupported,
        "language models need the cargo feature `chat-openai` of the crate `memory`, which this build lacks",
    )
    .with_retry(Retry::Never)
    .with_detail("feature", "chat-openai"))
}
