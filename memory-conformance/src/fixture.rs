//! What a harness is given: time, ids and an embedder that obey the case.

use std::collections::VecDeque;
use std::fmt;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use memory_core::lexical::tokens;
use memory_core::{Clock, EmbedRole, Embedder, EmbeddingModel, Error, ErrorKind, IdGen, Result, Timestamp};

use crate::random::Random;

/// A clock that moves only when told to.
#[derive(Debug)]
pub struct TestClock(AtomicI64);

impl TestClock {
    /// 2026-01-01T00:00:00Z, where every case begins.
    pub const START: i64 = 1_767_225_600_000;

    /// A clock at [`TestClock::START`].
    #[must_use]
    pub fn new() -> Self {
        Self(AtomicI64::new(Self::START))
    }

    /// Moves forward.
    pub fn advance(&self, by: Duration) {
        self.0.fetch_add(i64::try_from(by.as_millis()).unwrap_or(i64::MAX), Ordering::SeqCst);
    }

    /// Moves forward by milliseconds.
    pub fn advance_ms(&self, by: u64) {
        self.advance(Duration::from_millis(by));
    }

    /// Jumps to a time, also backwards.
    pub fn set(&self, now: Timestamp) {
        self.0.store(now.as_millis(), Ordering::SeqCst);
    }
}

impl Default for TestClock {
    fn default() -> Self {
        Self::new()
    }
}

impl Clock for TestClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis_clamped(self.0.load(Ordering::SeqCst))
    }
}

/// Ids that count up from a number of their own, different for every fixture.
#[derive(Debug)]
pub struct TestIds {
    high: u64,
    next: AtomicU64,
}

impl TestIds {
    /// Ids whose upper half is made from `name`.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self { high: Random::named(name).bits(), next: AtomicU64::new(1) }
    }
}

impl IdGen for TestIds {
    fn fresh(&self) -> u128 {
        u128::from(self.high) << 64 | u128::from(self.next.fetch_add(1, Ordering::SeqCst))
    }
}

/// A way in which an embedder goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmbedFault {
    /// It fails with this kind.
    Error(ErrorKind),
    /// Its vectors have one number too many.
    Dimension,
    /// Its vectors hold a NaN.
    NotANumber,
    /// Its vectors are all zero.
    Zero,
    /// It returns one vector too few.
    TooFew,
}

/// A deterministic embedder: texts that share words have a high cosine, others a low one. It goes
/// wrong on demand.
///
/// Each distinct token adds a pseudo-random unit-less direction, so equal token sets give equal
/// vectors and the cosine of two texts is about the share of words they have in common.
pub struct TestEmbedder {
    model: EmbeddingModel,
    faults: Mutex<VecDeque<EmbedFault>>,
    always: Mutex<Option<EmbedFault>>,
    calls: AtomicU64,
}

impl TestEmbedder {
    /// How much of a text it reads.
    pub const MAX_TEXT_BYTES: usize = 2_048;
    /// Length of its vectors.
    pub const DIMENSIONS: usize = 64;

    /// An embedder that works.
    #[must_use]
    pub fn new() -> Self {
        Self::named("bag-of-words-1", Self::DIMENSIONS)
    }

    /// An embedder of another model.
    #[must_use]
    pub fn named(model: &str, dimensions: usize) -> Self {
        Self {
            model: EmbeddingModel { provider: "conformance".into(), model: model.into(), dimensions },
            faults: Mutex::default(),
            always: Mutex::default(),
            calls: AtomicU64::new(0),
        }
    }

    /// Makes the next call that has no fault yet go wrong.
    pub fn fail_next(&self, fault: EmbedFault) {
        self.faults.lock().unwrap_or_else(PoisonError::into_inner).push_back(fault);
    }

    /// Makes every call go wrong, or none (`None`).
    pub fn fail_always(&self, fault: Option<EmbedFault>) {
        *self.always.lock().unwrap_or_else(PoisonError::into_inner) = fault;
    }

    /// How often it was called.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The vector of a text; as with real models, what comes after [`TestEmbedder::MAX_TEXT_BYTES`]
    /// has no part in it.
    #[must_use]
    pub fn vector(&self, text: &str) -> Vec<f32> {
        let end = (0..=Self::MAX_TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        let mut words = tokens(text.get(..end.unwrap_or(0)).unwrap_or_default());
        words.sort();
        words.dedup();
        // A text without words must not be the zero vector either.
        if words.is_empty() {
            words.push(format!("\0{text}"));
        }
        let mut vector = vec![0.0_f32; self.model.dimensions];
        for word in words {
            let mut random = Random::named(&format!("{}\0{word}", self.model.model));
            for x in &mut vector {
                let step = i16::try_from(random.below(2_001)).unwrap_or(0) - 1_000;
                *x += f32::from(step) / 1_000.0;
            }
        }
        vector
    }
}

impl Default for TestEmbedder {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for TestEmbedder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestEmbedder").field("model", &self.model).finish_non_exhaustive()
    }
}

#[async_trait]
impl Embedder for TestEmbedder {
    fn model(&self) -> &EmbeddingModel {
        &self.model
    }

    async fn embed(&self, texts: &[&str], _role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        let next = self.faults.lock().unwrap_or_else(PoisonError::into_inner).pop_front();
        let fault = next.or(*self.always.lock().unwrap_or_else(PoisonError::into_inner));
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| self.vector(text)).collect();
        match fault {
            None => {}
            Some(EmbedFault::Error(kind)) => {
                return Err(Error::new(kind, "the test embedder was told to fail; tell it to work"));
            }
            Some(EmbedFault::Dimension) => vectors.iter_mut().for_each(|vector| vector.push(1.0)),
            Some(EmbedFault::NotANumber) => {
                vectors.iter_mut().filter_map(|vector| vector.first_mut()).for_each(|x| *x = f32::NAN);
            }
            Some(EmbedFault::Zero) => vectors.iter_mut().for_each(|vector| vector.fill(0.0)),
            Some(EmbedFault::TooFew) => drop(vectors.pop()),
        }
        Ok(vectors)
    }
}

/// Everything a harness needs to open a provider. Owned, so that it may be kept.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Fixture {
    /// Unique among the fixtures of a run, and safe as the name of a file or folder.
    pub name: String,
    /// The time to live by.
    pub clock: Arc<TestClock>,
    /// Where fresh ids come from.
    pub ids: Arc<TestIds>,
    /// An embedder to configure, where the provider takes one.
    pub embedder: Arc<TestEmbedder>,
}

impl Fixture {
    /// A fixture with a clock, ids and an embedder of its own. The runner makes one for each case;
    /// make one yourself to use the reference provider elsewhere.
    #[must_use]
    pub fn new(name: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            clock: Arc::new(TestClock::new()),
            ids: Arc::new(TestIds::new(&name)),
            embedder: Arc::new(TestEmbedder::new()),
            name,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::embed::{check_embeddings, cosine};

    #[test]
    fn texts_with_common_words_are_closer() {
        let embedder = TestEmbedder::new();
        let tea = embedder.vector("ann drinks green tea");
        let more = embedder.vector("ann drinks black tea");
        let other = embedder.vector("zürich weather forecast tomorrow");
        assert!(cosine(&tea, &more) > 0.5);
        assert!(cosine(&tea, &other) < 0.4);
        assert_eq!(tea, embedder.vector("tea green, ann drinks"));
    }

    #[test]
    fn every_fault_is_one_that_backends_must_notice() {
        let embedder = TestEmbedder::new();
        let embed = || {
            let mut answer = None;
            crate::executor::block_on(Box::pin(async {
                answer = Some(embedder.embed(&["a", "b"], EmbedRole::Document).await);
            }));
            answer.unwrap().and_then(|vectors| check_embeddings(embedder.model(), 2, &vectors))
        };
        for fault in [
            EmbedFault::Error(ErrorKind::Timeout),
            EmbedFault::Dimension,
            EmbedFault::NotANumber,
            EmbedFault::Zero,
            EmbedFault::TooFew,
        ] {
            embedder.fail_next(fault);
            assert!(embed().is_err(), "{fault:?}");
            assert!(embed().is_ok(), "after {fault:?}");
        }
    }
}
