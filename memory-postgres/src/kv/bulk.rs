//! Many entries in one transaction.

use std::collections::HashSet;
use std::fmt::Write as _;

use memory_core::{Embed, EmbeddingModel, Error, Expect, Quota, Result, SetOutcome, Ttl};
use tokio_postgres::types::Type;

use crate::error::malformed;
use crate::kv::outcome::{Given, Written};
use crate::kv::row::{column, time, unsigned};
use crate::kv::target::{Expected, ModelValues, Target, Value, ttl};
use crate::kv::write::{Draft, lexicon, limits};
use crate::store::Store;

/// An array of numbers as PostgreSQL writes it: a statement takes arrays of these, but not of arrays.
pub(crate) fn literal<T: std::fmt::Display>(numbers: &[T]) -> String {
    let mut out = String::with_capacity(2 + numbers.len() * 20);
    out.push('{');
    for (at, number) in numbers.iter().enumerate() {
        if at > 0 {
            out.push(',');
        }
        // Writing to a string does not fail.
        let _ = write!(out, "{number}");
    }
    out.push('}');
    out
}

/// Rows by columns, as `unnest` and the functions take them.
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

    fn of(drafts: &'a [Draft]) -> Self {
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

/// BLK.
pub(crate) async fn insert(
    store: &Store,
    target: &Target,
    drafts: &[Draft],
    quota: Quota,
    model: Option<&EmbeddingModel>,
) -> Result<Vec<SetOutcome>> {
    let embedded = drafts.iter().position(|draft| draft.options.embed != Embed::Never);
    let model = model.filter(|_| embedded.is_some());
    let first = embedded.and_then(|at| i32::try_from(at + 1).ok());
    let mut keys = HashSet::with_capacity(drafts.len());
    let simple =
        drafts.iter().all(|draft| draft.options.expect == Expect::Any && keys.insert(draft.key.as_str()));
    let (texts, model_values) = (target.texts(), ModelValues::from(model));
    let (now, lexicon, (max_entries, max_bytes)) = (store.time.parameter(), lexicon(), limits(&quota));
    let columns = Columns::of(drafts);
    let ttls: Vec<Option<i64>> = drafts.iter().map(|draft| ttl(draft.options.ttl)).collect();
    let expected: Vec<Expected> = drafts.iter().map(|draft| draft.options.expect.into()).collect();
    let expects: Vec<i16> = expected.iter().map(|expected| expected.kind).collect();
    let versions: Vec<Option<i64>> = expected.iter().map(|expected| expected.version).collect();
    let hashes: Vec<Option<Vec<u8>>> = expected.into_iter().map(|expected| expected.sha256).collect();
    let mut values = Vec::with_capacity(25);
    values.extend(target.values(&texts));
    let own: [Value<'_>; 3] = [(&now, Type::INT8), (&simple, Type::BOOL), (&lexicon, Type::INT2)];
    values.extend(own);
    values.extend(columns.parameters());
    let own: [Value<'_>; 7] = [
        (&ttls, Type::INT8_ARRAY),
        (&expects, Type::INT2_ARRAY),
        (&versions, Type::INT8_ARRAY),
        (&hashes, Type::BYTEA_ARRAY),
        (&max_entries, Type::INT8),
        (&max_bytes, Type::INT8),
        (&first, Type::INT4),
    ];
    values.extend(own);
    values.extend(model_values.values());
    let row = store.write(&store.statements.bulk, &values).await?;
    let written = Written::read(&row)?;
    let at = usize::try_from(column::<i32>(&row, 8, "outcome")?).unwrap_or_default();
    let refused = at.checked_sub(1).and_then(|index| drafts.get(index));
    let life = refused.map_or(Ttl::Keep, |draft| draft.options.ttl);
    written.judge(Given { ttl: life, quota: &quota, model }).map_err(|error| match at.checked_sub(1) {
        Some(index) => error.with_detail("index", index),
        None => error,
    })?;
    let outcomes = match column::<Option<Vec<i64>>>(&row, 10, "version")? {
        Some(versions) => one_by_one(&row, &versions)?,
        None => all_new(&row, &written, drafts)?,
    };
    if outcomes.len() == drafts.len() {
        Ok(outcomes)
    } else {
        Err(Error::internal("PostgreSQL answered for another number of items than were sent"))
    }
}

fn one_by_one(row: &tokio_postgres::Row, versions: &[i64]) -> Result<Vec<SetOutcome>> {
    let created: Vec<bool> = column(row, 11, "outcome")?;
    let written: Vec<bool> = column(row, 12, "outcome")?;
    let expires: Vec<Option<i64>> = column(row, 13, "time")?;
    let outcomes = versions.iter().zip(created).zip(written).zip(expires);
    outcomes
        .map(|(((version, created), written), expires)| {
            let version = u64::try_from(*version).map_err(|_| malformed("version"))?;
            Ok(SetOutcome::new(version, created, written, expires.map(time).transpose()?))
        })
        .collect()
}

fn all_new(row: &tokio_postgres::Row, written: &Written, drafts: &[Draft]) -> Result<Vec<SetOutcome>> {
    let now = time(i64::try_from(unsigned(row, 9, "time")?).unwrap_or(i64::MAX))?;
    let base = written.version()?;
    let outcomes = drafts
        .iter()
        .zip(1_u64..)
        .map(|(draft, at)| Ok(SetOutcome::new(base + at, true, true, draft.options.ttl.expiry(now, None)?)));
    outcomes.collect()
}
