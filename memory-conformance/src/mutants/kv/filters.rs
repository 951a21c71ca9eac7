//! FLT: filters with a different meaning.

use memory_core::{Entry, Field, Filter, Metadata, Next, Page, Reply, Request, Result, Scalar};

use crate::mutants::mutant::mutants;
use crate::mutants::requests::{everything, kv};

mutants! {
    |memory, request, next|
    "filter.numbers-as-text": ["FLT-2"], "numbers compare as text"
        => around(both_sides(request, next, |scalar| match scalar {
            Scalar::Int(int) => Scalar::Text(int.to_string()),
            Scalar::Float(float) => Scalar::Text(float.to_string()),
            other => other,
        }).await);
    "filter.numbers-as-floats": ["FLT-2"], "numbers compare as doubles" => ask(numbers_as_floats);
    "filter.text-ignores-case": ["FLT-3"], "text is compared without regard to case"
        => around(both_sides(request, next, |scalar| match scalar {
            Scalar::Text(text) => Scalar::Text(text.to_lowercase()),
            other => other,
        }).await);
    "filter.types-mix": ["FLT-1"], "the text 1 equals the number 1"
        => around(both_sides(request, next, |scalar| match scalar {
            Scalar::Text(text) => text.parse().map_or(Scalar::Text(text), Scalar::Int),
            other => other,
        }).await);
    "filter.booleans-as-numbers": ["FLT-1"], "true equals 1"
        => around(both_sides(request, next, |scalar| match scalar {
            Scalar::Bool(bit) => Scalar::Int(i64::from(bit)),
            other => other,
        }).await);
    "filter.ne-needs-presence": ["FLT-4"], "`ne` does not hold for an absent field"
        => ask(|request| bend(request, |filter| match filter {
            Filter::Ne(field, operand) => {
                Filter::And(vec![Filter::Exists(field.clone()), Filter::Ne(field, operand)])
            }
            other => other,
        }));
    "filter.not-needs-presence": ["FLT-4", "FLT-5"], "`not` does not hold for an absent field" => ask(not_needs_presence);
    "filter.absent-is-zero": ["FLT-4"], "an absent field is less than every number"
        => ask(|request| bend(request, |filter| match filter {
            Filter::Lt(field, operand) => {
                let absent = Filter::Not(Box::new(Filter::Exists(field.clone())));
                Filter::Or(vec![absent, Filter::Lt(field, operand)])
            }
            other => other,
        }));
    "filter.exists-always": ["FLT-4"], "every field exists"
        => ask(|request| bend(request, |filter| match filter {
            Filter::Exists(_) => Filter::And(Vec::new()),
            other => other,
        }));
    "filter.empty-or-holds": ["FLT-5"], "an empty `or` holds"
        => ask(|request| bend(request, |filter| match filter {
            Filter::Or(filters) if filters.is_empty() => Filter::And(filters),
            other => other,
        }));
    "filter.empty-in-holds": ["FLT-5"], "an empty `in` holds"
        => ask(|request| bend(request, |filter| match filter {
            Filter::In(_, operands) if operands.is_empty() => Filter::And(Vec::new()),
            other => other,
        }));
    "filter.lt-is-lte": ["FLT-1", "FLT-6"], "`lt` holds for equal values"
        => ask(|request| bend(request, |filter| match filter {
            Filter::Lt(field, operand) => Filter::Lte(field, operand),
            other => other,
        }));
    "filter.gte-is-gt": ["FLT-1", "FLT-6"], "`gte` does not hold for equal values"
        => ask(|request| bend(request, |filter| match filter {
            Filter::Gte(field, operand) => Filter::Gt(field, operand),
            other => other,
        }));
    "filter.in-takes-first": ["FLT-1"], "`in` compares only its first member"
        => ask(|request| bend(request, |filter| match filter {
            Filter::In(field, mut operands) => {
                operands.truncate(1);
                Filter::In(field, operands)
            }
            other => other,
        }));
    "filter.or-is-and": ["FLT-5"], "`or` wants all" => ask(|request| bend(request, |filter| match filter {
        Filter::Or(filters) if !filters.is_empty() => Filter::And(filters),
        other => other,
    }));
    "filter.source-as-metadata": ["FLT-6"], "the source is looked up in the metadata"
        => ask(|request| bend(request, |filter| {
            fields(filter, |field| match field {
                Field::Source => Field::Metadata("source".to_owned()),
                other => other,
            })
        }));
    "filter.created-is-updated": ["FLT-6"], "`created_at` compares the time of the last write"
        => ask(|request| bend(request, |filter| {
            fields(filter, |field| match field {
                Field::CreatedAt => Field::UpdatedAt,
                other => other,
            })
        }));
    "filter.times-in-seconds": ["FLT-6"], "times compare in seconds" => ask(times_in_seconds);
    "filter.names-are-paths": ["FLT-8"], "a dot in a name separates path segments"
        => ask(|request| bend(request, |filter| {
            fields(filter, |field| match field {
                Field::Metadata(name) => {
                    Field::Metadata(name.split(['.', '"', '\'']).next().unwrap_or_default().to_owned())
                }
                other => other,
            })
        }));
    "filter.percent-is-wildcard": ["FLT-8"], "`%` in a filter's text is a wildcard"
        => around(list_where(request, next, &|filter, entry| match filter {
            Filter::Eq(Field::Metadata(name), Scalar::Text(pattern)) if pattern.contains('%') => {
                let head = pattern.split('%').next().unwrap_or_default();
                matches!(entry.metadata.get(name), Some(Scalar::Text(text)) if text.starts_with(head))
            }
            filter => filter.matches(entry),
        }).await);
    "filter.too-deep-holds": ["FLT-7"], "a filter over its limits is ignored" => ask_ahead(|request| {
        let filter = match request {
            Request::List { query, .. } => &mut query.filter,
            Request::Search { query, .. } => &mut query.filter,
            _ => return,
        };
        if filter.as_ref().is_some_and(|filter| filter.check().is_err()) {
            *filter = None;
        }
    });
}

/// Changes every node of the filters of a request, the innermost first.
fn bend(request: &mut Request, change: fn(Filter) -> Filter) {
    let filter = match request {
        Request::List { query, .. } => &mut query.filter,
        Request::Search { query, .. } => &mut query.filter,
        _ => return,
    };
    *filter = filter.take().map(|filter| bent(filter, change));
}

fn bent(filter: Filter, change: fn(Filter) -> Filter) -> Filter {
    let all = |filters: Vec<Filter>| filters.into_iter().map(|filter| bent(filter, change)).collect();
    change(match filter {
        Filter::And(filters) => Filter::And(all(filters)),
        Filter::Or(filters) => Filter::Or(all(filters)),
        Filter::Not(filter) => Filter::Not(Box::new(bent(*filter, change))),
        other => other,
    })
}

fn operands(filter: Filter, change: fn(Scalar) -> Scalar) -> Filter {
    match filter {
        Filter::Eq(field, operand) => Filter::Eq(field, change(operand)),
        Filter::Ne(field, operand) => Filter::Ne(field, change(operand)),
        Filter::Lt(field, operand) => Filter::Lt(field, change(operand)),
        Filter::Lte(field, operand) => Filter::Lte(field, change(operand)),
        Filter::Gt(field, operand) => Filter::Gt(field, change(operand)),
        Filter::Gte(field, operand) => Filter::Gte(field, change(operand)),
        Filter::In(field, operands) => Filter::In(field, operands.into_iter().map(change).collect()),
        other => other,
    }
}

fn fields(filter: Filter, change: fn(Field) -> Field) -> Filter {
    match filter {
        Filter::Eq(field, operand) => Filter::Eq(change(field), operand),
        Filter::Ne(field, operand) => Filter::Ne(change(field), operand),
        Filter::Lt(field, operand) => Filter::Lt(change(field), operand),
        Filter::Lte(field, operand) => Filter::Lte(change(field), operand),
        Filter::Gt(field, operand) => Filter::Gt(change(field), operand),
        Filter::Gte(field, operand) => Filter::Gte(change(field), operand),
        Filter::In(field, operands) => Filter::In(change(field), operands),
        Filter::Exists(field) => Filter::Exists(change(field)),
        other => other,
    }
}

/// Lists with both the operands and the stored scalars changed.
async fn both_sides(request: Request, next: Next<'_>, change: fn(Scalar) -> Scalar) -> Result<Reply> {
    let matches = |filter: &Filter, entry: &Entry| {
        let mut entry = entry.clone();
        entry.metadata = entry
            .metadata
            .iter()
            .map(|(name, value)| (name.to_owned(), change(value.clone())))
            .collect::<Metadata>();
        every(filter.clone(), change).matches(&entry)
    };
    list_where(request, next, &matches).await
}

/// As [`operands`], at every depth.
fn every(filter: Filter, change: fn(Scalar) -> Scalar) -> Filter {
    let all = |filters: Vec<Filter>| filters.into_iter().map(|filter| every(filter, change)).collect();
    match filter {
        Filter::And(filters) => Filter::And(all(filters)),
        Filter::Or(filters) => Filter::Or(all(filters)),
        Filter::Not(filter) => Filter::Not(Box::new(every(*filter, change))),
        other => operands(other, change),
    }
}

/// Lists with a custom filter.
async fn list_where(
    request: Request,
    next: Next<'_>,
    matches: &(dyn Fn(&Filter, &Entry) -> bool + Sync),
) -> Result<Reply> {
    let Request::List { scope, query } = request else { return next.run(request).await };
    let Some(filter) = &query.filter else {
        return Ok(Reply::List(kv(&next)?.list(&scope, query).await?));
    };
    let mut entries = everything(&next, &scope).await?;
    entries.retain(|entry| entry.key.as_str().starts_with(&query.prefix) && matches(filter, entry));
    entries.truncate(query.limit);
    Ok(Reply::List(Page::new(entries, None)))
}

#[allow(clippy::cast_precision_loss, reason = "the loss is the mutant")]
fn numbers_as_floats(request: &mut Request) {
    bend(request, |filter| {
        operands(filter, |scalar| match scalar {
            Scalar::Int(int) => Scalar::Float(int as f64),
            other => other,
        })
    });
}

fn not_needs_presence(request: &mut Request) {
    bend(request, |filter| match filter {
        Filter::Not(inner) => match &*inner {
            Filter::Eq(field, _)
            | Filter::Lt(field, _)
            | Filter::Lte(field, _)
            | Filter::Gt(field, _)
            | Filter::Gte(field, _)
            | Filter::In(field, _) => Filter::And(vec![Filter::Exists(field.clone()), Filter::Not(inner)]),
            _ => Filter::Not(inner),
        },
        other => other,
    });
}

fn times_in_seconds(request: &mut Request) {
    bend(request, |filter| match filter {
        Filter::Gt(field @ (Field::CreatedAt | Field::UpdatedAt | Field::ExpiresAt), Scalar::Int(millis)) => {
            Filter::Gte(field, Scalar::Int(millis.div_euclid(1_000) * 1_000 + 1_000))
        }
        Filter::Lt(field @ (Field::CreatedAt | Field::UpdatedAt | Field::ExpiresAt), Scalar::Int(millis)) => {
            Filter::Lt(field, Scalar::Int(millis.div_euclid(1_000) * 1_000))
        }
        Filter::Eq(field @ (Field::CreatedAt | Field::UpdatedAt | Field::ExpiresAt), Scalar::Int(millis)) => {
            let second = millis.div_euclid(1_000) * 1_000;
            Filter::And(vec![
                Filter::Gte(field.clone(), Scalar::Int(second)),
                Filter::Lt(field, Scalar::Int(second + 1_000)),
            ])
        }
        other => other,
    });
}
