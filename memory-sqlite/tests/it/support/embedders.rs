//! Embedders for tests.

use std::collections::HashSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;

use async_trait::async_trait;
use memory_conformance::random::Random;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Error, ErrorKind, Result};

/// Embeds each text in a random direction, equal texts in the same one.
#[derive(Debug)]
pub(crate) struct Directions {
    model: EmbeddingModel,
    /// How many texts each call had.
    calls: Mutex<Vec<usize>>,
    /// Texts that it refuses as too long.
    refused: Mutex<HashSet<String>>,
    hangs: AtomicBool,
    pub(crate) asked: AtomicU64,
}

impl Directions {
    pub(crate) fn new(dimensions: usize) -> Self {
        Self::named("directions", dimensions)
    }

    pub(crate) fn named(model: &str, dimensions: usize) -> Self {
        Self {
            model: EmbeddingModel { provider: "test".into(), model: model.into(), dimensions },
            calls: Mutex::default(),
            refused: Mutex::default(),
            hangs: AtomicBool::new(false),
            asked: AtomicU64::new(0),
        }
    }

    pub(crate) fn vector(&self, text: &str) -> Vec<f32> {
        let mut random = Random::named(&format!("{}\0{text}", self.model.model));
        let mut number = || f32::from(i16::try_from(random.below(20_001)).unwrap() - 10_000) / 10_000.0;
        let mut numbers: Vec<f32> = (0..self.model.dimensions).map(|_| number()).collect();
        // Never all zero.
        numbers[0] += 0.000_03;
        numbers
    }

    pub(crate) fn refuse(&self, text: &str) {
        self.refused.lock().unwrap().insert(text.to_owned());
    }

    pub(crate) fn hang(&self, hangs: bool) {
        self.hangs.store(hangs, Ordering::SeqCst);
    }

    /// How many texts each call had since the last time.
    pub(crate) fn calls(&self) -> Vec<usize> {
        std::mem::take(&mut self.calls.lock().unwrap())
    }
}

#[async_trait]
impl Embedder for Directions {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.calls.lock().unwrap().push(texts.len());
        // Nobody wakes this future.
        std::future::poll_fn(|_| match self.hangs.load(Ordering::SeqCst) {
            true => Poll::Pending,
            false => Poll::Ready(()),
        })
        .await;
        if texts.iter().any(|text| self.refused.lock().unwrap().contains(*text)) {
            return Err(Error::new(ErrorKind::TooLarge, "the text is too long for the model; shorten it"));
        }
        Ok(texts.iter().map(|text| self.vector(text)).collect())
    }
}
