//! How the numbers of a vector are stored.

use memory_core::Result;

use crate::error::malformed;

/// Encodes numbers: little-endian, four bytes each.
pub(crate) fn encode(numbers: &[f32]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// Decodes into `numbers`, reusing its capacity.
pub(crate) fn decode_into(data: &[u8], dimensions: usize, numbers: &mut Vec<f32>) -> Result<()> {
    numbers.clear();
    let (chunks, rest) = data.as_chunks::<4>();
    if chunks.len() != dimensions || !rest.is_empty() {
        return Err(malformed("vector"));
    }
    numbers.extend(chunks.iter().map(|bytes| f32::from_le_bytes(*bytes)));
    if numbers.iter().all(|number| number.is_finite()) && numbers.iter().any(|number| *number != 0.0) {
        Ok(())
    } else {
        Err(malformed("vector"))
    }
}

pub(crate) fn decode(data: &[u8], dimensions: usize) -> Result<Vec<f32>> {
    let mut numbers = Vec::with_capacity(data.len() / 4);
    decode_into(data, dimensions, &mut numbers)?;
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_survive_to_the_bit() {
        let numbers = [1.5, -0.0, f32::MIN_POSITIVE / 2.0, f32::MAX];
        let back = decode(&encode(&numbers), 4).unwrap();
        assert!(numbers.iter().zip(&back).all(|(a, b)| a.to_bits() == b.to_bits()));
    }

    #[test]
    fn bytes_that_are_no_vector_are_malformed() {
        for data in [encode(&[1.0]), encode(&[0.0, 0.0]), encode(&[1.0, f32::NAN]), vec![1; 7], Vec::new()] {
            assert!(decode(&data, 2).is_err(), "{data:?}");
        }
    }
}
