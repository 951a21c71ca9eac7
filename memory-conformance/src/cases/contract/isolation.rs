//! ISO: scopes do not affect each other.

use memory_core::{
    BackendExt as _, ErrorKind, ListQuery, OnExisting, Reducer, Scope, ScopeId, ScopeKind, ScopesQuery,
    SetOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::entries::{bytes, detail, entries, item};
use crate::cx::{Cx, hit_keys, json};

pub(crate) const CASES: &[Case] = &[
    case!("iso.same-key.two-entries", [Kv], ["ISO-1", "ISO-2"], |cx| {
        distinct(cx, &neighbours(cx)?).await?;
    }),
    case!("iso.reads.own-scope-only", [Kv], ["ISO-1"], |cx| {
        let scopes = neighbours(cx)?;
        for (at, scope) in scopes.iter().enumerate() {
            cx.set(scope, &format!("key-{at:02}"), &at.to_string()).await?;
        }
        let names: Vec<String> = (0..scopes.len()).map(|at| format!("key-{at:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        for (at, scope) in scopes.iter().enumerate() {
            let own: Vec<Option<String>> =
                (0..scopes.len()).map(|other| (other == at).then(|| at.to_string())).collect();
            expect_eq!(cx.texts(scope, &names).await?, own, "get_many in {scope}");
            let listed = cx.all_keys(scope).await?;
            expect_eq!(listed, [format!("key-{at:02}")], "list in {scope}");
            let exported = cx.export(scope).await?;
            expect_eq!(exported.len(), 1, "records exported from {scope}");
        }
    }),
    case!("iso.writes.leave-the-others", [Kv], ["ISO-1"], |cx| {
        let scopes = neighbours(cx)?;
        for scope in &scopes {
            cx.fill(scope, &[("list", "[1]"), ("n", "1"), ("text", "\"as it was\"")]).await?;
        }
        let Some((busy, others)) = scopes.split_first() else { return Ok(()) };
        let mut before = Vec::new();
        for scope in others {
            before.push(cx.export(scope).await?);
        }
        let record = cx.export(busy).await?;
        cx.advance_ms(5);
        cx.set(busy, "text", "\"changed\"").await?;
        cx.increment(busy, "n", 41).await?;
        cx.update(busy, "list", Reducer::AppendDedupe(json("2")?)).await?;
        cx.bulk(busy, vec![item("text", "\"again\"")?, item("new", "1")?]).await?;
        cx.delete(busy, "n").await?;
        cx.import(busy, record, OnExisting::Replace).await?;
        cx.kv().drop_scope(busy).await?;
        for (scope, before) in others.iter().zip(before) {
            expect_eq!(cx.export(scope).await?, before, "{scope} after writes to {busy}");
        }
    }),
    case!("iso.accesses.own", [Kv], ["ISO-1", "ISO-4"], |cx| {
        let scopes = neighbours(cx)?;
        for scope in &scopes {
            cx.set(scope, "k", "1").await?;
        }
        let Some((read, others)) = scopes.split_first() else { return Ok(()) };
        cx.access(read, "k").await?;
        for scope in others {
            expect_eq!(
                cx.live(scope, "k").await?.access_count,
                0,
                "accesses of {scope} after a read of {read}"
            );
        }
    }),
    // Scopes whose parts, joined by a separator in any order, give the same text.
    case!("iso.ids.separators", [Kv], ["ISO-1"], |cx| {
        let mut scopes = Vec::new();
        for separator in ["/", ":", "|", ".", "_", "-", "%2F", "\u{a0}~"] {
            let kind = format!("{separator}agent{separator}");
            for (tenant, id) in [
                // By tenant, kind and id; by kind, tenant and id.
                (cx.tenant(), format!("x{kind}y")),
                (cx.tenant_below(&format!("{kind}x"))?, "y".to_owned()),
                (cx.tenant(), format!("x{separator}y")),
                (cx.tenant_below(&format!("{separator}x"))?, "y".to_owned()),
            ] {
                scopes.push(Scope::new(tenant, ScopeKind::Agent, ScopeId::new(id)?));
            }
        }
        // Without any separator.
        for (tenant, id) in
            [(cx.tenant(), "xyz"), (cx.tenant_below("x")?, "yz"), (cx.tenant_below("xy")?, "z")]
        {
            scopes.push(Scope::new(tenant, ScopeKind::Agent, ScopeId::new(id)?));
        }
        distinct(cx, &scopes).await?;
    }),
    case!("iso.ids.case", [Kv], ["ISO-1"], |cx| {
        ids(cx, "Ann|ann|ANN|straße|STRASSE|strasse|ſ|s|S|İ|i|I|ı").await?;
    }),
    case!("iso.ids.normal-forms", [Kv], ["ISO-1"], |cx| {
        ids(cx, "caf\u{e9}|cafe\u{301}|cafe|ﬁ|fi|\u{212b}|\u{c5}|①|1|\u{ac00}|\u{1100}\u{1161}").await?;
    }),
    case!("iso.ids.longest", [Kv], ["ISO-1", "KEY-3"], |cx| {
        let id = |last: &str| format!("{}{last}", "a".repeat(256 - last.len()));
        let wide = |last: &str| format!("{}{last}", "é".repeat((256 - last.len()) / 2));
        let mut scopes = Vec::new();
        for id in [id("a"), id("b"), id("aa."), wide("xx"), wide("xy")] {
            scopes.push(cx.scope_named(ScopeKind::Agent, &id)?);
        }
        distinct(cx, &scopes).await?;
    }),
    case!("iso.ids.hostile", [Kv], ["ISO-1", "KEY-3"], |cx| {
        ids(
            cx,
            ".|..|../x|x|x.|/|//|/x|x/|\\|C:|con|%|_|a%|**|'|''|\"|x'; DROP TABLE entries; --|$1|?|{}|\
             null|0|00|-1|1e0|true|x\u{200d}|\u{feff}x|\u{202e}x|🦀|🦀\u{fe0f}|\u{10ffff}|~|x y|x  y|agent|\
             user|run",
        )
        .await?;
    }),
    case!("iso.search.own-hits", [Kv, Lexical], ["ISO-1"], |cx| {
        let scopes = neighbours(cx)?;
        for (at, scope) in scopes.iter().enumerate() {
            cx.say(scope, &format!("key-{at:02}"), "the lighthouse keeper drinks tea").await?;
        }
        for (at, scope) in scopes.iter().enumerate() {
            let hits = cx.words(scope, "lighthouse tea").await?;
            expect_eq!(hit_keys(&hits), [format!("key-{at:02}")], "hits in {scope}");
        }
    }),
    case!("iso.search.scores-unmoved", [Kv, Lexical], ["ISO-3"], |cx| {
        let scopes = neighbours(cx)?;
        let Some((own, others)) = scopes.split_first() else { return Ok(()) };
        cx.say_all(own, &[("a", "ann drinks green tea"), ("b", "bob drinks coffee"), ("c", "the weather")])
            .await?;
        let scores = |hits: Vec<memory_core::Hit>| -> Vec<(String, f64)> {
            hits.iter().map(|hit| (hit.entry.key.to_string(), hit.score)).collect()
        };
        let before = scores(cx.words(own, "who drinks tea").await?);
        for scope in others {
            let sentences =
                [("a", "tea tea tea"), ("d", "drinks and more drinks, a long text about drinks"), ("e", "x")];
            cx.say_all(scope, &sentences).await?;
            let after = scores(cx.words(own, "who drinks tea").await?);
            expect_eq!(after, before, "keys and scores in {own} after inserts into {scope}");
        }
    }),
    case!("iso.versions.own", [Kv], ["ISO-4"], |cx| {
        let mut histories = Vec::new();
        for kind in [ScopeKind::Agent, ScopeKind::User] {
            let scope = cx.scope_of(kind)?;
            let mut history = Vec::new();
            for key in ["a", "a", "b", "a"] {
                history.push(cx.set(&scope, key, "1").await?.version);
                // Writes elsewhere have no effect.
                let elsewhere = cx.scope()?;
                cx.fill(&elsewhere, &[("a", "1"), ("b", "1")]).await?;
                let foreign = Scope::new(cx.other_tenant()?, kind, scope.id.clone());
                cx.set(&foreign, "a", "1").await?;
            }
            histories.push(history);
        }
        let [first, second] = histories.as_slice() else { return Ok(()) };
        expect_eq!(second, first, "versions of the same history in a second scope");
    }),
    case!("iso.counts.own", [Kv, Stats], ["ISO-3", "ISO-4"], |cx| {
        let scopes = neighbours(cx)?;
        let Some((own, others)) = scopes.split_first() else { return Ok(()) };
        cx.fill(own, &[("a", "1"), ("b", "[1,2]")]).await?;
        let before = cx.kv().stats(own).await?;
        for scope in others {
            cx.fill(scope, &[("a", "\"longer than the other\""), ("c", "1")]).await?;
            expect_eq!(cx.kv().stats(own).await?, before, "stats of {own} after inserts into {scope}");
        }
    }),
    case!("iso.quota.own", [Kv, Quotas], ["ISO-4"], |cx| {
        let scopes = neighbours(cx)?;
        for quota in [entries(1), bytes(5)] {
            for scope in &scopes {
                cx.kv().drop_scope(scope).await?;
            }
            for scope in &scopes {
                let options = SetOptions::default().with_quota(quota);
                cx.set_with(scope, "k", "1234", options.clone()).await?;
                let refused = cx.set_with(scope, "l", "1234", options).await;
                let error = expect_kind!(refused, ErrorKind::QuotaExceeded, "a second entry in {scope}");
                let used = if quota.max_entries.is_some() { 1 } else { 5 };
                expect_eq!(detail(&error, "used"), Some(used), "details.used in {scope}");
            }
        }
    }),
    case!("iso.cursor.foreign", [Kv], ["ISO-5"], |cx| {
        let scopes = neighbours(cx)?;
        for scope in &scopes {
            cx.fill(scope, &[("a1", "1"), ("a2", "2"), ("a3", "3")]).await?;
        }
        let Some((own, others)) = scopes.split_first() else { return Ok(()) };
        let first = |prefix: &str| ListQuery::prefix(prefix).with_limit(1);
        let cursor = cx.kv().list(own, first("a")).await?.next;
        check!(cursor.is_some(), "the first page of three has no cursor");
        expect_eq!(cx.keys(own, first("a").with_cursor(cursor.clone())).await?, ["a2"], "the second page");
        for scope in others {
            let listed = cx.kv().list(scope, first("a").with_cursor(cursor.clone())).await;
            expect_kind!(listed, ErrorKind::InvalidArgument, "a cursor of {own} in {scope}");
        }
        for prefix in ["", "a1", "A", "b"] {
            let listed = cx.kv().list(own, first(prefix).with_cursor(cursor.clone())).await;
            expect_kind!(listed, ErrorKind::InvalidArgument, "a cursor of prefix `a` with prefix `{prefix}`");
        }
    }),
    case!("iso.cursor.foreign-tenant", [Kv], ["ISO-5"], |cx| {
        for scope in &neighbours(cx)? {
            cx.kv().put(scope, &crate::cx::key("k")?, json("1")?).await?;
        }
        let query = ScopesQuery::default().with_limit(2);
        let cursor = cx.kv().scopes(&cx.tenant(), query.clone()).await?.next;
        check!(cursor.is_some(), "the first page of six scopes has no cursor");
        let listed = cx.kv().scopes(&cx.other_tenant()?, query.with_cursor(cursor.clone())).await;
        expect_kind!(listed, ErrorKind::InvalidArgument, "another tenant's cursor of scopes");
        let own = cx.scope_named(ScopeKind::Agent, "one")?;
        let listed = cx.kv().list(&own, ListQuery::default().with_cursor(cursor)).await;
        expect_kind!(listed, ErrorKind::InvalidArgument, "a cursor of scopes in a listing of keys");
    }),
];

/// Scopes that differ from their neighbours only in tenant, kind or id.
fn neighbours(cx: &Cx) -> CaseResult<Vec<Scope>> {
    let mut scopes = Vec::new();
    for tenant in [cx.tenant(), cx.other_tenant()?] {
        for kind in ScopeKind::ALL {
            for id in ["one", "two"] {
                scopes.push(Scope::new(tenant.clone(), kind, ScopeId::new(id)?));
            }
        }
    }
    Ok(scopes)
}

/// Proves that no two scopes share a store.
async fn distinct(cx: &Cx, scopes: &[Scope]) -> CaseResult {
    for (at, scope) in scopes.iter().enumerate() {
        let set = cx.set(scope, "k", &at.to_string()).await?;
        check!(set.created, "`k` of {scope} was there before it was set");
    }
    for (at, scope) in scopes.iter().enumerate() {
        expect_eq!(cx.text(scope, "k").await?, Some(at.to_string()), "the contents of {scope}");
    }
    let Some((first, others)) = scopes.split_first() else { return Ok(()) };
    cx.kv().drop_scope(first).await?;
    for scope in others {
        expect_eq!(cx.all_keys(scope).await?, ["k"], "the keys of {scope} after {first} was dropped");
    }
    Ok(())
}

/// The ids are separated by bars.
async fn ids(cx: &Cx, ids: &str) -> CaseResult {
    let mut scopes = Vec::new();
    for id in ids.split('|') {
        scopes.push(cx.scope_named(ScopeKind::User, id)?);
    }
    for id in ids.split('|') {
        scopes.push(Scope::new(cx.tenant_below(id)?, ScopeKind::User, ScopeId::new("u")?));
    }
    distinct(cx, &scopes).await
}
