//! DEL: gone means gone.

use memory_core::entry::value_sha256;
use memory_core::{DeleteOptions, Expect, ListQuery, Scope, ScopesQuery};

use crate::case::{Case, case};
use crate::check::{check, expect_eq};
use crate::cx::entries::expect_conflict;
use crate::cx::{json, key};

pub(crate) const CASES: &[Case] = &[
    case!("del.entry.removes", [Kv], ["DEL-1", "DEL-4"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1"), ("b", "2"), ("c", "3")]).await?;
        check!(cx.delete(&scope, "b").await?, "a live entry was not there to delete");
        check!(cx.entry(&scope, "b").await?.is_none(), "get gave a deleted entry");
        expect_eq!(cx.texts(&scope, &["a", "b"]).await?, [Some("1".to_owned()), None], "by get_many");
        expect_eq!(cx.keys(&scope, ListQuery::default()).await?, ["a", "c"], "by list");
        let exported = cx.export(&scope).await?;
        let exported: Vec<&str> = exported.iter().map(|record| record.entry.key.as_str()).collect();
        expect_eq!(exported, ["a", "c"], "by export");
        cx.delete(&scope, "a").await?;
        cx.delete(&scope, "c").await?;
        let scopes = cx.kv().scopes(&cx.tenant(), ScopesQuery::default()).await?.scopes;
        expect_eq!(scopes.len(), 0, "scopes left after the last entry was deleted");
    }),
    case!("del.absent.succeeds", [Kv], ["DEL-2"], |cx, scope: Scope| {
        check!(!cx.delete(&scope, "k").await?, "a key never set was there to delete");
        cx.set(&scope, "k", "1").await?;
        check!(!cx.delete(&scope, "K").await?, "`K` was deleted although only `k` exists");
        check!(cx.delete(&scope, "k").await?, "a live entry was not there to delete");
        check!(!cx.delete(&scope, "k").await?, "an entry was there to delete twice");
    }),
    case!("del.expect.as-for-set", [Kv, Cas], ["DEL-3", "VER-6"], |cx, scope: Scope| {
        let k = key("k")?;
        let digest = Expect::Sha256(value_sha256(&json("1")?));
        for by_digest in [false, true] {
            let version = cx.set(&scope, "k", "1").await?.version;
            let before = cx.live(&scope, "k").await?;
            for expect in
                [Expect::Absent, Expect::Version(version + 1), Expect::Version(0), Expect::Sha256([0; 32])]
            {
                let refused = cx.kv().delete(&scope, &k, DeleteOptions::expecting(expect)).await;
                expect_conflict(refused, Some(version), &format!("a delete that expects {expect:?}"))?;
                expect_eq!(cx.live(&scope, "k").await?, before, "the entry after the conflict");
            }
            let holds = if by_digest { digest } else { Expect::Version(version) };
            let outcome = cx.kv().delete(&scope, &k, DeleteOptions::expecting(holds)).await?;
            check!(outcome.deleted, "a delete that expects {holds:?} deleted nothing");
            check!(
                cx.entry(&scope, "k").await?.is_none(),
                "the entry is there after a delete that expects {holds:?}"
            );
        }
    }),
    case!("del.expect.nothing-there-succeeds", [Kv, Cas], ["DEL-3"], |cx, scope: Scope| {
        let version = cx.set(&scope, "k", "1").await?.version;
        cx.delete(&scope, "k").await?;
        for expect in [Expect::Absent, Expect::Version(version), Expect::Sha256([0; 32])] {
            let outcome = cx.kv().delete(&scope, &key("k")?, DeleteOptions::expecting(expect)).await?;
            check!(!outcome.deleted, "a delete that expects {expect:?} of nothing deleted something");
        }
    }),
    case!("del.entry.not-found", [Kv, Lexical], ["DEL-4", "SRC-2"], |cx, scope: Scope| {
        cx.say_all(&scope, &[("a", "green tea"), ("b", "green tea"), ("c", "coffee")]).await?;
        cx.delete(&scope, "a").await?;
        let hits = cx.words(&scope, "green tea").await?;
        expect_eq!(crate::cx::hit_keys(&hits), ["b"]);
        let control = cx.scope()?;
        cx.say_all(&control, &[("b", "green tea"), ("c", "coffee")]).await?;
        let due = cx.words(&control, "green tea").await?;
        let scores = |hits: &[memory_core::Hit]| -> Vec<f64> { hits.iter().map(|hit| hit.score).collect() };
        expect_eq!(scores(&hits), scores(&due), "the score, which the deleted entry must not change");
    }),
];
