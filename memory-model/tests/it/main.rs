//! The bundled model: its tokens, its file, its vectors.
#![allow(clippy::unwrap_used, clippy::indexing_slicing, reason = "tests panic on anything unexpected")]

mod file;
mod tokens;
mod vectors;
