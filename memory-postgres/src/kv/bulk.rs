//! Many entries in one transaction.

use std::collections::HashSet;

use memory_core::{
    BulkOptions, DriftCheck, DriftToken, Embed, EmbeddingModel, Error, Expect, Result, SetOutcome, Ttl,
};
use memory_core::{DriftChange, Seen};
use tokio_postgres::types::Type;

use crate::error::malformed;
use crate::kv::batch::Columns;
use crate::kv::draft::{Draft, lexicon};
use crate::kv::drift::{Comparison, Item, Sight};
use crate::kv::write_result::{WriteContext, WriteResult};
use crate::store::Store;
use crate::store::columns::{column, time, unsigned};
use crate::store::parameters::{Expected, ModelValues, Value, limits, ttl};
use crate::store::scope_ref::ScopeRef;

/// BLK: inserts many entries.
pub(crate) async fn insert(
    store: &Store,
    target: &ScopeRef,
    drafts: &[Draft],
    options: BulkOptions,
    model: Option<&EmbeddingModel>,
) -> Result<Vec<SetOutcome>> {
    let quota = options.quota;
    let embedded = drafts.iter().position(|draft| draft.options.embed != Embed::Never);
    let model = model.filter(|_| embedded.is_some());
    let first = embedded.and_then(|at| i32::try_from(at + 1).ok());
    let mut keys = HashSet::with_capacity(drafts.len());
    let simple = drafts.iter().all(|draft| {
        let new = matches!(
            draft.options.drift,
            DriftCheck::Off | DriftCheck::Observe | DriftCheck::Row(Seen::Absent | Seen::Unread(_))
        );
        new && draft.options.expect == Expect::Any && keys.insert(draft.key.as_str())
    });
    let model_values = ModelValues::from(model);
    let (now, lexicon, (max_entries, max_bytes)) = (store.time.parameter(), lexicon(), limits(&quota));
    let columns = Columns::of(drafts);
    let ttls: Vec<Option<i64>> = drafts.iter().map(|draft| ttl(draft.options.ttl)).collect();
    let expected: Vec<Expected> = drafts.iter().map(|draft| draft.options.expect.into()).collect();
    let expects: Vec<i16> = expected.iter().map(|expected| expected.kind).collect();
    let versions: Vec<Option<i64>> = expected.iter().map(|expected| expected.version).collect();
    let hashes: Vec<Option<Vec<u8>>> = expected.into_iter().map(|expected| expected.sha256).collect();
    let mut values = target.parameters([(&now, Type::INT8), (&simple, Type::BOOL), (&lexicon, Type::INT2)]);
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
    let checks: Vec<DriftCheck> = drafts.iter().map(|draft| draft.options.drift).collect();
    let comparison = Comparison::of(&store.guard, &options.drift);
    let sights: Vec<Sight> =
        drafts.iter().map(|draft| Sight::of(&draft.options.drift, draft.options.expect)).collect();
    let seen: Vec<Option<i64>> = sights.iter().map(|sight| sight.version).collect();
    let until: Vec<Option<i64>> = sights.iter().map(|sight| sight.until).collect();
    let tokens: Vec<Option<(i64, i64)>> = checks.iter().map(|check| store.guard.expected(check)).collect();
    let generations: Vec<Option<i64>> = tokens.iter().map(|token| token.map(|(at, _)| at)).collect();
    let nonces: Vec<Option<i64>> = tokens.iter().map(|token| token.map(|(_, nonce)| nonce)).collect();
    let row = if options.drift.compares() || checks.iter().any(DriftCheck::compares) {
        let own: [Value<'_>; 7] = [
            (&comparison.drift, Type::INT2),
            (&seen, Type::INT8_ARRAY),
            (&until, Type::INT8_ARRAY),
            (&generations, Type::INT8_ARRAY),
            (&nonces, Type::INT8_ARRAY),
            (&comparison.generation, Type::INT8),
            (&comparison.nonce, Type::INT8),
        ];
        values.extend(own);
        let items: Vec<Item<'_>> =
            drafts.iter().map(|draft| Item { key: &draft.key, seen: draft.options.drift.seen() }).collect();
        let strict = comparison.is_strict() || tokens.iter().any(Option::is_some);
        store.write_checked(target, &items, strict, &store.statements.bulk_checked, &values).await?
    } else {
        store.write(&store.statements.bulk, &values).await?
    };
    let written = WriteResult::read(&row)?;
    let at = usize::try_from(column::<i32>(&row, 8, "outcome")?).unwrap_or_default();
    let refused = at.checked_sub(1).and_then(|index| drafts.get(index));
    let life = refused.map_or(Ttl::Keep, |draft| draft.options.ttl);
    let judged = match written.drifted() {
        Some(reason) => Err(reason.refusal(store.guard.tokens(&row, TOKENS)?.0)),
        None => written.judge(WriteContext { ttl: life, quota: &quota, model }),
    };
    judged.map_err(|error| match at.checked_sub(1) {
        Some(index) => error.with_detail("index", index),
        None => error,
    })?;
    let mut outcomes = match column::<Option<Vec<i64>>>(&row, 10, "version")? {
        Some(versions) => one_by_one(&row, &versions)?,
        None => all_new(&row, &written, drafts)?,
    };
    if outcomes.len() == drafts.len() {
        if checks.iter().any(DriftCheck::tells) {
            set_tokens(drafts, &mut outcomes, store.guard.tokens(&row, TOKENS)?);
        }
        Ok(outcomes)
    } else {
        Err(Error::internal("PostgreSQL returned another number of items than were sent"))
    }
}

/// The first column of a bulk insert's tokens.
const TOKENS: usize = 14;

/// Sets each item's tokens before and after. Nobody can observe the tokens between the first and the last, so any
/// different ones will do.
fn set_tokens(drafts: &[Draft], outcomes: &mut [SetOutcome], (first, last): (DriftToken, DriftToken)) {
    let mut left = outcomes.iter().filter(|outcome| outcome.written).count();
    let mut before = first;
    for (draft, outcome) in drafts.iter().zip(outcomes) {
        let mut after = before;
        if outcome.written {
            left = left.saturating_sub(1);
            after = match left {
                0 => last,
                _ => DriftToken { generation: before.generation.and_then(|at| at.checked_add(1)), ..before },
            };
            if after.generation.is_none() {
                after = DriftToken::new(first.database, 1, 0);
            }
        }
        if draft.options.drift.tells() {
            outcome.drift = Some(DriftChange::new(before, after, Some(draft.digest(outcome.expires_at))));
        }
        before = after;
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

fn all_new(row: &tokio_postgres::Row, written: &WriteResult, drafts: &[Draft]) -> Result<Vec<SetOutcome>> {
    let now = time(i64::try_from(unsigned(row, 9, "time")?).unwrap_or(i64::MAX))?;
    let base = written.version()?;
    let outcomes = drafts
        .iter()
        .zip(1_u64..)
        .map(|(draft, at)| Ok(SetOutcome::new(base + at, true, true, draft.options.ttl.expiry(now, None)?)));
    outcomes.collect()
}
