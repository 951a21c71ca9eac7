//! Filters as SQL conditions, equivalent to `memory_core::Filter::matches`.

use memory_core::filter::{Field, Filter};
use memory_core::{Scalar, Timestamp};

use crate::kv::row::{decimal, without_nul};
use crate::store::parameters::Values;

/// A condition on the row `e` of an entry. It is true or false, never null, so that `NOT` is its complement.
///
/// Names and values are passed as parameters; the text contains no outside input.
pub(crate) fn condition(filter: &Filter, values: &mut Values) -> String {
    match filter {
        Filter::Eq(field, operand) => compared(field, "=", operand, values),
        Filter::Ne(field, operand) => format!("NOT {}", compared(field, "=", operand, values)),
        Filter::Lt(field, operand) => compared(field, "<", operand, values),
        Filter::Lte(field, operand) => compared(field, "<=", operand, values),
        Filter::Gt(field, operand) => compared(field, ">", operand, values),
        Filter::Gte(field, operand) => compared(field, ">=", operand, values),
        Filter::In(field, operands) => among(field, operands, values),
        Filter::Exists(field) => match field {
            Field::Metadata(name) => {
                let name = values.text(name.as_str());
                format!("coalesce(e.metadata ? {name}, false)")
            }
            Field::Source => "(e.source IS NOT NULL)".to_owned(),
            Field::CreatedAt | Field::UpdatedAt => "true".to_owned(),
            Field::ExpiresAt => "(e.expires_at IS NOT NULL)".to_owned(),
        },
        Filter::And(filters) => joined(filters, " AND ", "true", values),
        Filter::Or(filters) => joined(filters, " OR ", "false", values),
        Filter::Not(filter) => format!("NOT {}", condition(filter, values)),
        // A kind of filter unknown to this version matches nothing.
        _ => "false".to_owned(),
    }
}

fn joined(filters: &[Filter], operator: &str, empty: &str, values: &mut Values) -> String {
    if filters.is_empty() {
        return empty.to_owned();
    }
    let parts: Vec<String> = filters.iter().map(|filter| condition(filter, values)).collect();
    format!("({})", parts.join(operator))
}

fn compared(field: &Field, operator: &str, operand: &Scalar, values: &mut Values) -> String {
    match field {
        Field::Metadata(name) => {
            let name = values.text(name.as_str());
            match operand {
                Scalar::Text(text) => {
                    let text = values.text(without_nul(text).into_owned());
                    if_type(
                        &name,
                        "string",
                        &format!("((e.metadata ->> {name}) COLLATE \"C\" {operator} {text})"),
                    )
                }
                Scalar::Bool(truth) => if_type(
                    &name,
                    "boolean",
                    &format!("((e.metadata ->> {name})::boolean {operator} {truth})"),
                ),
                Scalar::Int(_) | Scalar::Float(_) => {
                    let number = values.text(number(operand));
                    if_type(
                        &name,
                        "number",
                        &format!("((e.metadata ->> {name})::numeric {operator} {number}::numeric)"),
                    )
                }
            }
        }
        Field::Source => match operand {
            Scalar::Text(text) if !text.contains('\0') => {
                let text = values.text(text.as_str());
                format!("coalesce(e.source {operator} {text}, false)")
            }
            // No label contains a NUL: the part before it decides.
            Scalar::Text(text) => with_nul(text, operator, values),
            _ => "false".to_owned(),
        },
        Field::CreatedAt => time("e.created_at", operator, operand, values),
        Field::UpdatedAt => time("e.updated_at", operator, operand, values),
        Field::ExpiresAt => time("e.expires_at", operator, operand, values),
    }
}

/// The comparison if the member has the type, otherwise false. CASE prevents casts of other types.
fn if_type(name: &str, kind: &str, comparison: &str) -> String {
    format!("(CASE WHEN jsonb_typeof(e.metadata -> {name}) = '{kind}' THEN {comparison} ELSE false END)")
}

fn number(operand: &Scalar) -> String {
    match operand {
        Scalar::Float(value) => decimal(*value),
        Scalar::Int(value) => value.to_string(),
        Scalar::Bool(_) | Scalar::Text(_) => String::new(),
    }
}

/// A source label compared with a text that contains a NUL: it never equals one, and sorts after the part before the
/// NUL.
fn with_nul(text: &str, operator: &str, values: &mut Values) -> String {
    let head = values.text(text.split('\0').next().unwrap_or_default());
    match operator {
        "<" | "<=" => format!("coalesce(e.source <= {head}, false)"),
        ">" | ">=" => format!("coalesce(e.source > {head}, false)"),
        _ => "false".to_owned(),
    }
}

fn time(column: &str, operator: &str, operand: &Scalar, values: &mut Values) -> String {
    match operand {
        Scalar::Text(text) => match text.parse::<Timestamp>() {
            Ok(time) => format!("coalesce({column} {operator} {}, false)", time.as_millis()),
            Err(_) => "false".to_owned(),
        },
        Scalar::Int(millis) => {
            let millis = values.int8(*millis);
            format!("coalesce({column} {operator} {millis}, false)")
        }
        Scalar::Float(millis) => {
            let millis = values.text(decimal(*millis));
            format!("coalesce({column}::numeric {operator} {millis}::numeric, false)")
        }
        Scalar::Bool(_) => "false".to_owned(),
    }
}

fn among(field: &Field, operands: &[Scalar], values: &mut Values) -> String {
    let Field::Metadata(name) = field else {
        let parts: Vec<String> =
            operands.iter().map(|operand| compared(field, "=", operand, values)).collect();
        return if parts.is_empty() { "false".to_owned() } else { format!("({})", parts.join(" OR ")) };
    };
    let name = values.text(name.as_str());
    let (mut texts, mut numbers, mut truths) = (Vec::new(), Vec::new(), Vec::new());
    for operand in operands {
        match operand {
            Scalar::Text(text) => texts.push(without_nul(text).into_owned()),
            Scalar::Bool(truth) => truths.push(truth.to_string()),
            Scalar::Int(_) | Scalar::Float(_) => numbers.push(number(operand)),
        }
    }
    let mut parts = Vec::new();
    if !texts.is_empty() {
        let texts = values.texts(texts);
        parts.push(if_type(
            &name,
            "string",
            &format!("((e.metadata ->> {name}) COLLATE \"C\" = ANY ({texts}))"),
        ));
    }
    if !truths.is_empty() {
        let truths = values.texts(truths);
        parts.push(if_type(&name, "boolean", &format!("((e.metadata ->> {name}) = ANY ({truths}))")));
    }
    if !numbers.is_empty() {
        let numbers = values.texts(numbers);
        parts.push(if_type(
            &name,
            "number",
            &format!("((e.metadata ->> {name})::numeric = ANY ({numbers}::numeric[]))"),
        ));
    }
    if parts.is_empty() { "false".to_owned() } else { format!("({})", parts.join(" OR ")) }
}
