//! An embedder controlled by the case: deterministic, and wrong, slow or selective on demand.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Poll, Waker};

use async_trait::async_trait;
use memory_core::lexical::tokens;
use memory_core::{EmbedRole, Embedder, EmbeddingModel, Error, ErrorKind, Result};

use crate::check::{CaseResult, Stop};
use crate::harness::executor::BoxFuture;
use crate::random::Random;

/// A way in which an embedder fails.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum EmbedFault {
    /// It fails with this kind.
    Error(ErrorKind),
    /// Its vectors have one number too many.
    Dimension,
    /// Its vectors hold a NaN.
    NotANumber,
    /// Its vectors hold an infinity.
    Infinite,
    /// Its vectors are all zero.
    Zero,
    /// It returns one vector too few.
    TooFew,
    /// It returns one vector too many.
    TooMany,
}

impl EmbedFault {
    /// One of each way.
    pub const ALL: [Self; 10] = [
        Self::Error(ErrorKind::Unavailable),
        Self::Error(ErrorKind::Timeout),
        Self::Error(ErrorKind::RateLimited),
        Self::Error(ErrorKind::TooLarge),
        Self::Dimension,
        Self::NotANumber,
        Self::Infinite,
        Self::Zero,
        Self::TooFew,
        Self::TooMany,
    ];
}

/// A deterministic embedder: texts that share words have a high cosine, others a low one. It fails on demand.
///
/// Each distinct token adds a pseudo-random direction, so equal sets of tokens give equal vectors, and the cosine of
/// two texts is about the share of common words.
pub struct TestEmbedder {
    model: EmbeddingModel,
    roles: bool,
    faults: Mutex<VecDeque<EmbedFault>>,
    always: Mutex<Option<EmbedFault>>,
    refused: Mutex<Option<String>>,
    hold: Mutex<Option<Arc<Gate>>>,
    calls: AtomicU64,
    texts: AtomicU64,
}

impl TestEmbedder {
    /// How much of a text it reads.
    pub const MAX_TEXT_BYTES: usize = 2_048;
    /// Length of its vectors.
    pub const DIMENSIONS: usize = 64;

    /// A working embedder.
    #[must_use]
    pub fn new() -> Self {
        Self::named("bag-of-words-1", Self::DIMENSIONS)
    }

    /// An embedder of another model.
    #[must_use]
    pub fn named(model: &str, dimensions: usize) -> Self {
        Self {
            model: EmbeddingModel { provider: "conformance".into(), model: model.into(), dimensions },
            roles: false,
            faults: Mutex::default(),
            always: Mutex::default(),
            refused: Mutex::default(),
            hold: Mutex::default(),
            calls: AtomicU64::new(0),
            texts: AtomicU64::new(0),
        }
    }

    /// Gives queries other vectors than documents with the same text, as some models do.
    #[must_use]
    pub fn telling_roles_apart(mut self) -> Self {
        self.roles = true;
        self
    }

    /// Makes the next call without a fault fail.
    pub fn fail_next(&self, fault: EmbedFault) {
        lock(&self.faults).push_back(fault);
    }

    /// Makes every call fail, or none (`None`).
    pub fn fail_always(&self, fault: Option<EmbedFault>) {
        *lock(&self.always) = fault;
    }

    /// Makes every call with a text that contains `part` fail with `too_large`, or none (`None`).
    pub fn refuse_texts_with(&self, part: Option<&str>) {
        *lock(&self.refused) = part.map(str::to_owned);
    }

    /// Blocks the next call until the hold is released or dropped.
    pub fn hold_next(&self) -> Hold {
        let gate = Arc::<Gate>::default();
        *lock(&self.hold) = Some(Arc::clone(&gate));
        Hold(gate)
    }

    /// The number of calls.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// The number of texts in all calls.
    pub fn texts(&self) -> u64 {
        self.texts.load(Ordering::SeqCst)
    }

    /// The vector of a document; as with real models, text after [`TestEmbedder::MAX_TEXT_BYTES`] is ignored.
    #[must_use]
    pub fn vector(&self, text: &str) -> Vec<f32> {
        self.vector_as(text, EmbedRole::Document)
    }

    /// The vector of a text in that role.
    #[must_use]
    pub fn vector_as(&self, text: &str, role: EmbedRole) -> Vec<f32> {
        let end = (0..=Self::MAX_TEXT_BYTES.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
        let mut words = tokens(text.get(..end.unwrap_or(0)).unwrap_or_default());
        words.sort();
        words.dedup();
        // A text without words must not get the zero vector.
        if words.is_empty() {
            words.push(format!("\0{text}"));
        }
        // Tokens hold no NUL, so none collides with these.
        if self.roles && role == EmbedRole::Query {
            words.extend(["\0role:query".to_owned(), "\0role:question".to_owned()]);
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

    async fn embed(&self, texts: &[&str], role: EmbedRole) -> Result<Vec<Vec<f32>>> {
        self.calls.fetch_add(1, Ordering::SeqCst);
        self.texts.fetch_add(texts.len() as u64, Ordering::SeqCst);
        let held = lock(&self.hold).take();
        if let Some(gate) = held {
            gate.wait().await;
        }
        let refused = lock(&self.refused).clone();
        if refused.is_some_and(|part| texts.iter().any(|text| text.contains(&part))) {
            return Err(Error::new(ErrorKind::TooLarge, "the test embedder was told to refuse a text"));
        }
        let next = lock(&self.faults).pop_front();
        let fault = next.or(*lock(&self.always));
        let mut vectors: Vec<Vec<f32>> = texts.iter().map(|text| self.vector_as(text, role)).collect();
        match fault {
            None => {}
            Some(EmbedFault::Error(kind)) => {
                return Err(Error::new(kind, "the test embedder was told to fail; tell it to work"));
            }
            Some(EmbedFault::Dimension) => vectors.iter_mut().for_each(|vector| vector.push(1.0)),
            Some(EmbedFault::NotANumber) => set_first(&mut vectors, f32::NAN),
            Some(EmbedFault::Infinite) => set_first(&mut vectors, f32::INFINITY),
            Some(EmbedFault::Zero) => vectors.iter_mut().for_each(|vector| vector.fill(0.0)),
            Some(EmbedFault::TooFew) => drop(vectors.pop()),
            Some(EmbedFault::TooMany) => vectors.push(self.vector_as("one too many", role)),
        }
        Ok(vectors)
    }
}

fn set_first(vectors: &mut [Vec<f32>], to: f32) {
    vectors.iter_mut().filter_map(|vector| vector.first_mut()).for_each(|x| *x = to);
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Where a call blocks, independent of a runtime.
#[derive(Debug, Default)]
struct Gate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    entered: bool,
    released: bool,
    /// Wakers of the blocked call, and of the case that waits for it.
    wakers: Vec<Waker>,
}

impl Gate {
    fn change(&self, change: impl FnOnce(&mut GateState)) {
        let wakers = {
            let mut state = lock(&self.0);
            change(&mut state);
            std::mem::take(&mut state.wakers)
        };
        wakers.into_iter().for_each(Waker::wake);
    }

    async fn wait(&self) {
        self.change(|state| state.entered = true);
        poll_fn(|context| {
            let mut state = lock(&self.0);
            if state.released {
                return Poll::Ready(());
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await;
    }
}

/// A call blocked inside the embedder, from [`TestEmbedder::hold_next`].
#[derive(Debug)]
pub struct Hold(Arc<Gate>);

impl Hold {
    /// Runs `work` until it blocks inside the embedder.
    ///
    /// # Errors
    /// A failure if `work` ends without calling the embedder.
    pub(crate) async fn catches<T>(&self, work: &mut BoxFuture<'_, T>) -> CaseResult {
        poll_fn(|context| {
            let ended = work.as_mut().poll(context).is_ready();
            let mut state = lock(&self.0.0);
            if state.entered {
                return Poll::Ready(Ok(()));
            }
            if ended {
                return Poll::Ready(Err(Stop::failed("the operation ended without a call to the embedder")));
            }
            state.wakers.push(context.waker().clone());
            Poll::Pending
        })
        .await
    }

    /// Unblocks the call.
    pub fn release(&self) {
        self.0.change(|state| state.released = true);
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.release();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use memory_core::embed::{check_embeddings, cosine};

    fn block_on<T: Send>(future: impl Future<Output = T> + Send) -> T {
        let mut answer = None;
        crate::harness::executor::block_on(Box::pin(async { answer = Some(future.await) }));
        answer.unwrap()
    }

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
    fn every_fault_is_one_that_backends_must_detect() {
        let embedder = TestEmbedder::new();
        let embed = || {
            block_on(embedder.embed(&["a", "b"], EmbedRole::Document))
                .and_then(|vectors| check_embeddings(embedder.model(), 2, &vectors))
        };
        for fault in EmbedFault::ALL {
            embedder.fail_next(fault);
            assert!(embed().is_err(), "{fault:?}");
            assert!(embed().is_ok(), "after {fault:?}");
        }
        embedder.refuse_texts_with(Some("b"));
        assert!(embed().is_err());
        embedder.refuse_texts_with(None);
        assert!(embed().is_ok());
        assert_eq!(embedder.texts(), 2 * embedder.calls());
    }

    #[test]
    fn roles_differ_only_on_request() {
        let (one, two) = (TestEmbedder::new(), TestEmbedder::new().telling_roles_apart());
        assert_eq!(one.vector_as("tea", EmbedRole::Query), one.vector("tea"));
        assert_ne!(two.vector_as("tea", EmbedRole::Query), two.vector("tea"));
        assert_eq!(two.vector("tea"), one.vector("tea"));
    }

    #[test]
    fn a_held_call_waits_until_it_is_released() {
        let embedder = TestEmbedder::new();
        block_on(async {
            let hold = embedder.hold_next();
            let mut held: BoxFuture<'_, _> = Box::pin(embedder.embed(&["a"], EmbedRole::Document));
            hold.catches(&mut held).await.unwrap();
            let other = embedder.embed(&["b"], EmbedRole::Document).await;
            assert!(other.is_ok(), "only one call is held");
            hold.release();
            assert!(held.await.is_ok());
            let hold = embedder.hold_next();
            let mut nothing: BoxFuture<'_, ()> = Box::pin(async {});
            assert!(hold.catches(&mut nothing).await.is_err());
            // Dropped without a release: a later call does not block.
            drop(hold);
            assert!(embedder.embed(&["c"], EmbedRole::Document).await.is_ok());
        });
    }
}
