//! DRF: comparing what a caller last saw with what is stored.

use memory_core::{
    BulkOptions, DeleteOptions, DriftCheck, DriftPolicy, DriftToken, Error, ErrorKind, Expect, NewEntry,
    Reducer, ReembedOptions, Result, Retry, Scope, ScopeKind, SetOptions, SetOutcome, UpdateOptions,
};
use memory_core::{DriftChange, Seen};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind, expect_some};
use crate::cx::{Cx, json, key};
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("drift.capability.as-advertised", [Kv, Drift], ["DRF-1"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let served = cx.capabilities().drift;
        check!(
            served.is_sorted_by(|a, b| a < b),
            "the policies are {served:?}: each once, the loosest first"
        );
        // A token that nobody can have seen.
        let never = DriftToken::new(0, 0, 0);
        for (policy, check) in [
            (DriftPolicy::Row, DriftCheck::Row(Seen::Absent)),
            (DriftPolicy::Strict, DriftCheck::Strict(never, None)),
        ] {
            let expected =
                if served.contains(&policy) { ErrorKind::DriftDetected } else { ErrorKind::Unsupported };
            let set = cx.set_with(&scope, "k", "2", SetOptions::default().with_drift(check)).await;
            expect_kind!(set, expected, "a set with a check of `{policy}`");
            let options = DeleteOptions::default().with_drift(check);
            let delete = cx.kv().delete(&scope, &key("k")?, options).await;
            expect_kind!(delete, expected, "a delete with a check of `{policy}`");
        }
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("1"), "the entry after refusals");
    }),
    case!("drift.row.changed-is-refused", [Kv, Drift], ["DRF-2", "DRF-6", "DRF-14"], |cx| {
        let (scope, saw) = read(cx).await?;
        cx.set_with(&scope, "k", "2", row(saw)).await?;
        let was = before(cx, &scope).await?;
        refused(cx, &scope, was.clone(), cx.set_with(&scope, "k", "3", row(saw)).await, "changed").await?;
        // Sending it again does not help; reading again does.
        refused(cx, &scope, was, cx.set_with(&scope, "k", "3", row(saw)).await, "changed").await?;
        let saw = seen(cx, &scope, "k").await?;
        cx.set_with(&scope, "k", "3", row(saw)).await?;
    }),
    case!("drift.row.changed-is-not-deleted", [Kv, Drift], ["DRF-2", "DRF-6"], |cx| {
        let (scope, saw) = read(cx).await?;
        cx.set(&scope, "k", "2").await?;
        let was = before(cx, &scope).await?;
        let options = DeleteOptions::default().with_drift(DriftCheck::Row(saw));
        refused(cx, &scope, was, cx.kv().delete(&scope, &key("k")?, options).await, "changed").await?;
        let options = options.with_drift(DriftCheck::Row(seen(cx, &scope, "k").await?));
        check!(
            cx.kv().delete(&scope, &key("k")?, options).await?.deleted,
            "the entry that was seen is there"
        );
    }),
    case!("drift.row.vanished-is-refused", [Kv, Drift], ["DRF-3", "DRF-6"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.set_with(&scope, "k", "1", cx.expiring(60_000)).await?;
        let saw = seen(cx, &scope, "k").await?;
        cx.delete(&scope, "k").await?;
        let was = before(cx, &scope).await?;
        refused(cx, &scope, was, cx.set_with(&scope, "k", "2", row(saw)).await, "vanished").await?;
    }),
    case!("drift.row.expiry-that-came", [Kv, Drift], ["DRF-3"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.set_with(&scope, "k", "1", cx.expiring(1_000)).await?;
        let saw = seen(cx, &scope, "k").await?;
        cx.advance_ms(1_000);
        check!(cx.set_with(&scope, "k", "2", row(saw)).await?.created, "the entry was not recreated");
    }),
    case!("drift.row.expired-and-made-anew", [Kv, Drift], ["DRF-2"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.set_with(&scope, "k", "1", cx.expiring(1_000)).await?;
        let saw = seen(cx, &scope, "k").await?;
        cx.advance_ms(1_000);
        cx.set(&scope, "k", "2").await?;
        let was = before(cx, &scope).await?;
        refused(cx, &scope, was, cx.set_with(&scope, "k", "3", row(saw)).await, "changed").await?;
    }),
    case!("drift.row.appeared-is-refused", [Kv, Drift], ["DRF-4", "DRF-6"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.set(&scope, "k", "1").await?;
        let was = before(cx, &scope).await?;
        refused(cx, &scope, was, cx.set_with(&scope, "k", "2", row(Seen::Absent)).await, "appeared").await?;
        cx.set_with(&scope, "other", "2", row(Seen::Absent)).await?;
    }),
    case!("drift.row.another-entry", [Kv, Drift], ["DRF-5"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.fill(&scope, &[("k", "1"), ("other", "1")]).await?;
        let saw = seen(cx, &scope, "k").await?;
        cx.set(&scope, "other", "2").await?;
        cx.delete(&scope, "other").await?;
        cx.set_with(&scope, "k", "2", row(saw)).await?;
    }),
    case!("drift.row.no-aba", [Kv, Drift], ["DRF-2"], |cx| {
        let (scope, saw) = read(cx).await?;
        cx.delete(&scope, "k").await?;
        cx.set(&scope, "k", "1").await?;
        let was = before(cx, &scope).await?;
        refused(cx, &scope, was, cx.set_with(&scope, "k", "2", row(saw)).await, "changed").await?;
    }),
    case!("drift.strict.any-change-refuses", [Kv, Drift], ["DRF-7", "DRF-6", "DRF-14"], |cx| {
        serves(cx, DriftPolicy::Strict)?;
        for change in 0..5 {
            let scope = cx.scope()?;
            cx.fill(&scope, &[("k", "1"), ("other", "1")]).await?;
            let saw = token(cx, &scope).await?;
            match change {
                0 => drop(cx.set(&scope, "new", "1").await?),
                1 => drop(cx.delete(&scope, "other").await?),
                2 => drop(cx.increment(&scope, "other", 1).await?),
                3 => drop(cx.set(&scope, "other", "1").await?),
                _ => drop(cx.kv().drop_scope(&scope).await?),
            }
            let was = before(cx, &scope).await?;
            refused(
                cx,
                &scope,
                was.clone(),
                cx.set_with(&scope, "k", "2", strict(saw)).await,
                "scope_changed",
            )
            .await?;
            if was.1.is_some() {
                let options = DeleteOptions::default().with_drift(DriftCheck::Strict(saw, None));
                let delete = cx.kv().delete(&scope, &key("k")?, options).await;
                refused(cx, &scope, was, delete, "scope_changed").await?;
            }
        }
    }),
    case!("drift.strict.own-writes-follow", [Kv, Drift], ["DRF-7", "DRF-10"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Strict)?;
        let mut saw = token(cx, &scope).await?;
        for value in ["1", "2", "3"] {
            saw = change(&cx.set_with(&scope, "k", value, strict(saw)).await?)?.after;
        }
        let options = DeleteOptions::default().with_drift(DriftCheck::Strict(saw, None));
        let deleted = cx.kv().delete(&scope, &key("k")?, options).await?;
        saw = expect_some!(deleted.drift, "the tokens of a delete").after;
        cx.set_with(&scope, "k", "4", strict(saw)).await?;
    }),
    case!("drift.stored.already-is-success", [Kv, Drift], ["DRF-8"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let (saw, at) = (seen(cx, &scope, "k").await?, token(cx, &scope).await?);
        let version = cx.set(&scope, "k", "2").await?.version;
        let was = token(cx, &scope).await?;
        for check in served(
            cx,
            [DriftCheck::Row(saw), DriftCheck::Row(Seen::Absent), DriftCheck::Strict(at, Some(saw))],
        ) {
            let outcome = cx.set_with(&scope, "k", "2", SetOptions::default().with_drift(check)).await?;
            expect_eq!((outcome.written, outcome.version), (false, version), "a set of the stored value");
            expect_eq!(token(cx, &scope).await?, was, "the token after it");
        }
    }),
    case!("drift.stored.absent-delete-is-success", [Kv, Drift], ["DRF-8"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let (saw, at) = (seen(cx, &scope, "k").await?, token(cx, &scope).await?);
        cx.delete(&scope, "k").await?;
        for check in served(cx, [DriftCheck::Row(saw), DriftCheck::Strict(at, None)]) {
            let options = DeleteOptions::default().with_drift(check);
            let outcome = cx.kv().delete(&scope, &key("k")?, options).await?;
            check!(!outcome.deleted, "a delete of an absent entry deleted something");
        }
    }),
    case!("drift.race.one-winner" * 5, [Kv, Drift], ["DRF-9"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.set(&scope, "k", "0").await?;
        let saw = seen(cx, &scope, "k").await?;
        let scope = &scope;
        let write = |at: u64| async move { cx.set_with(scope, "k", &format!("\"w{at}\""), row(saw)).await };
        let writes = (1..=8).map(|at| Box::pin(write(at)) as BoxFuture<'_, Result<SetOutcome>>);
        let mut winners = 0;
        for result in cx.threads(writes.collect())? {
            match result {
                Ok(_) => winners += 1,
                refused => drop(expect_kind!(refused, ErrorKind::DriftDetected, "one of several writers")),
            }
        }
        expect_eq!(winners, 1, "writers that saw the same and wrote");
    }),
    case!("drift.outcome.tokens", [Kv, Drift], ["DRF-10", "DRF-11"], |cx, scope: Scope| {
        let observe = DriftCheck::Observe;
        let mut at = token(cx, &scope).await?;
        let mut follow = |what: &str, told: Option<DriftChange>| -> CaseResult<DriftToken> {
            let told = expect_some!(told, "the tokens of {what}");
            expect_eq!(told.before, at, "the token before {what}");
            check!(told.after != at, "{what} left the token as it was");
            at = told.after;
            Ok(at)
        };
        let k = key("k")?;
        let set = cx.set_with(&scope, "k", "1", SetOptions::default().with_drift(observe)).await?;
        expect_eq!(follow("a set", set.drift)?, token(cx, &scope).await?, "the token after a set");
        let update = UpdateOptions::default().with_drift(observe);
        let increment = cx.kv().increment(&scope, &k, 1, update).await?;
        expect_eq!(follow("an increment", increment.drift)?, token(cx, &scope).await?, "the token after it");
        let list = cx.kv().update(&scope, &key("l")?, Reducer::AppendDedupe(json("1")?), update).await?;
        expect_eq!(follow("an update", list.drift)?, token(cx, &scope).await?, "the token after it");
        let mut items = vec![NewEntry::new(key("a")?, json("1")?), NewEntry::new(key("b")?, json("1")?)];
        items.iter_mut().for_each(|item| item.options.drift = observe);
        for outcome in cx.kv().bulk_insert(&scope, items, BulkOptions::default()).await? {
            follow("an item of a bulk insert", outcome.drift)?;
        }
        let delete = cx.kv().delete(&scope, &k, DeleteOptions::default().with_drift(observe)).await?;
        expect_eq!(follow("a delete", delete.drift)?, token(cx, &scope).await?, "the token after it");
    }),
    case!("drift.outcome.untold-where-off", [Kv, Drift], ["DRF-10"], |cx, scope: Scope| {
        check!(
            cx.set(&scope, "k", "1").await?.drift.is_none(),
            "a write that did not ask for tokens got some"
        );
    }),
    case!("drift.token.moves-with-every-change", [Kv, Drift], ["DRF-11"], |cx, scope: Scope| {
        let mut all = vec![token(cx, &scope).await?];
        for step in 0..7 {
            match step {
                0 => drop(cx.set(&scope, "k", "1").await?),
                1 => drop(cx.set(&scope, "k", "1").await?),
                2 => drop(cx.increment(&scope, "k", 1).await?),
                3 => drop(cx.bulk(&scope, vec![NewEntry::new(key("b")?, json("1")?)]).await?),
                4 => drop(cx.delete(&scope, "b").await?),
                5 => drop(cx.update(&scope, "l", Reducer::AppendDedupe(json("1")?)).await?),
                _ => drop(cx.kv().drop_scope(&scope).await?),
            }
            let now = token(cx, &scope).await?;
            check!(!all.contains(&now), "the token after change {step} was there before");
            all.push(now);
        }
    }),
    case!("drift.token.stays-otherwise", [Kv, Drift], ["DRF-11"], |cx, scope: Scope| {
        cx.set_with(&scope, "brief", "1", cx.expiring(1_000)).await?;
        cx.set(&scope, "k", "1").await?;
        let at = token(cx, &scope).await?;
        cx.access(&scope, "k").await?;
        cx.all_keys(&scope).await?;
        cx.delete(&scope, "none").await?;
        if cx.capabilities().compare_and_set {
            let stale = SetOptions::default().with_expect(Expect::Absent);
            expect_kind!(cx.set_with(&scope, "k", "2", stale).await, ErrorKind::Conflict, "a stale set");
        }
        cx.advance_ms(1_000);
        check!(cx.entry(&scope, "brief").await?.is_none(), "an expired entry was read");
        expect_eq!(token(cx, &scope).await?, at, "the token after nothing was changed");
    }),
    case!("drift.token.embedding-anew", [Kv, Drift, Vector], ["DRF-11"], |cx, scope: Scope| {
        let bare = SetOptions::default().with_embed(memory_core::Embed::Never);
        cx.set_with(&scope, "k", "\"green tea\"", bare).await?;
        let at = token(cx, &scope).await?;
        expect_eq!(cx.kv().reembed(&scope, ReembedOptions::default()).await?.embedded, 1, "entries embedded");
        expect_eq!(token(cx, &scope).await?, at, "the token after re-embedding");
    }),
    case!("drift.token.first-generation", [Kv, Drift], ["DRF-12"], |cx, scope: Scope| {
        let never = token(cx, &scope).await?;
        check!(never.generation.is_none(), "a scope never written has generation {:?}", never.generation);
        check!(never.to_string().ends_with(".none"), "its token is {never}");
        cx.set(&scope, "k", "1").await?;
        let first = token(cx, &scope).await?;
        check!(first.generation.is_some(), "a scope that was written has no generation");
        expect_eq!(first.database, never.database, "the database's id");
    }),
    case!("drift.token.scopes-apart", [Kv, Drift], ["DRF-13"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let at = token(cx, &scope).await?;
        for other in [cx.scope()?, cx.scope_named(ScopeKind::User, scope.id.as_str())?] {
            cx.set(&other, "k", "2").await?;
            cx.delete(&other, "k").await?;
            cx.kv().drop_scope(&other).await?;
        }
        expect_eq!(token(cx, &scope).await?, at, "the token after writes to other scopes");
    }),
    case!("drift.bulk.whole", [Kv, Drift], ["DRF-15", "DRF-6"], |cx| {
        let (scope, saw) = read(cx).await?;
        cx.set(&scope, "k", "2").await?;
        let was = before(cx, &scope).await?;
        let item = |name: &str, check| -> Result<NewEntry> {
            let mut item = NewEntry::new(key(name)?, json("9")?);
            item.options.drift = check;
            Ok(item)
        };
        let items = vec![
            item("a", DriftCheck::Row(Seen::Absent))?,
            item("k", DriftCheck::Row(saw))?,
            item("b", DriftCheck::Off)?,
        ];
        let bulk = cx.kv().bulk_insert(&scope, items, BulkOptions::default()).await;
        let error = refused(cx, &scope, was, bulk, "changed").await?;
        expect_eq!(
            error.details().get("index").and_then(serde_json::Value::as_u64),
            Some(1),
            "details.index"
        );
        check!(cx.entry(&scope, "a").await?.is_none(), "an item before the refused one is stored");
        let options = BulkOptions::default().with_drift(DriftCheck::Row(saw));
        let row = cx.kv().bulk_insert(&scope, vec![item("a", DriftCheck::Off)?], options).await;
        expect_kind!(row, ErrorKind::InvalidArgument, "a row check of the whole call");
        if cx.capabilities().drift.contains(&DriftPolicy::Strict) {
            let old = token(cx, &scope).await?;
            let options = BulkOptions::default().with_drift(DriftCheck::Strict(old, None));
            cx.kv()
                .bulk_insert(&scope, vec![item("a", DriftCheck::Off)?, item("b", DriftCheck::Off)?], options)
                .await?;
            let was = before(cx, &scope).await?;
            let again = cx.kv().bulk_insert(&scope, vec![item("c", DriftCheck::Off)?], options).await;
            refused(cx, &scope, was, again, "scope_changed").await?;
        }
    }),
    case!("drift.expect.alone-counts", [Kv, Drift, Cas], ["DRF-16"], |cx| {
        let (scope, saw) = read(cx).await?;
        let version = cx.set(&scope, "k", "2").await?.version;
        cx.set_with(&scope, "k", "3", row(saw).with_expect(Expect::Version(version))).await?;
        let stale = cx.set_with(&scope, "k", "4", row(saw).with_expect(Expect::Version(version))).await;
        expect_kind!(stale, ErrorKind::Conflict, "a stale precondition");
    }),
    case!("drift.counters.never-refused", [Kv, Drift], ["DRF-16"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let (saw, at) = (seen(cx, &scope, "k").await?, token(cx, &scope).await?);
        cx.set(&scope, "k", "5").await?;
        for check in served(cx, [DriftCheck::Row(saw), DriftCheck::Strict(at, None)]) {
            let options = UpdateOptions::default().with_drift(check);
            cx.kv().increment(&scope, &key("k")?, 1, options).await?;
            cx.kv().update(&scope, &key("l")?, Reducer::AppendDedupe(json("1")?), options).await?;
        }
    }),
    case!("drift.row.unread-and-new", [Kv, Drift], ["DRF-17", "DRF-6"], |cx, scope: Scope| {
        serves(cx, DriftPolicy::Row)?;
        cx.fill(&scope, &[("old", "1"), ("older", "1")]).await?;
        let began = Seen::Unread(cx.kv().drift_state(&scope).await?.version);
        // Entries that existed when the session began may be overwritten unread.
        cx.set_with(&scope, "old", "2", row(began)).await?;
        cx.set(&scope, "k", "1").await?;
        let was = before(cx, &scope).await?;
        refused(cx, &scope, was.clone(), cx.set_with(&scope, "k", "2", row(began)).await, "appeared").await?;
        let options = DeleteOptions::default().with_drift(DriftCheck::Row(began));
        refused(cx, &scope, was.clone(), cx.kv().delete(&scope, &key("k")?, options).await, "appeared")
            .await?;
        let mut items = vec![NewEntry::new(key("new")?, json("1")?), NewEntry::new(key("k")?, json("2")?)];
        items.iter_mut().for_each(|item| item.options.drift = DriftCheck::Row(began));
        let bulk = cx.kv().bulk_insert(&scope, items, BulkOptions::default()).await;
        refused(cx, &scope, was, bulk, "appeared").await?;
        cx.set(&scope, "older", "2").await?;
        expect_kind!(
            cx.set_with(&scope, "older", "3", row(began)).await,
            ErrorKind::DriftDetected,
            "a set over an entry that was changed unread"
        );
        check!(
            cx.kv().delete(&scope, &key("old")?, DeleteOptions::default()).await?.deleted,
            "`old` is gone"
        );
        for name in ["old", "new"] {
            check!(cx.set_with(&scope, name, "3", row(began)).await?.created, "nobody has written `{name}`");
        }
    }),
];

fn row(seen: Seen) -> SetOptions {
    SetOptions::default().with_drift(DriftCheck::Row(seen))
}

fn strict(token: DriftToken) -> SetOptions {
    SetOptions::default().with_drift(DriftCheck::Strict(token, None))
}

/// What a read of the key returns as seen.
async fn seen(cx: &Cx, scope: &Scope, name: &str) -> Result<Seen> {
    Ok(Seen::of(cx.entry(scope, name).await?.as_ref()))
}

async fn token(cx: &Cx, scope: &Scope) -> Result<DriftToken> {
    Ok(cx.kv().drift_state(scope).await?.token)
}

fn serves(cx: &Cx, policy: DriftPolicy) -> CaseResult {
    if cx.capabilities().drift.contains(&policy) {
        Ok(())
    } else {
        Err(Stop::skipped("the policy is not served"))
    }
}

/// Expects a refusal for this reason that left the scope unchanged.
async fn refused<T: std::fmt::Debug>(
    cx: &Cx,
    scope: &Scope,
    before: (DriftToken, Option<String>),
    result: Result<T>,
    reason: &str,
) -> CaseResult<Error> {
    let error = expect_kind!(result, ErrorKind::DriftDetected, "a write that contradicts what was seen");
    let detail = |name: &str| error.details().get(name).and_then(|value| value.as_str()).map(str::to_owned);
    expect_eq!(detail("reason").as_deref(), Some(reason), "details.reason");
    expect_eq!(detail("actual"), Some(before.0.to_string()), "details.actual");
    expect_eq!(error.retry(), Retry::Never, "the retry advice");
    expect_eq!(token(cx, scope).await?, before.0, "the token after a refusal");
    expect_eq!(cx.text(scope, "k").await?, before.1, "the entry after a refusal");
    Ok(error)
}

/// The scope before a write that must be refused.
async fn before(cx: &Cx, scope: &Scope) -> Result<(DriftToken, Option<String>)> {
    Ok((token(cx, scope).await?, cx.text(scope, "k").await?))
}

/// An entry that has just been read, if a write can be checked against it.
async fn read(cx: &Cx) -> CaseResult<(Scope, Seen)> {
    serves(cx, DriftPolicy::Row)?;
    let scope = cx.scope()?;
    cx.set(&scope, "k", "1").await?;
    let saw = seen(cx, &scope, "k").await?;
    Ok((scope, saw))
}

/// The checks without a policy, or with one that the provider serves.
fn served<const N: usize>(cx: &Cx, checks: [DriftCheck; N]) -> impl Iterator<Item = DriftCheck> {
    let served = cx.capabilities().drift;
    checks.into_iter().filter(move |check| check.policy().is_none_or(|policy| served.contains(&policy)))
}

fn change(outcome: &SetOutcome) -> CaseResult<DriftChange> {
    Ok(expect_some!(outcome.drift, "the tokens of a write that asked for them"))
}
