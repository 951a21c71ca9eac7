//! VER: versions and preconditions.

use memory_core::entry::value_sha256;
use memory_core::{ErrorKind, Expect, Metadata, Reducer, Scope, ScopeKind, SetOptions, Ttl};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::entries::{detail, expect_conflict, item, item_with};
use crate::cx::{Cx, json, ms, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("kv.set.version-grows" * 2, [Kv], ["VER-1"], |cx, scope: Scope| {
        let mut last = 0;
        for value in ["1", "2", "2", "3"] {
            let set = cx.set(&scope, "k", value).await?;
            check!(set.version > last, "version {} came after version {last}", set.version);
            last = set.version;
        }
    }),
    case!("kv.version.every-write-grows", [Kv], ["VER-1"], |cx, scope: Scope| {
        let mut last = cx.set(&scope, "k", "1").await?.version;
        check!(last >= 1, "the first version is 0");
        for step in 0..8 {
            let options = memory_core::UpdateOptions::default();
            let k = crate::cx::key("k")?;
            let (what, version) = match step {
                0 => ("increment", cx.kv().increment(&scope, &k, 1, options).await?.version),
                1 => ("increment by 0", cx.kv().increment(&scope, &k, 0, options).await?.version),
                2 => ("set", cx.set(&scope, "k", "{}").await?.version),
                3 => ("merge", cx.update(&scope, "k", Reducer::Merge(json(r#"{"a":1}"#)?)).await?.version),
                4 => (
                    "merge of the same",
                    cx.update(&scope, "k", Reducer::Merge(json(r#"{"a":1}"#)?)).await?.version,
                ),
                5 => {
                    let outcomes = cx.bulk(&scope, vec![item("k", "[1]")?, item("k", "[1]")?]).await?;
                    let versions: Vec<u64> = outcomes.iter().map(|outcome| outcome.version).collect();
                    check!(versions.is_sorted_by(|a, b| a < b), "items of one key got versions {versions:?}");
                    ("bulk insert", versions.last().copied().unwrap_or(0))
                }
                6 => ("append", cx.update(&scope, "k", Reducer::AppendDedupe(json("2")?)).await?.version),
                _ => (
                    "append of the same",
                    cx.update(&scope, "k", Reducer::AppendDedupe(json("2")?)).await?.version,
                ),
            };
            check!(version > last, "{what}: version {version} came after version {last}");
            expect_eq!(cx.live(&scope, "k").await?.version, version, "the version read after {what}");
            last = version;
        }
    }),
    case!("kv.version.survives-delete", [Kv], ["VER-2"], |cx, scope: Scope| {
        for _ in 0..3 {
            cx.set(&scope, "k", "1").await?;
            let last = cx.set(&scope, "k", "2").await?.version;
            cx.delete(&scope, "k").await?;
            next_version(cx, &scope, last, "a delete").await?;
        }
    }),
    case!("kv.version.survives-expiry", [Kv], ["VER-2"], |cx, scope: Scope| {
        for _ in 0..3 {
            cx.set(&scope, "k", "1").await?;
            let last = cx.set_with(&scope, "k", "2", cx.expiring(5)).await?.version;
            cx.advance_ms(5);
            next_version(cx, &scope, last, "an expiry").await?;
        }
    }),
    case!("kv.version.survives-drop", [Kv], ["VER-2"], |cx| {
        for kind in [ScopeKind::Agent, ScopeKind::User] {
            let scope = cx.scope_of(kind)?;
            for _ in 0..2 {
                cx.set(&scope, "k", "1").await?;
                let last = cx.set(&scope, "k", "2").await?.version;
                cx.kv().drop_scope(&scope).await?;
                next_version(cx, &scope, last, "a drop of its scope").await?;
            }
        }
    }),
    case!("kv.version.survives-reopening", [Kv], ["VER-2"], |cx| {
        let store = cx.open().await?;
        let (scope, k) = (cx.scope()?, crate::cx::key("k")?);
        for value in ["1", "2", "3"] {
            store.kv().set(&scope, &k, json(value)?, SetOptions::default()).await?;
        }
        let last = store.kv().set(&scope, &k, json("4")?, SetOptions::default()).await?.version;
        store.kv().delete(&scope, &k, memory_core::DeleteOptions::default()).await?;
        let store = store.reopen().await?;
        let next = store.kv().set(&scope, &k, json("5")?, SetOptions::default()).await?.version;
        check!(
            next > last,
            "version {next} came after version {last}, across a delete and the store's reopening"
        );
    }),
    case!("cas.absent.once", [Kv, Cas], ["VER-3", "VER-6"], |cx, scope: Scope| {
        let first = cx.set_with(&scope, "k", "1", expecting(Expect::Absent)).await?;
        check!(first.created && first.written, "a set of an absent key: {first:?}");
        let refused = cx.set_with(&scope, "k", "2", expecting(Expect::Absent)).await;
        expect_conflict(refused, Some(first.version), "a set that expects no entry although there is one")?;
        cx.delete(&scope, "k").await?;
        let again = cx.set_with(&scope, "k", "3", expecting(Expect::Absent)).await?;
        check!(again.created && again.written, "a set of a deleted key: {again:?}");
    }),
    case!("cas.set.current-version-writes", [Kv, Cas], ["VER-4"], |cx, scope: Scope| {
        let mut version = cx.set(&scope, "k", "0").await?.version;
        for value in ["1", "2", "3"] {
            let set = cx.set_with(&scope, "k", value, expecting(Expect::Version(version))).await?;
            check!(set.written && !set.created, "a set that expects the current version: {set:?}");
            expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some(value));
            version = set.version;
        }
    }),
    case!("cas.set.stale-version-conflicts", [Kv, Cas], ["VER-4", "VER-6"], |cx, scope: Scope| {
        let first = cx.set(&scope, "k", "1").await?.version;
        let second = cx.set(&scope, "k", "2").await?.version;
        for version in [first, second + 1, 0, u64::MAX] {
            let refused = cx.set_with(&scope, "k", "3", expecting(Expect::Version(version))).await;
            expect_conflict(
                refused,
                Some(second),
                &format!("a set that expects version {version} of {second}"),
            )?;
        }
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("2"));
    }),
    case!("cas.set.version-of-nothing-conflicts", [Kv, Cas], ["VER-4", "VER-6"], |cx, scope: Scope| {
        cx.set(&scope, "other", "1").await?;
        for expect in [Expect::Version(0), Expect::Version(1), Expect::Sha256(value_sha256(&json("2")?))] {
            let refused = cx.set_with(&scope, "k", "2", expecting(expect)).await;
            expect_conflict(refused, None, &format!("a set that expects {expect:?} of an absent entry"))?;
        }
        expect_eq!(cx.all_keys(&scope).await?, ["other"]);
    }),
    case!("cas.set.no-aba", [Kv, Cas], ["VER-2", "VER-4"], |cx, scope: Scope| {
        let seen = cx.set(&scope, "k", "1").await?.version;
        cx.delete(&scope, "k").await?;
        let now = cx.set(&scope, "k", "1").await?.version;
        let refused = cx.set_with(&scope, "k", "2", expecting(Expect::Version(seen))).await;
        expect_conflict(
            refused,
            Some(now),
            "a set that expects the version from before a delete and recreation",
        )?;
    }),
    case!("cas.sha256.of-the-text", [Kv, Cas], ["VER-5", "VER-6"], |cx, scope: Scope| {
        let digest =
            |text: &str| -> memory_core::Result<Expect> { Ok(Expect::Sha256(value_sha256(&json(text)?))) };
        let stored = r#"{"b":1.0, "a":"é"}"#;
        let version = cx.set(&scope, "k", stored).await?.version;
        for other in [
            r#"{"b":1.0,"a":"é"}"#,
            r#"{"b":1, "a":"é"}"#,
            r#"{"a":"é", "b":1.0}"#,
            r#"{"b":1.0, "a":"\u00e9"}"#,
        ] {
            let refused = cx.set_with(&scope, "k", "2", expecting(digest(other)?)).await;
            expect_conflict(
                refused,
                Some(version),
                &format!("a set that expects `{other}` although `{stored}` is stored"),
            )?;
        }
        let set = cx.set_with(&scope, "k", "2", expecting(digest(stored)?)).await?;
        check!(set.written, "a set that expects the digest of the stored text: {set:?}");
    }),
    case!("cas.conflict.changes-nothing", [Kv, Cas], ["VER-6", "SET-6"], |cx, scope: Scope| {
        let version = cx.set_with(&scope, "k", "1", cx.expiring(60_000)).await?.version;
        let before = cx.live(&scope, "k").await?;
        cx.advance_ms(1);
        for expect in [Expect::Absent, Expect::Version(version + 1), Expect::Sha256([7; 32])] {
            let options =
                tagged(Metadata::new().with("a", 1)).with_ttl(Ttl::After(ms(9))).with_expect(expect);
            expect_kind!(
                cx.set_with(&scope, "k", "2", options).await,
                ErrorKind::Conflict,
                "a set that expects {expect:?}"
            );
            expect_eq!(cx.live(&scope, "k").await?, before, "the entry after the conflict");
        }
        let control = cx.scope()?;
        cx.set(&control, "k", "1").await?;
        let due = cx.set(&control, "k", "2").await?.version;
        expect_eq!(
            cx.set(&scope, "k", "2").await?.version,
            due,
            "the next version, which conflicts must not change"
        );
    }),
    case!("cas.retry.same-result-succeeds", [Kv, Cas], ["VER-7"], |cx, scope: Scope| {
        let old = cx.set(&scope, "k", "1").await?.version;
        let digest = Expect::Sha256(value_sha256(&json("1")?));
        for (key, expect) in [("new", Expect::Absent), ("k", Expect::Version(old)), ("k2", digest)] {
            if key == "k2" {
                cx.set(&scope, key, "1").await?;
            }
            let set = cx.set_with(&scope, key, "2", full()?.with_expect(expect)).await?;
            check!(set.written, "the first set that expects {expect:?} wrote nothing");
            let before = cx.live(&scope, key).await?;
            cx.advance_ms(1);
            let again = cx.set_with(&scope, key, "2", full()?.with_expect(expect)).await?;
            check!(!again.written && !again.created, "a retry of a set that expects {expect:?}: {again:?}");
            expect_eq!(again.version, set.version, "the version of a retry that expects {expect:?}");
            expect_eq!(
                cx.live(&scope, key).await?,
                before,
                "the entry after a retry that expects {expect:?}"
            );
        }
    }),
    case!("cas.retry.other-result-conflicts", [Kv, Cas], ["VER-7"], |cx, scope: Scope| {
        let version =
            cx.set_with(&scope, "k", r#"{"a":1}"#, full()?.with_expect(Expect::Absent)).await?.version;
        let mut bare = full()?;
        bare.source = None;
        let mut textless = full()?;
        textless.text = None;
        for (what, text, options) in [
            ("another value", r#"{"a":2}"#, full()?),
            ("another spelling", r#"{"a": 1}"#, full()?),
            ("a number spelled otherwise", r#"{"a":1.0}"#, full()?),
            ("other metadata", r#"{"a":1}"#, full()?.with_metadata(Metadata::new().with("city", "oslo"))),
            ("no metadata", r#"{"a":1}"#, full()?.with_metadata(Metadata::new())),
            ("another source", r#"{"a":1}"#, full()?.with_source(source("web")?)),
            ("no source", r#"{"a":1}"#, bare),
            ("another text", r#"{"a":1}"#, full()?.with_text("in oslo")),
            ("no text", r#"{"a":1}"#, textless),
        ] {
            let refused = cx.set_with(&scope, "k", text, options.with_expect(Expect::Absent)).await;
            expect_conflict(refused, Some(version), &format!("a failed precondition with {what}"))?;
        }
    }),
    case!("cas.retry.same-lifetime", [Kv, Cas], ["VER-7"], |cx| {
        cx.stand_still();
        let life = Ttl::After(ms(100));
        for (first, then) in [
            (life, life),
            (life, Ttl::Keep),
            (Ttl::Never, Ttl::Never),
            (Ttl::Keep, Ttl::Never),
            (Ttl::Never, Ttl::Keep),
        ] {
            let again = retry_with(cx, first, then).await??;
            check!(!again.written, "{then:?} over {first:?} was written although it is the same");
            let due = if first == life { cx.now().checked_add(ms(97)) } else { None };
            expect_eq!(again.expires_at, due, "the expiry after a retry with {then:?} over {first:?}");
        }
    }),
    case!("cas.retry.other-lifetime-conflicts", [Kv, Cas], ["VER-7"], |cx| {
        cx.stand_still();
        let life = Ttl::After(ms(100));
        for (first, then) in [
            (life, Ttl::Never),
            (life, Ttl::After(ms(97))),
            (life, Ttl::After(ms(101))),
            (Ttl::Never, life),
            (Ttl::Keep, life),
        ] {
            let result = retry_with(cx, first, then).await?;
            expect_kind!(result, ErrorKind::Conflict, "a failed precondition with {then:?} over {first:?}");
        }
    }),
    case!("cas.set.same-value-is-a-write", [Kv, Cas], ["VER-4", "VER-7"], |cx, scope: Scope| {
        let first = cx.set(&scope, "k", "1").await?;
        cx.advance_ms(1);
        let second = cx.set_with(&scope, "k", "1", expecting(Expect::Version(first.version))).await?;
        check!(
            second.written && second.version > first.version,
            "a set whose precondition holds: {second:?}"
        );
        expect_eq!(
            cx.live(&scope, "k").await?.updated_at,
            cx.now(),
            "updated_at after writing the same value"
        );
        let stale = item_with("k", "2", expecting(Expect::Version(first.version)))?;
        let error = expect_kind!(
            cx.bulk(&scope, vec![stale]).await,
            ErrorKind::Conflict,
            "an item with a stale version"
        );
        expect_eq!(detail(&error, "index"), Some(0), "details.index");
    }),
];

fn expecting(expect: Expect) -> SetOptions {
    SetOptions::default().with_expect(expect)
}

/// Sets `k` until something ends it, then again.
async fn next_version(cx: &Cx, scope: &Scope, last: u64, after: &str) -> CaseResult {
    check!(cx.entry(scope, "k").await?.is_none(), "`k` is still there after {after}");
    let next = cx.set(scope, "k", "1").await?;
    check!(next.version > last, "version {} came after version {last}, across {after}", next.version);
    Ok(())
}

/// Options with everything that a retry compares.
fn full() -> memory_core::Result<SetOptions> {
    Ok(tagged(Metadata::new().with("city", "Oslo")).with_source(source("chat")?).with_text("in Oslo"))
}

/// Sets a fresh key with one lifetime, waits, and retries with another.
async fn retry_with(
    cx: &Cx,
    first: Ttl,
    then: Ttl,
) -> CaseResult<memory_core::Result<memory_core::SetOutcome>> {
    let scope = cx.scope()?;
    let options = |ttl| expecting(Expect::Absent).with_ttl(ttl);
    cx.set_with(&scope, "k", "1", options(first)).await?;
    cx.advance_ms(3);
    Ok(cx.set_with(&scope, "k", "1", options(then)).await)
}
