//! The filterable fields of the rows, one column per field, loaded when a filter first uses it.
//!
//! A column stores each distinct value once and, per row, which one it has. A comparison is evaluated once per
//! distinct value by [`Scalar::compare`], as in [`Filter`] itself, and then looked up per row.

mod column;
mod test;

use std::sync::atomic::{AtomicU64, Ordering};

use memory_core::filter::FilterView;
use memory_core::{Field, Filter, Scalar};

use super::selection::Selection;
use column::Column;
use test::Test;

/// Most fields kept as columns; the least recently used one is evicted.
pub(super) const MAX_COLUMNS: usize = 32;

/// The loaded columns of a matrix.
#[derive(Default)]
pub(super) struct Columns {
    loaded: Vec<Loaded>,
    /// Uses so far.
    uses: AtomicU64,
}

struct Loaded {
    field: Field,
    column: Column,
    /// The last use.
    used: AtomicU64,
}

impl Columns {
    /// Columns for these fields, in which no row has a value yet.
    pub(super) fn of(fields: &[&Field]) -> Self {
        let column = |field: &&Field| Loaded {
            field: (*field).clone(),
            column: Column::default(),
            used: AtomicU64::new(0),
        };
        Self { loaded: fields.iter().map(column).collect(), uses: AtomicU64::new(0) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.loaded.is_empty()
    }

    pub(super) fn heap_bytes(&self) -> usize {
        self.loaded.iter().map(|loaded| loaded.column.heap_bytes()).sum()
    }

    /// Adds freshly loaded columns.
    pub(super) fn adopt(&mut self, fresh: Self) {
        self.loaded.retain(|loaded| fresh.column(&loaded.field).is_none());
        for loaded in fresh.loaded {
            self.note_use(&loaded);
            self.loaded.push(loaded);
        }
        let surplus = self.loaded.len().saturating_sub(MAX_COLUMNS);
        self.loaded.sort_by_key(|loaded| loaded.used.load(Ordering::Relaxed));
        self.loaded.drain(..surplus);
    }

    /// Sets the value of the row at `slot`, of `slots`, in each column.
    pub(super) fn describe(&mut self, slot: usize, slots: usize, view: &FilterView<'_>) {
        for Loaded { field, column, .. } in &mut self.loaded {
            let time;
            let value = match field {
                Field::Metadata(name) => view.metadata.get(name),
                Field::Source => {
                    time = view.source.map(|source| Scalar::from(source.as_str()));
                    time.as_ref()
                }
                Field::CreatedAt => {
                    time = Some(Scalar::Int(view.created_at.as_millis()));
                    time.as_ref()
                }
                Field::UpdatedAt => {
                    time = Some(Scalar::Int(view.updated_at.as_millis()));
                    time.as_ref()
                }
                Field::ExpiresAt => {
                    time = view.expires_at.map(|at| Scalar::Int(at.as_millis()));
                    time.as_ref()
                }
            };
            if let Some(value) = value {
                column.set(slot, slots, value);
            }
        }
    }

    /// Keeps the rows for which `kept` is true, in order.
    pub(super) fn compact(&mut self, kept: &dyn Fn(usize) -> bool) {
        for loaded in &mut self.loaded {
            loaded.column.compact(kept);
        }
    }

    /// Fields of the filter without a column, each once; `None` if it names too many fields. The others count as
    /// used now, so loading does not evict them.
    pub(super) fn unloaded<'f>(&self, filter: &'f Filter) -> Option<Vec<&'f Field>> {
        let mut named: Vec<&Field> = Vec::new();
        let mut stack = vec![filter];
        while let Some(filter) = stack.pop() {
            match filter {
                Filter::And(filters) | Filter::Or(filters) => stack.extend(filters),
                Filter::Not(filter) => stack.push(filter),
                leaf => {
                    let field = field_of(leaf)?;
                    if !named.contains(&field) {
                        named.push(field);
                    }
                    if named.len() > MAX_COLUMNS {
                        return None;
                    }
                }
            }
        }
        self.loaded
            .iter()
            .filter(|loaded| named.contains(&&loaded.field))
            .for_each(|loaded| self.note_use(loaded));
        named.retain(|field| self.column(field).is_none());
        Some(named)
    }

    /// The rows among `slots` that the filter matches.
    pub(super) fn select(&self, filter: &Filter, slots: usize) -> Option<Selection> {
        self.words(filter, slots).map(Selection::from_words)
    }

    fn words(&self, filter: &Filter, slots: usize) -> Option<Vec<u64>> {
        match filter {
            Filter::And(filters) => {
                let mut all = vec![u64::MAX; slots.div_ceil(64)];
                for filter in filters {
                    combine(&mut all, &self.words(filter, slots)?, |a, b| a & b);
                }
                Some(all)
            }
            Filter::Or(filters) => {
                let mut any = vec![0; slots.div_ceil(64)];
                for filter in filters {
                    combine(&mut any, &self.words(filter, slots)?, |a, b| a | b);
                }
                Some(any)
            }
            Filter::Not(filter) => {
                let mut words = self.words(filter, slots)?;
                words.iter_mut().for_each(|word| *word = !*word);
                Some(words)
            }
            leaf => {
                let field = field_of(leaf)?;
                let column = self.column(field)?;
                Some(column.words(slots, &Test::of(leaf, field)?))
            }
        }
    }

    fn note_use(&self, loaded: &Loaded) {
        loaded.used.store(1 + self.uses.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    fn column(&self, field: &Field) -> Option<&Column> {
        self.loaded.iter().find(|loaded| loaded.field == *field).map(|loaded| &loaded.column)
    }
}

fn combine(into: &mut [u64], from: &[u64], by: impl Fn(u64, u64) -> u64) {
    for (into, from) in into.iter_mut().zip(from) {
        *into = by(*into, *from);
    }
}

/// The field of a comparison.
fn field_of(leaf: &Filter) -> Option<&Field> {
    match leaf {
        Filter::Eq(field, _)
        | Filter::Ne(field, _)
        | Filter::Lt(field, _)
        | Filter::Lte(field, _)
        | Filter::Gt(field, _)
        | Filter::Gte(field, _)
        | Filter::In(field, _)
        | Filter::Exists(field) => Some(field),
        _ => None,
    }
}
