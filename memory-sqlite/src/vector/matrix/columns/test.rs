//! A filter's comparison, evaluated on the values of a column.

use memory_core::{Field, Filter, Scalar, Timestamp};

/// A comparison with its operands converted to the column's type.
pub(super) struct Test<'f> {
    leaf: &'f Filter,
    /// The operands; `None` for one that no value of this field can equal.
    operands: Vec<Option<Scalar>>,
}

impl<'f> Test<'f> {
    pub(super) fn of(leaf: &'f Filter, field: &Field) -> Option<Self> {
        let operands = match leaf {
            Filter::Eq(_, operand)
            | Filter::Ne(_, operand)
            | Filter::Lt(_, operand)
            | Filter::Lte(_, operand)
            | Filter::Gt(_, operand)
            | Filter::Gte(_, operand) => std::slice::from_ref(operand),
            Filter::In(_, operands) => operands.as_slice(),
            Filter::Exists(_) => &[],
            _ => return None,
        };
        Some(Self { leaf, operands: operands.iter().map(|operand| comparable(field, operand)).collect() })
    }

    /// Whether the comparison holds for a row with this value.
    pub(super) fn holds(&self, value: Option<&Scalar>) -> bool {
        let Some(value) = value else { return matches!(self.leaf, Filter::Ne(..)) };
        let compare = |operand: &Option<Scalar>| value.compare(operand.as_ref()?);
        let first = || self.operands.first().and_then(compare);
        match self.leaf {
            Filter::Eq(..) => first().is_some_and(std::cmp::Ordering::is_eq),
            Filter::Ne(..) => !first().is_some_and(std::cmp::Ordering::is_eq),
            Filter::Lt(..) => first().is_some_and(std::cmp::Ordering::is_lt),
            Filter::Lte(..) => first().is_some_and(std::cmp::Ordering::is_le),
            Filter::Gt(..) => first().is_some_and(std::cmp::Ordering::is_gt),
            Filter::Gte(..) => first().is_some_and(std::cmp::Ordering::is_ge),
            Filter::In(..) => {
                self.operands.iter().any(|operand| compare(operand).is_some_and(std::cmp::Ordering::is_eq))
            }
            Filter::Exists(_) => true,
            _ => false,
        }
    }
}

/// An operand as a value of the field's column, where times are milliseconds.
fn comparable(field: &Field, operand: &Scalar) -> Option<Scalar> {
    match (field, operand) {
        (Field::CreatedAt | Field::UpdatedAt | Field::ExpiresAt, Scalar::Text(text)) => {
            text.parse::<Timestamp>().ok().map(|at| Scalar::Int(at.as_millis()))
        }
        (_, operand) => Some(operand.clone()),
    }
}
