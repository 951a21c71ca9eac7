//! The model's file, and what it does with a text.
//!
//! Little-endian: `MSM1`; how many rows, how many dimensions, how many bytes of name and of vocabulary (four `u32`); the
//! name; the pieces, one a line, in order of their bytes; a scale a row (`f32`); the rows (`i8`). A row times its scale
//! is the piece's vector.

use std::collections::HashMap;

use memory_core::limits::MAX_DIMENSIONS;
use memory_core::{Error, Result};

use crate::wordpiece::pieces;

/// A model that was read.
#[derive(Debug)]
pub struct Table<'a> {
    name: &'a str,
    dimensions: usize,
    rows_of: HashMap<&'a str, usize>,
    scales: Vec<f32>,
    rows: &'a [u8],
}

/// The head of a model's file.
pub(crate) struct Identity<'a> {
    pub(crate) name: &'a str,
    pub(crate) dimensions: usize,
    count: usize,
    vocabulary: usize,
}

impl<'a> Identity<'a> {
    /// Reads the head; returns the rest of the file too.
    pub(crate) fn read(file: &'a [u8]) -> Result<(Self, &'a [u8])> {
        let mut rest = file;
        if take(&mut rest, 4)? != b"MSM1" {
            return Err(wrong("it does not begin with MSM1"));
        }
        let mut number = || {
            let bytes = take(&mut rest, 4)?.first_chunk().copied().unwrap_or_default();
            usize::try_from(u32::from_le_bytes(bytes)).map_err(|_| wrong("a number is out of range"))
        };
        let (count, dimensions, name, vocabulary) = (number()?, number()?, number()?, number()?);
        if !(1..=MAX_DIMENSIONS).contains(&dimensions) {
            return Err(wrong("its number of dimensions is out of range"));
        }
        Ok((Self { name: text(take(&mut rest, name)?)?, dimensions, count, vocabulary }, rest))
    }
}

fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| wrong("its vocabulary is not UTF-8"))
}

impl<'a> Table<'a> {
    /// Reads a model's file.
    ///
    /// # Errors
    /// `corrupt`, saying what is wrong.
    pub fn read(file: &'a [u8]) -> Result<Self> {
        let (Identity { name, dimensions, count, vocabulary }, mut rest) = Identity::read(file)?;
        let vocabulary = text(take(&mut rest, vocabulary)?)?;
        let scale_bytes = take(&mut rest, count.saturating_mul(4))?;
        let rows = take(&mut rest, count.saturating_mul(dimensions))?;
        if !rest.is_empty() {
            return Err(wrong("it goes on after its end"));
        }
        let rows_of: HashMap<&str, usize> = vocabulary.split('\n').zip(0..).collect();
        if rows_of.len() != count || vocabulary.split('\n').count() != count {
            return Err(wrong("its vocabulary does not have one piece a row"));
        }
        let scales: Vec<f32> =
            scale_bytes.as_chunks().0.iter().map(|bytes| f32::from_le_bytes(*bytes)).collect();
        if !scales.iter().all(|scale| scale.is_finite()) {
            return Err(wrong("a scale is not finite"));
        }
        Ok(Self { name, dimensions, rows_of, scales, rows })
    }

    /// The model's name, which changes with every row.
    #[must_use]
    pub fn name(&self) -> &str {
        self.name
    }

    /// The length of its vectors.
    #[must_use]
    pub fn dimensions(&self) -> usize {
        self.dimensions
    }

    /// The pieces of a text that the model knows, in the order of their first appearance.
    #[must_use]
    pub fn pieces(&self, text: &str) -> Vec<String> {
        let mut found = Vec::new();
        pieces(text, &|piece| self.rows_of.contains_key(piece), &mut |piece| {
            if !found.iter().any(|known| known == piece) {
                found.push(piece.to_owned());
            }
        });
        found
    }

    /// The vector of a text, of unit length: the mean of the rows of its pieces, each piece once. `None` where the model
    /// knows no word of it: what follows from the punctuation alone would be compared as if it were the meaning.
    #[must_use]
    pub fn embed(&self, text: &str) -> Option<Vec<f32>> {
        let (mut known, mut has_word) = (Vec::new(), false);
        pieces(text, &|piece| self.rows_of.contains_key(piece), &mut |piece| {
            known.extend(self.rows_of.get(piece));
            has_word |= piece.contains(char::is_alphanumeric);
        });
        if !has_word {
            return None;
        }
        known.sort_unstable();
        known.dedup();
        let mut sum = vec![0.0_f32; self.dimensions];
        for row in known {
            let scale = *self.scales.get(row)?;
            let row = self.rows.chunks_exact(self.dimensions).nth(row)?;
            for (sum, byte) in sum.iter_mut().zip(row) {
                *sum += f32::from(i8::from_le_bytes([*byte])) * scale;
            }
        }
        let length = sum.iter().map(|x| x * x).sum::<f32>().sqrt();
        if !length.is_normal() {
            return None;
        }
        sum.iter_mut().for_each(|x| *x /= length);
        Some(sum)
    }
}

fn take<'a>(rest: &mut &'a [u8], count: usize) -> Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(count).ok_or_else(|| wrong("it ends too early"))?;
    *rest = left;
    Ok(taken)
}

fn wrong(what: &str) -> Error {
    Error::corrupt(format!("the model's file cannot be used: {what}"))
}
