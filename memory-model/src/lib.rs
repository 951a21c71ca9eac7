//! A small static embedding model that needs no download: a row of numbers for each of 28,000 pieces of English words.
//! The vector of a text is the mean of the rows of its pieces.
//!
//! [`BundledEmbedder`] gives it to a backend. `make/README.md` says how the model was made, and under which licences.
//!
//! ```
//! use memory_core::Embedder as _;
//!
//! let embedder = memory_model::BundledEmbedder::new()?;
//! assert_eq!(embedder.model().dimensions, 256);
//! # Ok::<(), memory_core::Error>(())
//! ```

mod embedder;
mod table;
mod wordpiece;

pub use embedder::{BUNDLED_PROVIDER, BundledEmbedder};
pub use table::Table;
