//! Memory per vector.

use super::super::rows::EXACT_ROWS;
use super::{Matrix, Random};

fn filled(dimensions: usize, rows: usize) -> Matrix {
    let mut random = Random(8);
    let distinct: Vec<Vec<f32>> = (0..64).map(|_| random.vector(dimensions)).collect();
    let mut matrix = Matrix::new(dimensions);
    for (id, at) in (0..).zip(0..rows) {
        matrix.push(id, &distinct[at % distinct.len()], None);
    }
    matrix
}

#[test]
fn a_vector_of_384_numbers_costs_at_most_450_bytes() {
    let each = filled(384, 100_000).heap_bytes() / 100_000;
    assert!(each <= 450, "{each}");
}

#[test]
fn a_small_matrix_is_small() {
    assert!(filled(384, 0).heap_bytes() < 4_000);
    assert!(filled(384, 1).heap_bytes() < 8_000);
    let each = filled(384, 1_000).heap_bytes() / 1_000;
    assert!(each < 480, "{each}");
}

#[test]
fn sign_bits_are_kept_only_where_they_are_used() {
    let below = filled(64, EXACT_ROWS);
    assert!(below.centre.is_none());
    assert!(filled(64, EXACT_ROWS + 1).centre.is_some());
}

#[test]
fn the_counted_memory_is_the_allocated_memory() {
    let matrix = filled(64, EXACT_ROWS + 2_000);
    let held: usize = matrix.blocks.iter().map(super::super::block::Block::heap_bytes).sum();
    assert_eq!(matrix.block_bytes, held);
}
