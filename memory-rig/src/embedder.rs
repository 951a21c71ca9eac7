//! An embedding model of rig for a store of this library.

use std::fmt;
use std::time::Duration;

use futures_timer::Delay;
use futures_util::future::{Either, select};
use memory::embed::timed_out;
use memory::{EmbedRole, Embedder, EmbeddingModel, Error, ErrorKind, Result};
use rig_core::DynModel;
use rig_core::error::{ErrorKind as RigErrorKind, ErrorReport, ProviderError};
use rig_core::operation::Embedding;

/// How long one request may take unless configured.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(30);

/// An embedding model of rig, for [`Registry::with_embedder`](memory::Registry::with_embedder): entries are then found by meaning.
#[derive(Clone)]
pub struct RigEmbedder {
    model: EmbeddingModel,
    rig: DynModel<Embedding>,
    timeout: Duration,
}

impl RigEmbedder {
    /// The model under these names, which are stored with each vector: another provider or model is another kind of vector.
    ///
    /// # Errors
    /// `invalid_argument` if rig does not know how long the model's vectors are; give `ndims` when you make it.
    pub fn new(provider: &str, model: &str, rig: impl Into<DynModel<Embedding>>) -> Result<Self> {
        let rig = rig.into();
        let dimensions = rig.capabilities().ndims;
        if dimensions == 0 {
            return Err(Error::invalid(format!(
                "rig does not know the length of the vectors of `{model}`; give `ndims` when you make the model"
            )));
        }
        let model = EmbeddingModel { provider: provider.to_owned(), model: model.to_owned(), dimensions };
        Ok(Self { model, rig, timeout: DEFAULT_TIMEOUT })
    }

    /// How long one request may take. Default 30 s.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }
}

impl fmt::Debug for RigEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RigEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

#[memory::async_trait]
impl Embedder for RigEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _: EmbedRole) -> Result<Vec<Vec<f32>>> {
        let most = self.rig.capabilities().max_documents.max(1);
        let mut vectors = Vec::with_capacity(texts.len());
        for chunk in texts.chunks(most) {
            let asked = self.rig.call(chunk.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>());
            let answer = match select(Box::pin(asked), Delay::new(self.timeout)).await {
                Either::Left((answer, _)) => answer.map_err(failed)?,
                Either::Right(_) => return Err(timed_out(self.timeout)),
            };
            vectors.extend(answer.embeddings.iter().map(|embedding| single(&embedding.vec)));
        }
        Ok(vectors)
    }
}

/// Vectors are stored in single precision.
#[allow(
    clippy::cast_possible_truncation,
    reason = "less precision is what is wanted; infinity is refused later"
)]
pub(crate) fn single(vector: &[f64]) -> Vec<f32> {
    vector.iter().map(|number| *number as f32).collect()
}

/// What rig reports, without its words: they repeat what the service said, which may quote a key.
fn failed(error: ProviderError) -> Error {
    let report = ErrorReport::from(error);
    let kind = match (report.http_status, &report.kind) {
        (Some(401 | 403), _) => ErrorKind::Unauthenticated,
        (Some(429), _) => ErrorKind::RateLimited,
        (Some(413), _) => ErrorKind::TooLarge,
        (_, RigErrorKind::Timeout) => ErrorKind::Timeout,
        _ => ErrorKind::Unavailable,
    };
    let error =
        Error::new(kind, format!("the embedding model failed ({}); look after it", report.kind.code()));
    match report.http_status {
        Some(status) => error.with_detail("status", status),
        None => error,
    }
}
