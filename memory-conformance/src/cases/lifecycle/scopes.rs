//! SCO: the listing and the end of scopes.

use memory_core::{
    BackendExt as _, Cursor, ErrorKind, ListQuery, Scope, ScopeId, ScopeInfo, ScopeKind, ScopesQuery,
    TenantId,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::entries::item;
use crate::cx::{Cx, json, key};

pub(crate) const CASES: &[Case] = &[
    case!("scope.list.of-the-tenant", [Kv], ["SCO-1"], |cx| {
        expect_eq!(
            scopes(cx, &cx.tenant(), ScopesQuery::default()).await?,
            [],
            "scopes of a tenant never written"
        );
        let own = cx.scope_named(ScopeKind::Agent, "own")?;
        cx.bulk(&own, vec![item("a", "1")?, item("bb", "[1,2]")?]).await?;
        for tenant in [cx.other_tenant()?, cx.tenant_below("x")?, cx.tenant_below("/x")?] {
            let foreign = Scope::new(tenant, ScopeKind::Agent, ScopeId::new("foreign")?);
            cx.fill(&foreign, &[("k", "1")]).await?;
        }
        expect_eq!(
            scopes(cx, &cx.tenant(), ScopesQuery::default()).await?,
            [ScopeInfo::new(own, 2, 9)],
            "the scopes with their entries and bytes"
        );
        let foreign = scopes(cx, &cx.other_tenant()?, ScopesQuery::default()).await?;
        expect_eq!(foreign.len(), 1, "scopes of the other tenant");
    }),
    case!("scope.list.order", [Kv], ["SCO-1"], |cx| {
        let mut shuffled = ORDERED;
        cx.random().shuffle(&mut shuffled);
        filled(cx, &shuffled).await?;
        let listed = scopes(cx, &cx.tenant(), ScopesQuery::default()).await?;
        let listed: Vec<(ScopeKind, &str)> =
            listed.iter().map(|info| (info.scope.kind, info.scope.id.as_str())).collect();
        expect_eq!(listed, ORDERED);
    }),
    case!("scope.list.live-only", [Kv], ["SCO-1"], |cx| {
        let all = filled(
            cx,
            &[(ScopeKind::Agent, "deleted"), (ScopeKind::Agent, "dropped"), (ScopeKind::Agent, "kept")],
        )
        .await?;
        let [deleted, dropped, kept] = all.as_slice() else { return Ok(()) };
        let expired = cx.scope_named(ScopeKind::Agent, "expired")?;
        cx.set_with(&expired, "k", "1", cx.expiring(5)).await?;
        cx.set_with(kept, "gone", "1", cx.expiring(5)).await?;
        cx.delete(deleted, "k").await?;
        cx.kv().drop_scope(dropped).await?;
        cx.advance_ms(5);
        let listed = scopes(cx, &cx.tenant(), ScopesQuery::default()).await?;
        expect_eq!(listed, [ScopeInfo::new(kept.clone(), 1, 2)], "the scopes that hold live entries");
    }),
    case!("scope.list.pages", [Kv], ["SCO-2"], |cx| {
        filled(cx, &ORDERED).await?;
        let due: Vec<(ScopeKind, String)> =
            ORDERED.iter().map(|(kind, id)| (*kind, (*id).to_owned())).collect();
        for limit in [1, 2, 5, 6, 11, 12, 13, 1_000] {
            let pages = paged(cx, ScopesQuery::default().with_limit(limit)).await?;
            let lengths: Vec<usize> = pages.iter().map(Vec::len).collect();
            let due_lengths: Vec<usize> = due.chunks(limit).map(<[_]>::len).collect();
            expect_eq!(lengths, due_lengths, "the lengths of pages of {limit}");
            expect_eq!(pages.concat(), due, "the scopes on pages of {limit}");
        }
    }),
    case!("scope.list.cursor-survives-drops", [Kv], ["SCO-2"], |cx| {
        let all = filled(cx, &ORDERED).await?;
        let page = cx.kv().scopes(&cx.tenant(), ScopesQuery::default().with_limit(4)).await?;
        // The scope named by the cursor, and the next one.
        for scope in all.iter().skip(3).take(2) {
            cx.kv().drop_scope(scope).await?;
        }
        filled(cx, &[(ScopeKind::Agent, "A"), (ScopeKind::Run, "b")]).await?;
        let rest = paged(cx, ScopesQuery::default().with_limit(4).with_cursor(page.next)).await?.concat();
        let rest: Vec<(ScopeKind, &str)> = rest.iter().map(|(kind, id)| (*kind, id.as_str())).collect();
        let mut due: Vec<(ScopeKind, &str)> = ORDERED.iter().skip(5).copied().collect();
        due.push((ScopeKind::Run, "b"));
        expect_eq!(rest, due, "the scopes after the cursor");
    }),
    case!("scope.list.limits", [Kv], ["SCO-2"], |cx| {
        let all = filled(cx, &[(ScopeKind::Agent, "a"), (ScopeKind::Agent, "b")]).await?;
        let tenant = cx.tenant();
        let list = |query: ScopesQuery| cx.kv().scopes(&tenant, query);
        let zero = list(ScopesQuery::default().with_limit(0)).await;
        expect_kind!(zero, ErrorKind::InvalidArgument, "a limit of 0");
        let many = list(ScopesQuery::default().with_limit(1_001)).await;
        expect_kind!(many, ErrorKind::TooLarge, "a limit of 1,001");
        for text in ["", "x", "AAAAAAAAAAA", &"A".repeat(10_240)] {
            let listed = list(ScopesQuery::default().with_cursor(Some(Cursor::from_text(text)))).await;
            expect_kind!(listed, ErrorKind::InvalidArgument, "a malformed cursor of {} bytes", text.len());
        }
        let Some(scope) = all.first() else { return Ok(()) };
        cx.fill(scope, &[("l", "1")]).await?;
        let keys = cx.kv().list(scope, ListQuery::default().with_limit(1)).await?.next;
        check!(keys.is_some(), "the first page of two keys has no cursor");
        let listed = list(ScopesQuery::default().with_cursor(keys)).await;
        expect_kind!(listed, ErrorKind::InvalidArgument, "a cursor of keys in a listing of scopes");
    }),
    case!("scope.list.kind", [Kv], ["SCO-3"], |cx| {
        filled(cx, &ORDERED).await?;
        for kind in ScopeKind::ALL {
            let due: Vec<(ScopeKind, String)> = ORDERED
                .iter()
                .filter(|(other, _)| *other == kind)
                .map(|(kind, id)| (*kind, (*id).to_owned()))
                .collect();
            for limit in [1, 100] {
                let pages = paged(cx, ScopesQuery::default().with_kind(kind).with_limit(limit)).await?;
                expect_eq!(pages.concat(), due, "the scopes of kind {kind} on pages of {limit}");
            }
        }
    }),
    case!("scope.drop.removes-all", [Kv], ["SCO-4"], |cx| {
        for kind in ScopeKind::ALL {
            let scope = cx.scope_of(kind)?;
            let items: Vec<_> =
                (0..120).map(|at| item(&format!("{at:03}"), "1")).collect::<memory_core::Result<_>>()?;
            cx.bulk(&scope, items).await?;
            cx.set_with(&scope, "expiring", "1", cx.expiring(60_000)).await?;
            expect_eq!(cx.kv().drop_scope(&scope).await?.entries, 121, "live entries dropped");
            expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys after the drop");
            expect_eq!(
                cx.texts(&scope, &["000", "119"]).await?,
                [None, None],
                "what get_many gives after the drop"
            );
            expect_eq!(cx.export(&scope).await?.len(), 0, "records after the drop");
            check!(cx.set(&scope, "000", "2").await?.created, "a set after the drop did not create");
        }
    }),
    case!("scope.drop.empty-succeeds", [Kv], ["SCO-4"], |cx, scope: Scope| {
        expect_eq!(cx.kv().drop_scope(&scope).await?.entries, 0, "entries of a scope never written");
        cx.set(&scope, "k", "1").await?;
        expect_eq!(cx.kv().drop_scope(&scope).await?.entries, 1, "entries of a scope with one");
        expect_eq!(cx.kv().drop_scope(&scope).await?.entries, 0, "entries of a scope dropped before");
    }),
    case!("scope.drop.leaves-the-rest", [Kv], ["SCO-4", "ISO-1"], |cx| {
        let all = filled(cx, &ORDERED).await?;
        let foreign = Scope::new(cx.other_tenant()?, ScopeKind::Agent, ScopeId::new("a")?);
        cx.fill(&foreign, &[("k", "1")]).await?;
        for (at, scope) in all.iter().enumerate() {
            cx.kv().drop_scope(scope).await?;
            let left = scopes(cx, &cx.tenant(), ScopesQuery::default()).await?.len();
            expect_eq!(left, all.len() - at - 1, "scopes left after the drop of {scope}");
        }
        expect_eq!(cx.text(&foreign, "k").await?.as_deref(), Some("1"), "the other tenant's entry");
    }),
    case!("scope.end-run.removes-its-scope", [Kv], ["SCO-5"], |cx| {
        let names = [
            (ScopeKind::Agent, "r1"),
            (ScopeKind::User, "r1"),
            (ScopeKind::Run, "r1"),
            (ScopeKind::Run, "r1x"),
            (ScopeKind::Run, "R1"),
        ];
        let all = filled(cx, &names).await?;
        let foreign = Scope::new(cx.other_tenant()?, ScopeKind::Run, ScopeId::new("r1")?);
        cx.fill(&foreign, &[("k", "1")]).await?;
        cx.provider().end_run(&cx.tenant(), &ScopeId::new("r1")?).await?;
        for scope in all.iter().chain([&foreign]) {
            let ended =
                scope.kind == ScopeKind::Run && scope.id.as_str() == "r1" && scope.tenant == cx.tenant();
            expect_eq!(
                cx.text(scope, "k").await?.is_none(),
                ended,
                "whether {scope} is gone after its run ended"
            );
        }
    }),
    case!("scope.end-run.twice", [Kv], ["SCO-5"], |cx| {
        let never = cx.scope_of(ScopeKind::Run)?;
        cx.provider().end_run(&never.tenant, &never.id).await?;
        let run = cx.scope_of(ScopeKind::Run)?;
        cx.fill(&run, &[("k", "1")]).await?;
        cx.provider().end_run(&run.tenant, &run.id).await?;
        cx.provider().end_run(&run.tenant, &run.id).await?;
        expect_eq!(cx.all_keys(&run).await?.len(), 0, "keys after the run ended");
    }),
];

async fn scopes(cx: &Cx, tenant: &TenantId, query: ScopesQuery) -> memory_core::Result<Vec<ScopeInfo>> {
    Ok(cx.kv().scopes(tenant, query).await?.scopes)
}

/// Scopes of these kinds and ids, each with one entry.
async fn filled(cx: &Cx, names: &[(ScopeKind, &str)]) -> CaseResult<Vec<Scope>> {
    let mut all = Vec::new();
    for (kind, id) in names {
        let scope = cx.scope_named(*kind, id)?;
        cx.kv().put(&scope, &key("k")?, json("1")?).await?;
        all.push(scope);
    }
    Ok(all)
}

const ORDERED: [(ScopeKind, &str); 12] = [
    (ScopeKind::Agent, "!"),
    (ScopeKind::Agent, "Z"),
    (ScopeKind::Agent, "a"),
    (ScopeKind::Agent, "a:b"),
    (ScopeKind::Agent, "aa"),
    (ScopeKind::Agent, "é"),
    (ScopeKind::User, "B"),
    (ScopeKind::User, "a"),
    (ScopeKind::User, "\u{ffff}"),
    (ScopeKind::User, "🦀"),
    (ScopeKind::Run, "0"),
    (ScopeKind::Run, "a"),
];

/// The ids of each page.
async fn paged(cx: &Cx, mut query: ScopesQuery) -> CaseResult<Vec<Vec<(ScopeKind, String)>>> {
    let mut pages = Vec::new();
    for _ in 0..100 {
        let page = cx.kv().scopes(&cx.tenant(), query.clone()).await?;
        pages.push(
            page.scopes.iter().map(|info| (info.scope.kind, info.scope.id.as_str().to_owned())).collect(),
        );
        match page.next {
            Some(next) => query.cursor = Some(next),
            None => return Ok(pages),
        }
    }
    Err(crate::check::Stop::failed("the listing of scopes never ends"))
}
