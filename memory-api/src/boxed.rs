//! Futures that others await.

use std::pin::Pin;

/// A boxed future. An `async fn` is compiled in the crate that awaits it; a boxed one is compiled here, once, with this
/// crate's optimisation level.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
