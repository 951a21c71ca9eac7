//! The bundled model: its tokens, its file, its vectors.

mod file;
mod tokens;
mod vectors;
