//! Opening embedders. Each kind has its cargo feature: `model`, `embed-static`, `embed-openai`.
//!
//! ```no_run
//! # async fn example() -> memory::Result<()> {
//! // A local model: a folder with config.json, tokenizer.json and model.safetensors.
//! let embedder = memory::embedders::open_static("models/wordllama-256")?;
//! let memory = memory::Registry::default().with_embedder(embedder).open("sqlite:memory.db").await?;
//! assert!(memory.capabilities().vector_search);
//! # Ok(()) }
//! ```
//!
//! Embedders named in `memory.toml` are opened by [`Config::open_embedder`](crate::Config::open_embedder), or with the
//! backend that uses them by [`Config::open_backend`](crate::Config::open_backend).

use std::path::Path;
use std::sync::Arc;

use memory_core::{Embedder, Error, ErrorKind, Result, Retry};

use crate::config::sections::embedders::{EgressSection, EmbedderSection, StaticSection};
use crate::factory::OpenContext;

/// Opens the local static model in `folder`. Reads its files, downloads nothing.
///
/// # Errors
/// `capability_unsupported` without the cargo feature `embed-static`; otherwise the errors of the model's files.
pub fn open_static(folder: impl AsRef<Path>) -> Result<Arc<dyn Embedder>> {
    let section = StaticSection { path: folder.as_ref().to_owned(), name: None, dimensions: None };
    local(&section, Path::new(""))
}

/// The name of the model bundled with the library, in `memory.toml` and on the command line.
pub const BUNDLED: &str = "bundled";

/// Opens the model bundled with the library. Needs no file and no download.
///
/// # Errors
/// `capability_unsupported` without the cargo feature `model`.
#[cfg(feature = "model")]
pub fn open_bundled() -> Result<Arc<dyn Embedder>> {
    Ok(Arc::new(memory_model::BundledEmbedder::new()?))
}

/// This build has none.
///
/// # Errors
/// `capability_unsupported` without the cargo feature `model`.
#[cfg(not(feature = "model"))]
pub fn open_bundled() -> Result<Arc<dyn Embedder>> {
    Err(not_built(BUNDLED, "model"))
}

/// Opens the embedder that a section of `memory.toml` describes.
pub(crate) fn open(
    section: &EmbedderSection,
    egress: &EgressSection,
    base_dir: &Path,
    context: &OpenContext,
) -> Result<Arc<dyn Embedder>> {
    #[cfg(not(feature = "embed-openai"))]
    let _ = (egress, context);
    match section {
        EmbedderSection::Static(section) => local(section, base_dir),
        #[cfg(feature = "embed-openai")]
        EmbedderSection::OpenAi(options) => remote(options, egress, base_dir, context),
        EmbedderSection::Bundled => open_bundled(),
        EmbedderSection::NotBuilt { kind, feature } => Err(not_built(kind, feature)),
    }
}

#[cfg(feature = "embed-static")]
fn local(section: &StaticSection, base_dir: &Path) -> Result<Arc<dyn Embedder>> {
    let mut options = memory_embed::StaticOptions::default();
    options.name.clone_from(&section.name);
    options.dimensions = section.dimensions;
    let embedder = memory_embed::StaticEmbedder::load(base_dir.join(&section.path), &options)?;
    Ok(Arc::new(embedder))
}

#[cfg(not(feature = "embed-static"))]
fn local(_: &StaticSection, _: &Path) -> Result<Arc<dyn Embedder>> {
    Err(not_built("static", "embed-static"))
}

#[cfg(feature = "embed-openai")]
fn remote(
    options: &memory_embed::OpenAiOptions,
    egress: &EgressSection,
    base_dir: &Path,
    context: &OpenContext,
) -> Result<Arc<dyn Embedder>> {
    let mut options = options.clone();
    options.api_key_file = options.api_key_file.map(|file| base_dir.join(file));
    options.ca_file = options.ca_file.map(|file| base_dir.join(file));
    let (clock, ids) = (Arc::clone(&context.clock), Arc::clone(&context.ids));
    Ok(Arc::new(memory_embed::OpenAiEmbedder::open(
        options,
        policy(egress, &context.allowed_hosts)?,
        clock,
        ids,
    )?))
}

/// The hosts that `[egress]` allows, plus these.
#[cfg(any(feature = "embed-openai", feature = "chat-openai"))]
pub(crate) fn policy(
    egress: &EgressSection,
    more: &[String],
) -> Result<memory_embed::memory_http::EgressPolicy> {
    let mut allowed = egress.allow.iter().chain(more);
    allowed.try_fold(memory_embed::memory_http::EgressPolicy::new(), |policy, host| policy.allow_host(host))
}

fn not_built(kind: &str, feature: &str) -> Error {
    Error::new(
        ErrorKind::Unsupported,
        format!(
            "embedders of kind `{kind}` need the cargo feature `{feature}` of the crate `memory`, which this build lacks"
        ),
    )
    .with_retry(Retry::Never)
    .with_detail("feature", feature)
}

/// Checks the syntax of the hosts in `[egress]`.
pub(crate) fn check_egress(egress: &EgressSection) -> Result<()> {
    for host in &egress.allow {
        let well_formed = host.rsplit_once(':').is_some_and(|(name, port)| {
            !name.is_empty()
                && !name.contains(['*', '/', '@', '?', '#', '\\'])
                && port.parse::<u16>().is_ok_and(|port| port != 0)
        });
        if !well_formed {
            return Err(Error::invalid(
                "`allow` under [egress] lists hosts as host:port, as in `localhost:11434` or `[::1]:8080`, without scheme, path or wildcard",
            ));
        }
    }
    #[cfg(feature = "embed-openai")]
    policy(egress, &[])?;
    Ok(())
}
