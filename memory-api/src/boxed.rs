//! Futures that others await.

use std::pin::Pin;

/// A future of this crate. The code of an `async fn` is compiled where it is awaited; that of this one is compiled here, once,
/// and as this crate is optimised.
pub type Boxed<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
