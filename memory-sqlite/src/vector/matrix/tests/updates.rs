//! Rows are added, removed, expired and moved, and the matrix agrees with a plain map.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::{Kernel, Matrix, Random, exact, nearest, search};

#[derive(Clone, Debug)]
enum Step {
    Push { gap: i64, expires_at: Option<i64> },
    Remove { at: usize },
    RemoveMany { from: usize, every: usize },
    RemoveUnknown,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => (prop_oneof![Just(1), 1..10_i64, Just(1_i64 << 33)], prop::option::weighted(0.1, 0..2_000_i64))
            .prop_map(|(gap, expires_at)| Step::Push { gap, expires_at }),
        3 => (0..10_000_usize).prop_map(|at| Step::Remove { at }),
        1 => (0..400_usize, 1..5_usize).prop_map(|(from, every)| Step::RemoveMany { from, every }),
        1 => Just(Step::RemoveUnknown),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn a_matrix_holds_what_was_pushed_and_not_removed(
        steps in prop::collection::vec(step(), 0..1_500),
        seed: u64,
        signed: bool,
    ) {
        let mut random = Random(seed);
        let mut model: BTreeMap<i64, (Vec<f32>, Option<i64>)> = BTreeMap::new();
        let mut matrix = if signed { Matrix::with(5, Kernel::detect(), 100) } else { exact(5, Kernel::detect()) };
        let mut last = -7;
        for step in steps {
            match step {
                Step::Push { gap, expires_at } => {
                    last += gap;
                    let vector = random.vector(5);
                    matrix.push(last, &vector, expires_at);
                    model.insert(last, (vector, expires_at));
                }
                Step::Remove { at } => {
                    if let Some(id) = model.keys().nth(at % model.len().max(1)).copied() {
                        prop_assert!(matrix.remove(id));
                        prop_assert!(!matrix.remove(id) && !matrix.contains(id));
                        model.remove(&id);
                    }
                }
                Step::RemoveMany { from, every } => {
                    let ids: Vec<i64> = model.keys().copied().skip(from).step_by(every).collect();
                    for id in ids {
                        prop_assert!(matrix.remove(id));
                        model.remove(&id);
                    }
                }
                Step::RemoveUnknown => {
                    prop_assert!(!matrix.remove(last + 1) && !matrix.remove(-8) && !matrix.contains(last + 1));
                }
            }
        }
        prop_assert_eq!(matrix.len(), model.len());
        prop_assert!(matrix.ids().eq(model.keys().copied()));
        prop_assert!(model.keys().all(|id| matrix.contains(*id)));
        prop_assert_eq!(matrix.block_bytes, matrix.blocks.iter().map(super::super::block::Block::heap_bytes).sum::<usize>());

        let (query, now) = (random.vector(5), 1_000);
        let living = model.iter().filter(|(_, (_, at))| at.is_none_or(|at| now < at));
        let must = nearest(living.map(|(id, (vector, _))| (*id, vector.as_slice())), &query, 7);
        let found = matrix.shortlist(&query, 7, now, None, &|| false);
        if !signed {
            prop_assert!(must.iter().all(|(id, _)| found.iter().any(|near| near.id == *id)));
        }
        for near in &found {
            let (vector, at) = &model[&near.id];
            prop_assert!(at.is_none_or(|at| now < at));
            let off = (memory_core::embed::cosine(vector, &query) - f64::from(near.estimate)).abs();
            prop_assert!(off <= f64::from(near.bound));
        }
    }
}

#[test]
fn a_matrix_that_lost_a_quarter_of_its_rows_releases_memory() {
    let mut random = Random(3);
    let mut matrix = Matrix::with(384, Kernel::detect(), 1_000);
    (0..6_000).for_each(|id| matrix.push(id, &random.vector(384), Some(i64::MAX - 1 - id)));
    let full = matrix.heap_bytes();
    for id in 0..6_000 {
        if id % 3 != 0 {
            assert!(matrix.remove(id));
        }
    }
    assert!(matrix.heap_bytes() < full / 2, "{} of {full}", matrix.heap_bytes());
    assert!(matrix.slots() < 3_000);
    assert!(matrix.ids().eq((0..6_000).step_by(3)));
    for id in matrix.ids().collect::<Vec<_>>() {
        assert!(matrix.remove(id));
    }
    assert_eq!((matrix.len(), matrix.slots(), matrix.block_bytes), (0, 0, 0));
    matrix.push(6_000, &random.vector(384), None);
    assert_eq!(matrix.len(), 1);
}

#[test]
fn moved_rows_keep_codes_signs_and_expiries() {
    let mut random = Random(4);
    let mut matrix = Matrix::with(128, Kernel::detect(), 500);
    let vectors: Vec<Vec<f32>> = (0..3_000).map(|_| random.vector(128)).collect();
    for (id, vector) in (0..).zip(&vectors) {
        matrix.push(id, vector, (id % 5 == 0).then_some(1_000 + id));
    }
    (0..3_000).filter(|id| id % 10 < 7).for_each(|id| assert!(matrix.remove(id)));
    let mut missed = 0;
    for (id, vector) in (0..).zip(&vectors).filter(|(id, _)| id % 10 >= 7) {
        missed += usize::from(search(&matrix, vector, 1).first().is_none_or(|best| best.id != id));
    }
    assert!(missed <= 9, "of 900 rows, {missed} are not the nearest to themselves");
    let found = |now| matrix.shortlist(&vectors[8], 10_000, now, None, &|| false).len();
    assert_eq!(found(0), 900);
    assert_eq!(found(i64::MAX - 1), 900, "those that expired were removed");
}

#[test]
fn ids_must_grow_and_are_never_reused() {
    let mut matrix = Matrix::new(2);
    matrix.push(5, &[1.0, 0.0], None);
    matrix.push(5, &[0.0, 1.0], None);
    matrix.push(4, &[0.0, 1.0], None);
    assert!(matrix.ids().eq([5]));
    assert!(matrix.remove(5));
    matrix.push(5, &[0.0, 1.0], None);
    assert_eq!(matrix.len(), 0);
}

#[test]
fn rows_expire_at_their_millisecond_and_return_if_the_clock_is_set_back() {
    let mut matrix = Matrix::new(2);
    for id in 0..200 {
        matrix.push(id, &[1.0, 0.5], (id % 2 == 1).then_some(500));
    }
    let count = |now| matrix.shortlist(&[1.0, 0.5], 1_000, now, None, &|| false).len();
    assert_eq!([count(499), count(500), count(501), count(499)], [200, 100, 100, 200]);
    assert_eq!(matrix.len(), 200, "they stay until removed");
}
