//! Filters: JSON round trip, validation, and the laws of logic.

use memory_core::limits::{MAX_FILTER_DEPTH, MAX_FILTER_NODES};
use memory_core::{Entry, Filter, Json, Key, Metadata, Source, Timestamp};

/// Tries one filter.
pub fn run(data: &[u8]) {
    let Ok(filter) = serde_json::from_slice::<Filter>(data) else { return };
    let checked = filter.check();
    let (depth, nodes) = size(&filter);
    if depth > MAX_FILTER_DEPTH || nodes > MAX_FILTER_NODES {
        assert!(checked.is_err(), "{depth} levels, {nodes} nodes");
    }
    if checked.is_err() {
        return;
    }
    let text = serde_json::to_string(&filter).expect("writes");
    let again: Filter = serde_json::from_str(&text).expect("reads what it wrote");
    assert_eq!(again, filter);
    assert_eq!(serde_json::to_string(&again).expect("writes"), text);
    for entry in entries() {
        assert_eq!(again.matches(&entry), filter.matches(&entry));
        laws(&filter, &entry);
    }
}

/// Depth and number of nodes, including members of `in`.
fn size(filter: &Filter) -> (usize, usize) {
    match filter {
        Filter::And(all) | Filter::Or(all) => {
            let sizes = all.iter().map(size).fold((0, 0), |(d, n), (depth, nodes)| (d.max(depth), n + nodes));
            (1 + sizes.0, 1 + sizes.1)
        }
        Filter::Not(inner) => {
            let (depth, nodes) = size(inner);
            (1 + depth, 1 + nodes)
        }
        Filter::In(_, operands) => (1, 1 + operands.len()),
        _ => (1, 1),
    }
}

fn laws(filter: &Filter, entry: &Entry) {
    let holds = |filter: Filter| filter.matches(entry);
    let all = |filters: &[Filter]| filters.iter().all(|filter| filter.matches(entry));
    let expected = match filter.clone() {
        Filter::Eq(field, operand) => {
            let equal = holds(Filter::In(field.clone(), vec![operand.clone()]));
            let (less, more) =
                (holds(Filter::Lt(field.clone(), operand.clone())), holds(Filter::Gt(field.clone(), operand.clone())));
            assert!(u8::from(less) + u8::from(equal) + u8::from(more) <= 1);
            assert!(!(less || equal || more) || holds(Filter::Exists(field.clone())));
            assert_eq!(holds(Filter::Lte(field.clone(), operand.clone())), less || equal);
            assert_eq!(holds(Filter::Gte(field, operand)), more || equal);
            equal
        }
        Filter::Ne(field, operand) => !holds(Filter::Eq(field, operand)),
        Filter::Lt(field, operand) => {
            holds(Filter::Lte(field.clone(), operand.clone())) && holds(Filter::Ne(field, operand))
        }
        Filter::Lte(field, operand) => {
            holds(Filter::Lt(field.clone(), operand.clone())) || holds(Filter::Eq(field, operand))
        }
        Filter::Gt(field, operand) => {
            holds(Filter::Gte(field.clone(), operand.clone())) && holds(Filter::Ne(field, operand))
        }
        Filter::Gte(field, operand) => {
            holds(Filter::Gt(field.clone(), operand.clone())) || holds(Filter::Eq(field, operand))
        }
        Filter::In(field, operands) => {
            operands.into_iter().any(|operand| holds(Filter::Eq(field.clone(), operand)))
        }
        Filter::And(filters) => {
            filters.iter().for_each(|filter| laws(filter, entry));
            all(&filters)
        }
        Filter::Or(filters) => {
            filters.iter().for_each(|filter| laws(filter, entry));
            !all(&filters.into_iter().map(|filter| Filter::Not(Box::new(filter))).collect::<Vec<_>>())
        }
        Filter::Not(inner) => {
            laws(&inner, entry);
            !inner.matches(entry)
        }
        _ => return,
    };
    assert_eq!(filter.matches(entry), expected, "{filter:?}");
}

fn entries() -> [Entry; 2] {
    let entry = |millis: i64| {
        let now = Timestamp::from_millis(millis).expect("a time");
        Entry::new(Key::new("k").expect("a key"), Json::null(), 1, now)
    };
    let mut full = entry(1_700_000_000_000);
    full.metadata = Metadata::new()
        .with("city", "Oslo")
        .with("n", 9_007_199_254_740_993_i64)
        .with("x", 1.5)
        .with("zero", -0.0)
        .with("yes", true)
        .with("", "a name no one can ask for");
    full.source = Some(Source::new("chat").expect("a source"));
    full.expires_at = Some(Timestamp::MAX);
    [full, entry(0)]
}
