//! A static model: every token has a vector, a text's vector is their mean.

mod files;
mod tensors;
mod tokenizer;

use std::fmt;
use std::future::poll_fn;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::task::Poll;

use async_trait::async_trait;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Error, ErrorKind, Result, Retry};
use model2vec_rs::model::StaticModel;
use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use self::files::Files;
pub use self::files::{MAX_CONFIG_BYTES, MAX_TOKENIZER_BYTES, MAX_WEIGHTS_BYTES};

/// The provider of every static model's identity.
pub const STATIC_PROVIDER: &str = "static";
/// Tokens of a text that count, from its beginning.
pub const MAX_TOKENS: usize = 512;

/// Longest name of a model, in bytes.
const MAX_NAME_BYTES: usize = 128;
/// Hexadecimal digits of the files' digest in the model's name.
const DIGEST_DIGITS: usize = 12;
/// Texts embedded between two chances for the executor to do something else.
const TEXTS_BETWEEN_YIELDS: usize = 16;

/// How a static model is loaded.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct StaticOptions {
    /// The model's name in its identity: 1 to 128 bytes. Default: the name of its folder.
    pub name: Option<String>,
    /// The length its vectors must have. Default: whatever the weights have.
    pub dimensions: Option<usize>,
}

impl StaticOptions {
    memory_core::setters! {
        with_name(name: impl Into<String> => Some(name.into()));
        with_dimensions(dimensions: usize => Some(dimensions));
    }

    /// Checks the ranges of the fields.
    ///
    /// # Errors
    /// `invalid_argument`, naming the field.
    pub fn check(&self) -> Result<()> {
        self.name.as_deref().map_or(Ok(()), check_name)
    }
}

/// A static model in [model2vec](https://github.com/MinishLab/model2vec)'s format, held in memory: a text is
/// cut into tokens, and its vector is the mean of theirs, of unit length where the model says so. Word order
/// is lost; a text takes well under a millisecond, and nothing leaves the process.
///
/// # Behavior
/// - The identity is provider `static`, the model's name, `@`, and 12 digits of a SHA-256 over whatever
///   decides its vectors (weights, tokenizer, normalisation), so that vectors of changed files
///   never meet those of the old ones.
/// - Queries and documents are embedded alike.
/// - Of a longer text the first [`MAX_TOKENS`] tokens count.
/// - A text none of whose tokens the model knows has no vector: `invalid_argument` with `details.index`, for
///   the whole call. A caller with several texts asks for the others again without it.
#[derive(Clone)]
pub struct StaticEmbedder {
    model: EmbeddingModel,
    /// Shares its weights between clones.
    table: StaticModel,
}

impl fmt::Debug for StaticEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

impl StaticEmbedder {
    /// Loads the model in `folder`: `config.json`, `tokenizer.json`, `model.safetensors`. Blocks while it
    /// reads; nothing is fetched.
    ///
    /// # Errors
    /// `not_found`, `forbidden` or `unavailable` where a file cannot be read; `too_large` over
    /// [`MAX_WEIGHTS_BYTES`], [`MAX_TOKENIZER_BYTES`] or [`MAX_CONFIG_BYTES`]; `dimension_mismatch` where
    /// the vectors have another length than the options say; `invalid_argument` for options out of range and
    /// for files that are malformed, contradict each other, or hold numbers that are not finite.
    pub fn load(folder: impl AsRef<Path>, options: &StaticOptions) -> Result<Self> {
        let folder = folder.as_ref();
        options.check()?;
        let name = match &options.name {
            Some(name) => name.clone(),
            None => folder_name(folder)?,
        };
        let files = Files::read(folder)?;
        Self::build(name, &files, options)
            .map_err(|error| error.with_detail("folder", folder.display().to_string()))
    }

    fn build(name: String, files: &Files, options: &StaticOptions) -> Result<Self> {
        let config: ModelConfig = serde_json::from_slice(&files.config).map_err(|error| {
            Error::invalid(format!(
                "config.json cannot be used: line {}, column {}: it is not a model's configuration",
                error.line(),
                error.column()
            ))
        })?;
        let tokens = tokenizer::check(&files.tokenizer)?;
        let shape = tensors::check(&files.weights)?;
        if !shape.holds(tokens) {
            return Err(Error::invalid(format!(
                "the tokenizer numbers {tokens} tokens and the weights have {} rows; tokenizer.json and model.safetensors are of different models",
                shape.rows
            )));
        }
        if let Some(wanted) = options.dimensions.filter(|wanted| *wanted != shape.dimensions) {
            return Err(Error::new(
                ErrorKind::DimensionMismatch,
                format!(
                    "the model's vectors have {} dimensions where its configuration says {wanted}; correct the configuration or name another model",
                    shape.dimensions
                ),
            )
            .with_retry(Retry::Never)
            .with_detail("expected", wanted)
            .with_detail("actual", shape.dimensions));
        }
        let table = contained(|| {
            StaticModel::from_bytes(&files.tokenizer, &files.weights, &files.config, Some(config.normalize))
        })
        .and_then(std::result::Result::ok)
        .ok_or_else(|| {
            Error::invalid(
                "the model cannot be built: tokenizer.json asks for what this version does not know, or contradicts itself",
            )
        })?;
        let digest = digest(files, config.normalize);
        Ok(Self {
            model: EmbeddingModel {
                provider: STATIC_PROVIDER.to_owned(),
                model: format!("{name}@{digest}"),
                dimensions: shape.dimensions,
            },
            table,
        })
    }

    fn embed_one(&self, index: usize, text: &str) -> Result<Vec<f32>> {
        let refused = |why: &str| {
            Error::invalid(format!(
                "text {index} has no vector: {why}; it can be stored and found by words alone"
            ))
            .with_detail("index", index)
        };
        let vector = contained(|| self.table.encode_single(text))
            .ok_or_else(|| refused("the model's tokenizer fails on it"))?;
        if vector.iter().any(|x| !x.is_finite()) {
            return Err(refused("the sum of its tokens is not finite"));
        }
        if vector.iter().all(|x| *x == 0.0) {
            return Err(refused("the model knows none of its words"));
        }
        Ok(vector)
    }
}

#[async_trait]
impl Embedder for StaticEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let mut vectors = Vec::with_capacity(texts.len());
        for (index, text) in texts.iter().enumerate() {
            if index > 0 && index % TEXTS_BETWEEN_YIELDS == 0 {
                yield_once().await;
            }
            vectors.push(self.embed_one(index, text)?);
        }
        Ok(vectors)
    }
}

/// What of `config.json` decides the vectors.
#[derive(Deserialize)]
struct ModelConfig {
    #[serde(default = "normalized")]
    normalize: bool,
}

/// As model2vec reads a configuration that says nothing.
fn normalized() -> bool {
    true
}

/// Runs foreign code that panics where a file or text is not what it expects: the files are an operator's
/// download, the texts anybody's. `None`: it panicked. Nothing it held is used afterwards but the model,
/// which does not change while it embeds.
fn contained<T>(work: impl FnOnce() -> T) -> Option<T> {
    catch_unwind(AssertUnwindSafe(work)).ok()
}

/// Digits of a SHA-256 over all that decides a text's vector, each part with its length before it.
fn digest(files: &Files, normalize: bool) -> String {
    let mut hash = Sha256::new();
    for part in [&files.weights, &files.tokenizer] {
        hash.update(u64::try_from(part.len()).unwrap_or(u64::MAX).to_le_bytes());
        hash.update(part);
    }
    hash.update([u8::from(normalize)]);
    let mut digits: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    digits.truncate(DIGEST_DIGITS);
    digits
}

fn folder_name(folder: &Path) -> Result<String> {
    // `.` and `..` have no name of their own.
    let named = folder.file_name().map_or_else(
        || folder.canonicalize().ok().and_then(|whole| whole.file_name().map(std::ffi::OsStr::to_owned)),
        |name| Some(name.to_owned()),
    );
    let name = named.and_then(|name| name.into_string().ok()).unwrap_or_default();
    check_name(&name)
        .map_err(|_| Error::invalid("the model's folder has no name that a model can have; give it a `name`"))
        .map(|()| name)
}

fn check_name(name: &str) -> Result<()> {
    let fits = (1..=MAX_NAME_BYTES).contains(&name.len()) && !name.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "a model's `name` must have 1 to {MAX_NAME_BYTES} bytes and no control characters"
        )))
    }
}

/// Pending once, so that a long call shares its thread and can be dropped half-way.
async fn yield_once() {
    let mut yielded = false;
    poll_fn(|context| {
        if yielded {
            return Poll::Ready(());
        }
        yielded = true;
        context.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}
