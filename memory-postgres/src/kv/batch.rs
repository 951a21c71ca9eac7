//! Entries by columns, as `unnest` and the functions of the schema take them.

use tokio_postgres::types::Type;

use crate::kv::draft::Draft;
use crate::store::parameters::{Value, literal};

/// Entries by columns.
#[derive(Debug, Default)]
pub(crate) struct Columns<'a> {
    pub(crate) keys: Vec<&'a str>,
    pub(crate) values: Vec<&'a str>,
    pub(crate) metadata: Vec<Option<&'a str>>,
    pub(crate) sources: Vec<Option<&'a str>>,
    pub(crate) texts: Vec<Option<&'a str>>,
    pub(crate) sizes: Vec<i32>,
    pub(crate) tokens: Vec<i32>,
    pub(crate) marks: Vec<String>,
    pub(crate) counts: Vec<String>,
}

impl<'a> Columns<'a> {
    pub(crate) fn parameters(&self) -> [Value<'_>; 9] {
        [
            (&self.keys, Type::TEXT_ARRAY),
            (&self.values, Type::TEXT_ARRAY),
            (&self.metadata, Type::TEXT_ARRAY),
            (&self.sources, Type::TEXT_ARRAY),
            (&self.texts, Type::TEXT_ARRAY),
            (&self.sizes, Type::INT4_ARRAY),
            (&self.tokens, Type::INT4_ARRAY),
            (&self.marks, Type::TEXT_ARRAY),
            (&self.counts, Type::TEXT_ARRAY),
        ]
    }

    pub(crate) fn of(drafts: &'a [Draft]) -> Self {
        let mut columns = Self::default();
        for draft in drafts {
            columns.keys.push(draft.key.as_str());
            columns.values.push(draft.value.as_str());
            columns.metadata.push(draft.metadata.as_deref());
            columns.sources.push(draft.source());
            columns.texts.push(draft.options.text.as_deref());
            columns.sizes.push(draft.size);
            columns.tokens.push(draft.marks.tokens);
            columns.marks.push(literal(&draft.marks.marks));
            columns.counts.push(literal(&draft.marks.counts));
        }
        columns
    }
}
