//! MOM: a read snapshot of all entries.

use std::sync::Arc;

use memory_core::{ErrorKind, ReadSnapshot, Record, Scope, ScopeId, ScopeKind, ScopesQuery, TenantId};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::stream;

pub(crate) const CASES: &[Case] = &[
    case!("moment.exports.as-it-was", [Kv, ReadSnapshot], ["MOM-1"], |cx| {
        let scope = filled(cx).await?;
        let before = cx.export(&scope).await?;
        let moment = cx.provider().read_snapshot().await?;
        cx.set(&scope, "k0000", "2").await?;
        cx.delete(&scope, "k0300").await?;
        cx.set(&scope, "new", "1").await?;
        expect_eq!(exported(&moment, &scope).await?, before, "records of a moment that was begun before");
        cx.kv().drop_scope(&scope).await?;
        expect_eq!(exported(&moment, &scope).await?, before, "records of a scope that was dropped since");
        check!(cx.export(&scope).await?.is_empty(), "records of the dropped scope");
    }),
    case!(
        "moment.exports.over-all-scopes",
        [Kv, ReadSnapshot],
        ["MOM-1"],
        |cx, one: Scope, other: Scope, none: Scope| {
            for scope in [&one, &other] {
                cx.set(scope, "total", "1").await?;
            }
            let moment = cx.provider().read_snapshot().await?;
            let first = exported(&moment, &one).await?;
            for scope in [&one, &other, &none] {
                cx.set(scope, "total", "2").await?;
            }
            for (scope, what) in [(&one, "read before the write"), (&other, "not read before the write")] {
                let records = exported(&moment, scope).await?;
                let values: Vec<&str> = records.iter().map(|record| record.entry.value.as_str()).collect();
                expect_eq!(values, ["1"], "the value of a scope that was {what}");
            }
            expect_eq!(exported(&moment, &one).await?, first, "the same scope, twice");
            check!(
                exported(&moment, &none).await?.is_empty(),
                "a scope that was first written since has records"
            );
            let later = cx.provider().read_snapshot().await?;
            expect_eq!(exported(&later, &none).await?.len(), 1, "records of a later moment");
        }
    ),
    case!(
        "moment.lists.scopes-and-tenants",
        [Kv, ReadSnapshot],
        ["MOM-2"],
        |cx, one: Scope, other: Scope| {
            for scope in [&one, &other] {
                cx.set(scope, "k", "1").await?;
            }
            let theirs = Scope::new(cx.other_tenant()?, ScopeKind::User, ScopeId::new("later")?);
            let moment = cx.provider().read_snapshot().await?;
            cx.kv().drop_scope(&one).await?;
            let new = cx.scope()?;
            cx.set(&new, "k", "1").await?;
            cx.set(&theirs, "k", "1").await?;
            let mut wanted = vec![one.clone(), other.clone()];
            wanted.sort();
            expect_eq!(listed(&moment, &cx.tenant()).await?, wanted, "the scopes of a moment");
            check!(listed(&moment, &theirs.tenant).await?.is_empty(), "a tenant that came later has scopes");
            let after = cx.tenant();
            let named = moment.tenants(Some(&after), 1_000).await?;
            check!(!named.contains(&theirs.tenant), "a tenant that came later is named");
            let own = moment.tenants(None, 1_000).await?;
            check!(own.contains(&after) || own.len() == 1_000, "a tenant that had scopes is not named");
        }
    ),
    case!("moment.lists.pages", [Kv, ReadSnapshot], ["MOM-2"], |cx| {
        let mut scopes = Vec::new();
        for _ in 0..5 {
            let scope = cx.scope()?;
            cx.set(&scope, "k", "1").await?;
            scopes.push(scope);
        }
        scopes.sort();
        let moment = cx.provider().read_snapshot().await?;
        let (mut found, mut cursor) = (Vec::new(), None);
        loop {
            let query = ScopesQuery::default().with_limit(2).with_cursor(cursor);
            let page = moment.scopes(&cx.tenant(), query).await?;
            found.extend(page.scopes.into_iter().map(|info| info.scope));
            // An entry written between two pages is in none.
            let new = cx.scope()?;
            cx.set(&new, "k", "1").await?;
            cursor = page.next;
            if cursor.is_none() {
                break;
            }
        }
        expect_eq!(found, scopes, "scopes of a moment, two a page");
        for (limit, kind) in [(0, ErrorKind::InvalidArgument), (1_001, ErrorKind::TooLarge)] {
            let query = ScopesQuery::default().with_limit(limit);
            expect_kind!(moment.scopes(&cx.tenant(), query).await, kind, "a page of {limit} scopes");
            expect_kind!(moment.tenants(None, limit).await, kind, "a page of {limit} tenants");
        }
    }),
    case!("moment.others.write-on", [Kv, ReadSnapshot], ["MOM-3"], |cx| {
        let scope = filled(cx).await?;
        let moment = cx.provider().read_snapshot().await?;
        let mut records = moment.export_scope(&scope).await?;
        let first = stream::next(&mut records).await.transpose()?;
        check!(first.is_some(), "a moment's export is empty");
        for round in 0..20 {
            cx.set(&scope, &format!("k{round:04}"), "2").await?;
        }
        expect_eq!(cx.text(&scope, "k0001").await?.as_deref(), Some("2"), "a value written within a moment");
        let rest = stream::collect(records).await?;
        expect_eq!(rest.len() + 1, MANY, "records of the moment's export");
        check!(
            rest.iter().all(|record| record.entry.value.as_str() == "1"),
            "a record of the moment is of later"
        );
    }),
];

async fn exported(moment: &Arc<dyn ReadSnapshot>, scope: &Scope) -> CaseResult<Vec<Record>> {
    Ok(stream::collect(moment.export_scope(scope).await?).await?)
}

async fn listed(moment: &Arc<dyn ReadSnapshot>, tenant: &TenantId) -> CaseResult<Vec<Scope>> {
    let page = moment.scopes(tenant, ScopesQuery::default().with_limit(1_000)).await?;
    Ok(page.scopes.into_iter().map(|info| info.scope).collect())
}

/// More than any provider reads ahead.
const MANY: usize = 600;

async fn filled(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let names: Vec<String> = (0..MANY).map(|at| format!("k{at:04}")).collect();
    cx.fill(&scope, &names.iter().map(|name| (name.as_str(), "1")).collect::<Vec<_>>()).await?;
    Ok(scope)
}
