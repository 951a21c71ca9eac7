//! Filters of rig as filters of a search.

use memory::{Field, Filter, Scalar, limits::MAX_FILTER_DEPTH};
use rig_core::vector_store::request::{Filter as RigFilter, FilterError};
use serde_json::Value;

/// The same condition. Keys are `source`, `created_at`, `updated_at`, `expires_at`, `metadata.NAME`, or a bare NAME of metadata.
///
/// # Errors
/// What a filter here cannot say: a value that is no scalar, a malformed name, more nesting than any filter may have.
pub(crate) fn translated(filter: &RigFilter<Value>) -> Result<Filter, FilterError> {
    within(filter, 0)
}

fn within(filter: &RigFilter<Value>, depth: usize) -> Result<Filter, FilterError> {
    if depth > MAX_FILTER_DEPTH {
        let most = format!("be at most {MAX_FILTER_DEPTH} levels deep; ask for less at once");
        return Err(FilterError::Must("a filter".to_owned(), most));
    }
    match filter {
        RigFilter::Eq(key, value) => Ok(Filter::Eq(field(key)?, scalar(key, value)?)),
        RigFilter::Gt(key, value) => Ok(Filter::Gt(field(key)?, scalar(key, value)?)),
        RigFilter::Lt(key, value) => Ok(Filter::Lt(field(key)?, scalar(key, value)?)),
        RigFilter::And(..) => operands(filter, depth).map(Filter::And),
        RigFilter::Or(..) => operands(filter, depth).map(Filter::Or),
    }
}

/// What a chain like `a.and(b).and(c)` joins, which is one level here.
fn operands(chain: &RigFilter<Value>, depth: usize) -> Result<Vec<Filter>, FilterError> {
    let (mut waiting, mut operands) = (vec![chain], Vec::new());
    while let Some(next) = waiting.pop() {
        match (chain, next) {
            (RigFilter::And(..), RigFilter::And(left, right))
            | (RigFilter::Or(..), RigFilter::Or(left, right)) => waiting.extend([&**right, &**left]),
            _ => operands.push(within(next, depth + 1)?),
        }
    }
    Ok(operands)
}

fn field(key: &str) -> Result<Field, FilterError> {
    let known = Field::try_from(key.to_owned());
    let field = known.or_else(|_| Field::try_from(format!("metadata.{key}")));
    field.map_err(|error| FilterError::Must(format!("the key {key:?}"), format!("name a field: {error}")))
}

fn scalar(key: &str, value: &Value) -> Result<Scalar, FilterError> {
    serde_json::from_str(&value.to_string())
        .map_err(|error| FilterError::TypeError(format!("the value that {key:?} is compared with: {error}")))
}
