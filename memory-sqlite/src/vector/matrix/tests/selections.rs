//! A selection holds exactly the rows that `Filter::matches`.

use std::collections::BTreeMap;

use memory_core::filter::FilterView;
use memory_core::{Field, Filter, Metadata, Scalar, Source, Timestamp};
use proptest::prelude::*;

use super::super::selection::Selection;
use super::{Kernel, Matrix};

#[derive(Clone, Debug)]
struct Facts {
    metadata: Metadata,
    source: Option<Source>,
    times: [i64; 2],
    expires_at: Option<i64>,
}

impl Facts {
    fn view(&self) -> FilterView<'_> {
        let [created_at, updated_at] = self.times.map(Timestamp::from_millis_clamped);
        FilterView {
            metadata: &self.metadata,
            source: self.source.as_ref(),
            created_at,
            updated_at,
            expires_at: self.expires_at.map(Timestamp::from_millis_clamped),
        }
    }
}

fn scalar() -> impl Strategy<Value = Scalar> {
    prop_oneof![
        any::<bool>().prop_map(Scalar::Bool),
        (-3_i64..3).prop_map(Scalar::Int),
        prop::sample::select(vec![i64::MAX, i64::MIN, 9_007_199_254_740_993]).prop_map(Scalar::Int),
        prop::sample::select(vec![-0.0, 0.0, 0.5, 1.0, 9_007_199_254_740_992.0, 1e300])
            .prop_map(Scalar::Float),
        prop::sample::select(vec!["", "a", "A", "ä", "1", "2"]).prop_map(Scalar::from),
    ]
}

fn facts() -> impl Strategy<Value = Facts> {
    let members = prop::collection::btree_map(prop::sample::select(vec!["a", "b", "c"]), scalar(), 0..3);
    let source = prop::option::of(prop::sample::select(vec!["a", "b", "chat"]));
    (members, source, [0_i64..5, 0_i64..5], prop::option::of(0_i64..5)).prop_map(
        |(members, source, times, expires_at)| Facts {
            metadata: members.into_iter().map(|(name, value)| (name.to_owned(), value)).collect(),
            source: source.map(|label| Source::new(label).unwrap()),
            times,
            expires_at,
        },
    )
}

fn comparison() -> impl Strategy<Value = Filter> {
    let field = prop_oneof![
        4 => prop::sample::select(vec!["a", "b", "c", "none"]).prop_map(|name| Field::Metadata(name.to_owned())),
        1 => Just(Field::Source),
        1 => prop::sample::select(vec![Field::CreatedAt, Field::UpdatedAt, Field::ExpiresAt]),
    ];
    let operand = prop_oneof![
        4 => scalar(),
        1 => prop::sample::select(vec!["1970-01-01T00:00:00.003Z", "1970-01-01T02:00:00.001+02:00"]).prop_map(Scalar::from),
        1 => (0_i64..5).prop_map(Scalar::Int),
    ];
    (field, prop::collection::vec(operand, 1..4), 0..8).prop_map(|(field, mut operands, form)| {
        let first = operands[0].clone();
        match form {
            0 => Filter::Eq(field, first),
            1 => Filter::Ne(field, first),
            2 => Filter::Lt(field, first),
            3 => Filter::Lte(field, first),
            4 => Filter::Gt(field, first),
            5 => Filter::Gte(field, first),
            6 => Filter::In(field, std::mem::take(&mut operands)),
            _ => Filter::Exists(field),
        }
    })
}

fn filter() -> impl Strategy<Value = Filter> {
    comparison().prop_recursive(4, 20, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Filter::And),
            prop::collection::vec(inner.clone(), 0..4).prop_map(Filter::Or),
            inner.prop_map(|inner| Filter::Not(Box::new(inner))),
        ]
    })
}

/// The ids that a search over the selection meets.
fn selected(matrix: &Matrix, selection: &Selection) -> Vec<i64> {
    let found = matrix.shortlist(&[1.0], usize::MAX, i64::MIN, Some(selection), &|| false);
    let mut ids: Vec<i64> = found.into_iter().map(|near| near.id).collect();
    ids.sort_unstable();
    ids
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn a_selection_holds_what_the_filter_matches(
        before in prop::collection::vec(facts(), 0..150),
        after in prop::collection::vec(facts(), 0..80),
        removed in prop::collection::vec(any::<prop::sample::Index>(), 0..10),
        many_removed: bool,
        filter in filter(),
        other in filter(),
    ) {
        let mut matrix = Matrix::with(1, Kernel::detect(), 1_000);
        let mut model: BTreeMap<i64, Facts> = BTreeMap::new();
        for (id, facts) in (0..).map(|n: i64| n * 2).zip(before) {
            matrix.push(id, &[1.0], None);
            model.insert(id, facts);
        }
        for filter in [&filter, &other] {
            let fields = matrix.unloaded(filter).expect("few fields");
            prop_assert_eq!(matrix.select(filter).is_none(), !fields.is_empty());
            let loaded = matrix.load_columns(&fields, |describe| {
                model.iter().rev().for_each(|(id, facts)| describe(*id, &facts.view()));
                model.iter().take(1).for_each(|(_, facts)| describe(-1, &facts.view()));
                Ok::<(), ()>(())
            });
            prop_assert_eq!(loaded, Ok(()));
            prop_assert_eq!(matrix.unloaded(filter), Some(vec![]));
        }
        for (id, facts) in (1_000..).zip(after) {
            matrix.push(id, &[1.0], None);
            if matrix.has_columns() {
                matrix.describe(id, &facts.view());
            }
            model.insert(id, facts);
        }
        for index in removed {
            if !model.is_empty() {
                let id = *model.keys().nth(index.index(model.len())).unwrap();
                prop_assert!(matrix.remove(id));
                model.remove(&id);
            }
        }
        if many_removed {
            for id in model.keys().copied().filter(|id| id % 3 != 0).collect::<Vec<_>>() {
                prop_assert!(matrix.remove(id));
                model.remove(&id);
            }
            matrix.compact();
        }
        let holds = |filter: &Filter| -> Vec<i64> {
            model.iter().filter(|(_, facts)| filter.matches(facts.view())).map(|(id, _)| *id).collect()
        };
        let mut selection = matrix.select(&filter).expect("loaded");
        prop_assert_eq!(selected(&matrix, &selection), holds(&filter));
        selection.and(&matrix.select(&other).expect("loaded"));
        prop_assert_eq!(selected(&matrix, &selection), holds(&Filter::And(vec![filter, other])));
        let ids: Vec<i64> = model.keys().copied().step_by(3).collect();
        let by_id = matrix.selection_of(ids.iter().copied().chain([-5, 999_999]));
        prop_assert_eq!(selected(&matrix, &by_id), ids);
    }
}

#[test]
fn a_failed_load_leaves_nothing_behind() {
    let mut matrix = Matrix::new(1);
    matrix.push(1, &[1.0], None);
    let filter = Filter::Exists(Field::Source);
    assert_eq!(matrix.load_columns(&[&Field::Source], |_| Err("disk")), Err("disk"));
    assert_eq!(matrix.unloaded(&filter), Some(vec![&Field::Source]));
    assert!(matrix.select(&filter).is_none() && !matrix.has_columns());
}

#[test]
fn old_columns_are_evicted_and_too_many_fields_at_once_are_refused() {
    let fields: Vec<Field> = (0..40).map(|n| Field::Metadata(format!("m{n}"))).collect();
    let exists = |range: std::ops::Range<usize>| {
        Filter::And(fields[range].iter().cloned().map(Filter::Exists).collect())
    };
    let mut matrix = Matrix::new(1);
    assert!(matrix.unloaded(&exists(0..33)).is_none());
    for range in [0..32, 20..40] {
        let filter = exists(range);
        let missing = matrix.unloaded(&filter).unwrap();
        matrix.load_columns(&missing, |_| Ok::<(), ()>(())).unwrap();
        assert!(matrix.select(&filter).is_some());
    }
    let kept = (0..40).filter(|at| matrix.select(&exists(*at..at + 1)).is_some()).count();
    assert_eq!(kept, 32);
}

#[test]
fn a_field_that_no_row_has_costs_nothing_per_row() {
    let mut matrix = Matrix::new(1);
    (0..10_000).for_each(|id| matrix.push(id, &[1.0], None));
    let before = matrix.heap_bytes();
    let facts = Facts { metadata: Metadata::new(), source: None, times: [0; 2], expires_at: None };
    matrix
        .load_columns(&[&Field::Metadata("none".to_owned())], |describe| {
            (0..10_000).for_each(|id| describe(id, &facts.view()));
            Ok::<(), ()>(())
        })
        .unwrap();
    assert!(matrix.heap_bytes() < before + 1_000);
}

#[test]
fn unused_values_do_not_pile_up() {
    let mut matrix = Matrix::new(1);
    let ticket = Field::Metadata("ticket".to_owned());
    matrix.load_columns(&[&ticket], |_| Ok::<(), ()>(())).unwrap();
    let mut peak = 0;
    for id in 0..20_000 {
        matrix.push(id, &[1.0], None);
        let metadata = Metadata::new().with("ticket", format!("a ticket of its own: {id}"));
        let facts = Facts { metadata, source: None, times: [0; 2], expires_at: None };
        matrix.describe(id, &facts.view());
        if id >= 100 {
            assert!(matrix.remove(id - 100));
        }
        peak = peak.max(matrix.heap_bytes());
    }
    assert!(peak < 300_000, "{peak}");
    let newest = Filter::Eq(ticket, Scalar::from("a ticket of its own: 19999"));
    assert_eq!(selected(&matrix, &matrix.select(&newest).unwrap()), [19_999]);
}
