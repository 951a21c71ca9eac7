//! The guarantee: up to `EXACT_ROWS` selected rows, a shortlist misses nothing, for any vectors.

use std::collections::HashSet;

use memory_core::embed::cosine;
use proptest::prelude::*;

use super::{Kernel, Matrix, Random, exact, nearest, search};

/// Vectors as embedders make them, and degenerate ones.
#[derive(Clone, Copy, Debug)]
enum Shape {
    Normal,
    Positive,
    Constant,
    OneHot,
    FewValues,
    Denormal,
    Huge,
    MixedMagnitudes,
    NearDuplicate,
    Outlier,
}

const SHAPES: [Shape; 10] = [
    Shape::Normal,
    Shape::Positive,
    Shape::Constant,
    Shape::OneHot,
    Shape::FewValues,
    Shape::Denormal,
    Shape::Huge,
    Shape::MixedMagnitudes,
    Shape::NearDuplicate,
    Shape::Outlier,
];

fn vector(random: &mut Random, dimensions: usize, shape: Shape) -> Vec<f32> {
    let mut vector = match shape {
        Shape::Normal => random.vector(dimensions),
        Shape::Positive => random.vector(dimensions).into_iter().map(f32::abs).collect(),
        Shape::Constant => vec![random.normal(); dimensions],
        Shape::OneHot => vec![0.0; dimensions],
        Shape::FewValues => (0..dimensions).map(|_| [-1.0, 0.0, 1.0][random.below(3)]).collect(),
        Shape::Denormal => {
            (0..dimensions).map(|_| f32::from_bits(u32::try_from(random.below(64)).unwrap())).collect()
        }
        Shape::Huge => random.vector(dimensions).into_iter().map(|x| x.clamp(-3.0, 3.0) * 1e38).collect(),
        Shape::MixedMagnitudes => random
            .vector(dimensions)
            .into_iter()
            .map(|x| x * 10_f32.powi(i32::try_from(random.below(60)).unwrap() - 30))
            .collect(),
        Shape::NearDuplicate => (0..dimensions)
            .map(|at| (1.0 + 1e-6 * random.normal()) * if at % 3 == 0 { 1.0 } else { -0.5 })
            .collect(),
        Shape::Outlier => random.vector(dimensions).into_iter().map(|x| x * 1e-3).collect(),
    };
    let at = random.below(dimensions);
    if matches!(shape, Shape::OneHot | Shape::Outlier) || vector.iter().all(|x| *x == 0.0) {
        vector[at] = if shape_is_denormal(shape) { f32::from_bits(1) } else { 1.0 };
    }
    vector
}

fn shape_is_denormal(shape: Shape) -> bool {
    matches!(shape, Shape::Denormal)
}

fn shapes() -> impl Strategy<Value = Vec<Shape>> {
    prop::collection::vec(prop::sample::select(SHAPES.as_slice()), 1..4)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn a_shortlist_lacks_none_of_the_nearest(
        seed: u64,
        dimensions in 1_usize..=400,
        count in 0_usize..300,
        k in 1_usize..40,
        shapes in shapes(),
        duplicates in 0_usize..3,
        removed in 0_usize..3,
        expiring in 0_usize..3,
        selecting: bool,
    ) {
        let mut random = Random(seed);
        let now = 1_000;
        let mut rows: Vec<(i64, Vec<f32>, Option<i64>)> = Vec::new();
        for at in 0..count {
            let vector = match rows.get(random.below(count)) {
                Some((_, known, _)) if random.below(4) < duplicates => known.clone(),
                _ => { let shape = shapes[random.below(shapes.len())]; vector(&mut random, dimensions, shape) }
            };
            let expires_at = (random.below(4) < expiring).then(|| [0, 999, 1_000, 1_001, i64::MAX][random.below(5)]);
            rows.push((i64::try_from(at).unwrap() * 3 - 50, vector, expires_at));
        }
        let query = match rows.get(random.below(count + 3)) {
            Some((_, known, _)) => known.clone(),
            None => vector(&mut random, dimensions, shapes[0]),
        };
        let gone: HashSet<i64> = rows.iter().map(|row| row.0).filter(|_| random.below(4) < removed).collect();
        let picked: HashSet<i64> = rows.iter().map(|row| row.0).filter(|_| !selecting || random.below(3) == 0).collect();
        let alive = |row: &&(i64, Vec<f32>, Option<i64>)| {
            !gone.contains(&row.0) && picked.contains(&row.0) && row.2.is_none_or(|at| now < at)
        };
        let must = nearest(rows.iter().filter(alive).map(|row| (row.0, row.1.as_slice())), &query, k);

        for kernel in Kernel::all() {
            let mut matrix = exact(dimensions, kernel);
            rows.iter().for_each(|(id, vector, expires_at)| matrix.push(*id, vector, *expires_at));
            gone.iter().for_each(|id| assert!(matrix.remove(*id)));
            let selection = selecting.then(|| matrix.selection_of(picked.iter().copied()));
            let found = matrix.shortlist(&query, k, now, selection.as_ref(), &|| false);

            let ids: HashSet<i64> = found.iter().map(|near| near.id).collect();
            prop_assert_eq!(ids.len(), found.len(), "no row twice");
            for (id, cosine) in &must {
                prop_assert!(ids.contains(id), "{} with cosine {} is missing, {:?}", id, cosine, kernel);
            }
            prop_assert!(found.is_sorted_by(|a, b| a.estimate >= b.estimate));
            for near in &found {
                let (_, vector, _) = rows.iter().filter(alive).find(|row| row.0 == near.id).expect("a row that may be found");
                let off = (cosine(vector, &query) - f64::from(near.estimate)).abs();
                prop_assert!(off <= f64::from(near.bound), "off by {off}, bound {}", near.bound);
            }
        }
    }
}

#[test]
fn bounds_are_tight_enough_to_leave_most_rows_out() {
    let mut random = Random(5);
    let mut matrix = Matrix::new(384);
    (0..10_000).for_each(|id| matrix.push(id, &random.vector(384), None));
    let found = search(&matrix, &random.vector(384), 10);
    assert!(found.len() < 60, "{}", found.len());
    assert!(found.iter().all(|near| near.bound < 0.01));
}

#[test]
fn the_widest_vectors_do_not_overflow() {
    let query = vec![1.0_f32; 16_384];
    for kernel in Kernel::all() {
        let mut matrix = exact(16_384, kernel);
        matrix.push(1, &query, None);
        matrix.push(2, &query.iter().map(|x| -x).collect::<Vec<_>>(), None);
        let mut one_hot = vec![0.0; 16_384];
        one_hot[9] = -3e38;
        matrix.push(3, &one_hot, None);
        let found = search(&matrix, &query, 3);
        let estimates: Vec<(i64, f32)> = found.iter().map(|near| (near.id, near.estimate.round())).collect();
        assert_eq!(estimates, [(1, 1.0), (3, -0.0), (2, -1.0)], "{kernel:?}");
    }
}

#[test]
fn invalid_vectors_are_neither_stored_nor_searched() {
    let mut matrix = Matrix::new(3);
    for bad in [&[0.0, 0.0, 0.0][..], &[f32::NAN, 1.0, 0.0], &[f32::INFINITY, 0.0, 0.0], &[1.0, 0.0], &[]] {
        matrix.push(1, bad, None);
        assert_eq!(matrix.len(), 0, "{bad:?}");
    }
    matrix.push(1, &[1.0, 2.0, 3.0], None);
    for bad in [&[0.0, 0.0, 0.0][..], &[f32::NAN, 1.0, 0.0], &[1.0, 0.0], &[]] {
        assert_eq!(search(&matrix, bad, 5), [], "{bad:?}");
    }
    assert_eq!(search(&matrix, &[1.0, 2.0, 3.0], 0), []);
    assert_eq!(search(&matrix, &[1.0, 2.0, 3.0], usize::MAX).len(), 1);
}

#[test]
fn a_cancelled_search_finds_nothing() {
    let mut random = Random(6);
    let mut matrix = Matrix::new(8);
    (0..40_000).for_each(|id| matrix.push(id, &random.vector(8), None));
    let query = random.vector(8);
    assert_eq!(matrix.shortlist(&query, 5, 0, None, &|| true), []);
    let looks = std::cell::Cell::new(0);
    let counted = || {
        looks.set(looks.get() + 1);
        false
    };
    assert!(matrix.shortlist(&query, 5, 0, None, &counted).len() >= 5);
    assert_eq!(looks.get(), 2, "about every 16,384 rows");
}

#[test]
fn indistinguishable_rows_all_tie_up_to_the_shortlists_limit() {
    let mut matrix = Matrix::with(100, Kernel::detect(), 500);
    let vector = Random(9).vector(100);
    (0..3_000).for_each(|id| matrix.push(id, &vector, None));
    assert_eq!(search(&matrix, &vector, 10).len(), 500);
    assert_eq!(search(&matrix, &vector, 300).len(), 1_200);
    assert_eq!(search(&matrix, &vector, 5_000).len(), 3_000);
}
