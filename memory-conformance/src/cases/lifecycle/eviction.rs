//! GC, RUN: use times of scopes, eviction, and the fence of ended runs.

use memory_core::sql::SqlScopesQuery;
use memory_core::{
    BulkOptions, Cursor, DriftCheck, DriftPolicy, ErrorKind, EvictOutcome, Expect, GetOptions, ImportOptions,
    Kept, ListQuery, NewEntry, Quota, Record, Reducer, Scope, ScopeId, ScopeKind, ScopeUse, ScopeUsesQuery,
    ScopesQuery, SearchQuery, Seen, SetOptions, TenantId, Timestamp, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check, expect_eq, expect_kind, expect_some};
use crate::cx::entries::item;
use crate::cx::{Cx, json, key};
use crate::stream;

pub(crate) const CASES: &[Case] = &[
    case!("gc.uses.of-the-tenant", [Kv, Eviction], ["GC-1"], |cx| {
        expect_eq!(
            uses(cx, &cx.tenant(), ScopeUsesQuery::default()).await?,
            [],
            "uses of a tenant never written"
        );
        let due = filled(cx).await?;
        let foreign = Scope::new(cx.other_tenant()?, ScopeKind::Agent, ScopeId::new("a")?);
        cx.fill(&foreign, &[("k", "1")]).await?;
        let empty = cx.scope_named(ScopeKind::User, "emptied")?;
        cx.fill(&empty, &[("k", "1")]).await?;
        cx.delete(&empty, "k").await?;
        let found = uses(cx, &cx.tenant(), ScopeUsesQuery::default()).await?;
        let scopes: Vec<&Scope> = found.iter().map(|found| &found.scope).collect();
        expect_eq!(scopes, due.iter().collect::<Vec<_>>(), "the scopes, in order");
        for found in &found {
            expect_eq!(
                (found.entry_bytes, found.sql_bytes, found.bytes()),
                (9, 0, 9),
                "the bytes of {}",
                found.scope
            );
            is_of(found, cx.now(), "writing")?;
        }
        let users =
            uses(cx, &cx.tenant(), ScopeUsesQuery::default().with_kind(Some(ScopeKind::User))).await?;
        expect_eq!(users.len(), 2, "scopes of users");
    }),
    case!("gc.uses.pages", [Kv, Eviction], ["GC-2", "GC-1"], |cx| {
        let due = filled(cx).await?;
        for limit in [1, 2, 6, 7, 8] {
            let mut query = ScopeUsesQuery::default().with_limit(limit);
            let mut found = Vec::new();
            loop {
                let page = cx.provider().scope_uses(&cx.tenant(), query.clone()).await?;
                check!(page.scopes.len() <= limit, "a page of {limit} holds {}", page.scopes.len());
                check!(found.len() < due.len(), "the listing never ends");
                found.extend(page.scopes.into_iter().map(|found| found.scope));
                match page.next {
                    Some(next) => query.cursor = Some(next),
                    None => break,
                }
            }
            expect_eq!(found, due, "the scopes on pages of {limit}");
        }
    }),
    case!("gc.uses.limits", [Kv, Eviction], ["GC-2"], |cx| {
        filled(cx).await?;
        let list = |query: ScopeUsesQuery| async move { cx.provider().scope_uses(&cx.tenant(), query).await };
        expect_kind!(
            list(ScopeUsesQuery::default().with_limit(0)).await,
            ErrorKind::InvalidArgument,
            "a limit of 0"
        );
        expect_kind!(
            list(ScopeUsesQuery::default().with_limit(1_001)).await,
            ErrorKind::TooLarge,
            "a limit of 1,001"
        );
        for text in ["", "x", "AAAAAAAAAAA"] {
            let query = ScopeUsesQuery::default().with_cursor(Some(Cursor::from_text(text)));
            expect_kind!(list(query).await, ErrorKind::InvalidArgument, "the cursor `{text}`");
        }
        let page = cx.provider().scope_uses(&cx.tenant(), ScopeUsesQuery::default().with_limit(1)).await?;
        let other = cx.other_tenant()?;
        let foreign =
            cx.provider().scope_uses(&other, ScopeUsesQuery::default().with_cursor(page.next)).await;
        expect_kind!(foreign, ErrorKind::InvalidArgument, "a cursor of another tenant");
    }),
    case!("gc.uses.each-counts", [Kv, Eviction], ["GC-3", "GC-4"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let kv = cx.kv();
        for what in
            ["get", "get_many", "list", "set", "increment", "update", "bulk_insert", "delete", "import"]
        {
            cx.advance_ms(LONG);
            match what {
                "get" => drop(kv.get(&scope, &key("k")?, GetOptions::default()).await?),
                "get_many" => drop(kv.get_many(&scope, &[key("k")?], GetOptions::default()).await?),
                "list" => drop(kv.list(&scope, ListQuery::default()).await?),
                "set" => drop(cx.set(&scope, "k", "2").await?),
                "increment" => drop(cx.increment(&scope, "n", 1).await?),
                "update" => drop(
                    kv.update(&scope, &key("o")?, Reducer::Merge(json("{}")?), UpdateOptions::default())
                        .await?,
                ),
                "bulk_insert" => drop(cx.bulk(&scope, vec![item("b", "1")?]).await?),
                "delete" => {
                    check!(cx.delete(&scope, "b").await?, "a key just written was not there");
                }
                _ => {
                    let record = Record::from(memory_core::Entry::new(key("i")?, json("1")?, 1, cx.now()));
                    let records = stream::records(vec![Ok(record)]);
                    kv.import_scope(&scope, records, ImportOptions::default()).await?;
                }
            }
            is_of(&use_of(cx, &scope).await?, cx.now(), what)?;
        }
    }),
    case!("gc.uses.searches-count", [Kv, Lexical, Eviction], ["GC-3", "GC-4"], |cx, scope: Scope| {
        cx.say(&scope, "k", "some words").await?;
        cx.advance_ms(LONG);
        cx.find(&scope, SearchQuery::new("words").with_mode(memory_core::SearchMode::Lexical)).await?;
        is_of(&use_of(cx, &scope).await?, cx.now(), "search")?;
    }),
    case!("gc.uses.looking-is-none", [Kv, Eviction], ["GC-4"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let written = cx.now();
        cx.advance_ms(LONG);
        use_of(cx, &scope).await?;
        cx.kv().scopes(&cx.tenant(), ScopesQuery::default()).await?;
        cx.export(&scope).await?;
        if cx.capabilities().stats {
            cx.kv().stats(&scope).await?;
        }
        if !cx.capabilities().drift.is_empty() {
            cx.kv().drift_state(&scope).await?;
        }
        is_of(&use_of(cx, &scope).await?, written, "looking from outside")?;
        is_evicted(evict(cx, &scope, before(cx.now(), 1)).await?, "a scope that was only looked at")
            .map(drop)?;
    }),
    case!("gc.evict.idle-goes", [Kv, Eviction], ["GC-5"], |cx| {
        for kind in ScopeKind::ALL {
            let scope = cx.scope_of(kind)?;
            let items: Vec<_> = (0..300)
                .map(|at| item(&format!("{at:03}"), "\"some words\""))
                .collect::<memory_core::Result<_>>()?;
            cx.bulk(&scope, items).await?;
            let held = use_of(cx, &scope).await?.bytes();
            cx.advance_ms(LONG);
            let bytes = is_evicted(evict(cx, &scope, before(cx.now(), 1_000)).await?, "an idle scope")?;
            expect_eq!(bytes, held, "bytes of the evicted scope");
            expect_eq!(cx.all_keys(&scope).await?.len(), 0, "keys after the eviction");
            expect_eq!(cx.export(&scope).await?.len(), 0, "records after the eviction");
            expect_eq!(
                cx.texts(&scope, &["000", "299"]).await?,
                [None, None],
                "what is read after the eviction"
            );
            if cx.capabilities().lexical_search {
                expect_eq!(cx.words(&scope, "words").await?.len(), 0, "hits after the eviction");
            }
            expect_eq!(
                uses(cx, &cx.tenant(), ScopeUsesQuery::default()).await?,
                [],
                "scopes after the eviction"
            );
            let again = evict(cx, &scope, cx.now()).await?;
            expect_eq!(again, EvictOutcome::Kept(Kept::Absent), "evicting it again");
        }
    }),
    case!("gc.evict.from-the-latest-use", [Kv, Eviction], ["GC-3", "GC-6"], |cx, scope: Scope| {
        cx.fill(&scope, &[("k", "1")]).await?;
        let found = use_of(cx, &scope).await?;
        check!(
            found.last_used_at <= found.latest_use && found.latest_use.as_millis() >= cx.now().as_millis(),
            "the latest reported use, {}, is before the last, {}",
            found.latest_use,
            cx.now()
        );
        cx.advance_ms(LONG);
        let early = evict(cx, &scope, before(found.latest_use, 1)).await?;
        let kept = EvictOutcome::Kept(Kept::Used { last_used_at: found.last_used_at });
        expect_eq!(early, kept, "evicting a millisecond before the latest use");
        is_evicted(evict(cx, &scope, found.latest_use).await?, "a scope, from its latest use on,")?;
    }),
    case!("gc.evict.used-stays", [Kv, Eviction], ["GC-6"], |cx, scope: Scope| {
        cx.fill(&scope, &[("k", "1"), ("l", "2")]).await?;
        cx.advance_ms(LONG);
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("1"));
        let read = cx.now();
        for since in [before(read, 1), before(read, 1_000)] {
            match evict(cx, &scope, since).await? {
                EvictOutcome::Kept(Kept::Used { last_used_at }) => {
                    is_of(&ScopeUse::new(scope.clone(), 0, 0, last_used_at), read, "a read")?;
                }
                other => return Err(Stop::failed(format_args!("a scope read after that moment: {other:?}"))),
            }
        }
        expect_eq!(cx.all_keys(&scope).await?, ["k", "l"], "keys of a scope that is not evicted");
        cx.advance_ms(LONG);
        cx.set(&scope, "k", "3").await?;
        let kept = evict(cx, &scope, before(cx.now(), 1)).await?;
        check!(!kept.is_evicted(), "a scope just written was evicted");
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("3"));
    }),
    case!("gc.evict.used-through-another-handle", [Kv, Eviction], ["GC-3", "GC-6"], |cx, scope: Scope| {
        let other = cx.on(cx.store().another_handle().await?);
        cx.set(&scope, "k", "1").await?;
        // The other handle may hold some of these uses in memory, whatever its slack.
        for minutes in [1, 2, 5, 20] {
            let since = cx.now();
            cx.advance_ms(minutes * 60_000);
            expect_eq!(other.text(&scope, "k").await?.as_deref(), Some("1"));
            let found = use_of(cx, &scope).await?;
            is_of(&found, cx.now(), "a read through another handle")?;
            check!(found.latest_use >= cx.now(), "the latest use is before that of another handle");
            let outcome = evict(cx, &scope, since).await?;
            check!(!outcome.is_evicted(), "a scope in use through another handle was evicted");
        }
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("1"));
    }),
    case!("gc.evict.absent", [Kv, Eviction], ["GC-8"], |cx, scope: Scope| {
        expect_eq!(
            evict(cx, &scope, cx.now()).await?,
            EvictOutcome::Kept(Kept::Absent),
            "a scope never written"
        );
        cx.set(&scope, "k", "1").await?;
        cx.delete(&scope, "k").await?;
        cx.advance_ms(LONG);
        expect_eq!(
            evict(cx, &scope, cx.now()).await?,
            EvictOutcome::Kept(Kept::Absent),
            "a scope without entries"
        );
        expect_eq!(uses(cx, &cx.tenant(), ScopeUsesQuery::default()).await?, [], "scopes afterwards");
    }),
    case!("gc.evict.leaves-the-rest", [Kv, Eviction], ["GC-9"], |cx| {
        let all = filled(cx).await?;
        let foreign = Scope::new(cx.other_tenant()?, ScopeKind::Agent, ScopeId::new("a")?);
        cx.fill(&foreign, &[("k", "1")]).await?;
        cx.advance_ms(LONG);
        for (at, scope) in all.iter().enumerate() {
            is_evicted(evict(cx, scope, before(cx.now(), 1)).await?, "an idle scope")?;
            let left: Vec<Scope> = uses(cx, &cx.tenant(), ScopeUsesQuery::default())
                .await?
                .into_iter()
                .map(|found| found.scope)
                .collect();
            expect_eq!(
                left,
                all.iter().skip(at + 1).cloned().collect::<Vec<_>>(),
                "scopes left after {scope}"
            );
        }
        expect_eq!(cx.text(&foreign, "k").await?.as_deref(), Some("1"), "the other tenant's entry");
    }),
    case!("gc.evict.begins-anew", [Kv, Eviction], ["GC-10"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let last = cx.set(&scope, "k", "2").await?.version;
        cx.advance_ms(LONG);
        is_evicted(evict(cx, &scope, before(cx.now(), 1)).await?, "an idle scope")?;
        let anew = cx.set(&scope, "k", "3").await?;
        check!(anew.created, "a set after the eviction did not create");
        check!(anew.version > last, "version {} is reused after {last}", anew.version);
        expect_eq!(cx.all_keys(&scope).await?, ["k"]);
        let kept = evict(cx, &scope, before(cx.now(), 1)).await?;
        check!(!kept.is_evicted(), "a recreated scope was evicted immediately");
    }),
    case!("gc.evict.never-takes-a-write" * 12, [Kv, Eviction], ["GC-11"], |cx, scope: Scope| {
        cx.fill(&scope, &[("a", "1"), ("b", "1")]).await?;
        cx.advance_ms(LONG);
        let since = before(cx.now(), 1);
        let (to, of) = (scope.clone(), scope.clone());
        let done = cx.threads::<memory_core::Result<bool>>(vec![
            Box::pin(async move { cx.set(&to, "new", "2").await.map(|_| false) }),
            Box::pin(async move { Ok(evict(cx, &of, since).await?.is_evicted()) }),
        ])?;
        let mut evicted = false;
        for done in done {
            evicted |= done?;
        }
        expect_eq!(cx.text(&scope, "new").await?.as_deref(), Some("2"), "an acknowledged write");
        let old = cx.texts(&scope, &["a", "b"]).await?;
        let due = if evicted { [None, None] } else { [Some("1".to_owned()), Some("1".to_owned())] };
        expect_eq!(old, due, "the rest of the scope, whose eviction was reported as {evicted}");
    }),
    case!("gc.evict.takes-the-database", [Kv, Sql, Eviction], ["GC-5", "GC-1"], |cx| {
        for (kind, entries) in [(ScopeKind::Agent, true), (ScopeKind::User, false), (ScopeKind::Run, true)] {
            let scope = cx.scope_of(kind)?;
            let db = cx.database_of(scope.clone())?;
            db.exec("CREATE TABLE t (n INTEGER)").await?;
            db.exec("INSERT INTO t VALUES (1)").await?;
            if entries {
                cx.set(&scope, "k", "1").await?;
            }
            let found = use_of(cx, &scope).await?;
            check!(found.sql_bytes > 0, "the database of a {kind} scope has no bytes");
            expect_eq!(found.entry_bytes > 0, entries, "whether there are bytes of entries");
            cx.advance_ms(LONG);
            let bytes =
                is_evicted(evict(cx, &scope, before(cx.now(), 1)).await?, "an idle scope with a database")?;
            check!(bytes > 0, "an evicted database had no bytes");
            expect_eq!(cx.text(&scope, "k").await?, None, "an entry after the eviction");
            expect_kind!(db.query("SELECT * FROM t").await, ErrorKind::InvalidArgument, "an evicted table");
            let databases = cx.sql().sql_scopes(&cx.tenant(), SqlScopesQuery::default()).await?;
            expect_eq!(databases.scopes.len(), 0, "databases after the eviction");
            expect_eq!(
                uses(cx, &cx.tenant(), ScopeUsesQuery::default()).await?,
                [],
                "scopes after the eviction"
            );
            db.exec("CREATE TABLE t (n INTEGER)").await?;
            expect_eq!(db.count("t").await?, 0, "rows of a recreated database");
            cx.sql().drop_sql_scope(&scope).await?;
        }
    }),
    case!("gc.evict.open-transaction-stays", [Kv, Sql, SqlTransactions, Eviction], ["GC-7"], |cx| {
        let other = cx.store().another_handle().await.ok().map(|store| cx.on(store));
        for holder in [Some(cx), other.as_ref()].into_iter().flatten() {
            let scope = cx.scope()?;
            let db = holder.database_of(scope.clone())?;
            db.exec("CREATE TABLE t (n INTEGER)").await?;
            holder.set(&scope, "k", "1").await?;
            cx.advance_ms(LONG);
            let (tx, _) = db.begin().await?;
            tx.exec("INSERT INTO t VALUES (1)").await?;
            cx.advance_ms(LONG);
            let kept = evict(cx, &scope, before(cx.now(), 1)).await?;
            expect_eq!(kept, EvictOutcome::Kept(Kept::InUse), "a scope with an open transaction");
            expect_eq!(
                cx.text(&scope, "k").await?.as_deref(),
                Some("1"),
                "an entry in a scope with an open transaction"
            );
            tx.exec("INSERT INTO t VALUES (2)").await?;
            tx.commit().await?;
            expect_eq!(db.count("t").await?, 2, "rows of a transaction that was not interrupted");
            cx.advance_ms(LONG);
            is_evicted(evict(cx, &scope, before(cx.now(), 1)).await?, "a scope whose transaction has ended")?;
        }
    }),
    case!("gc.uses.statements-count", [Kv, Sql, Eviction], ["GC-3", "GC-4"], |cx, scope: Scope| {
        let db = cx.database_of(scope.clone())?;
        cx.advance_ms(LONG);
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        // The first statement creates the database, and nothing else reveals the scope.
        is_of(&use_of(cx, &scope).await?, cx.now(), "the first statement")?;
        for statement in ["INSERT INTO t VALUES (1)", "SELECT n FROM t"] {
            cx.advance_ms(LONG);
            if statement.starts_with("SELECT") {
                db.query(statement).await?;
            } else {
                db.exec(statement).await?;
            }
            is_of(&use_of(cx, &scope).await?, cx.now(), statement)?;
        }
        let read = cx.now();
        cx.advance_ms(LONG);
        cx.sql().sql_usage(&scope).await?;
        cx.sql().sql_scopes(&cx.tenant(), SqlScopesQuery::default()).await?;
        stream::collect_lines(cx.sql().dump(&scope).await?).await?;
        is_of(&use_of(cx, &scope).await?, read, "looking at the database from outside")?;
    }),
    case!("gc.reclaim.harmless", [Kv, Eviction], ["GC-12"], |cx, scope: Scope| {
        cx.fill(&scope, &[("k", "1")]).await?;
        for at in 0..3 {
            cx.set_with(&scope, &format!("gone-{at}"), "1", cx.expiring(5)).await?;
        }
        cx.advance_ms(5);
        let before = cx.export(&scope).await?;
        cx.provider().reclaim().await?;
        expect_eq!(cx.export(&scope).await?, before, "what is stored after reclaiming");
        expect_eq!(cx.all_keys(&scope).await?, ["k"], "keys after reclaiming");
        // Other cases may share the store, but expire nothing that is not yet reclaimed: their clocks differ.
        let scope = cx.scope()?;
        cx.set(&scope, "k", "2").await?;
        cx.provider().reclaim().await?;
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("2"), "an entry after reclaiming again");
    }),
    case!("run.fence.refuses-entries", [Kv, RunFence], ["RUN-1"], |cx| {
        let scope = ended(cx).await?;
        all_refused(cx, &scope).await?;
        // A run that stored nothing has ended too.
        let never = cx.scope_of(ScopeKind::Run)?;
        cx.provider().end_run(&never.tenant, &never.id).await?;
        all_refused(cx, &never).await?;
    }),
    case!("run.fence.other-handles", [Kv, RunFence], ["RUN-1"], |cx| {
        let other = cx.on(cx.store().another_handle().await?);
        let scope = cx.scope_of(ScopeKind::Run)?;
        other.set(&scope, "theirs", "1").await?;
        cx.set(&scope, "k", "1").await?;
        cx.provider().end_run(&scope.tenant, &scope.id).await?;
        all_refused(&other, &scope).await?;
        all_refused(cx, &scope).await?;
    }),
    case!("run.fence.refuses-statements", [Kv, Sql, RunFence], ["RUN-1", "RUN-2"], |cx| {
        let run = cx.run()?;
        let scope = expect_some!(run.scope(ScopeKind::Run), "the scope of a run");
        let other = cx.store().another_handle().await.ok().map(|store| cx.on(store));
        let db = cx.database_of(scope.clone())?.by(&run);
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        if let Some(other) = &other {
            other.database_of(scope.clone())?.exec("INSERT INTO t VALUES (1)").await?;
        }
        cx.provider().end_run(&run.tenant, &run.root_run).await?;
        for holder in [Some(cx), other.as_ref()].into_iter().flatten() {
            let late = holder.database_of(scope.clone())?;
            let made = late.exec("CREATE TABLE u (n INTEGER)").await;
            expect_kind!(made, ErrorKind::RunEnded, "a statement after the run's end");
            if cx.capabilities().sql_transactions {
                expect_kind!(
                    late.begin().await.map(drop),
                    ErrorKind::RunEnded,
                    "a transaction after the run's end"
                );
            }
            expect_kind!(
                late.query("SELECT * FROM t").await,
                ErrorKind::InvalidArgument,
                "a table of an ended run"
            );
        }
        let databases = cx.sql().sql_scopes(&cx.tenant(), SqlScopesQuery::default()).await?;
        expect_eq!(databases.scopes.len(), 0, "databases after the run's end");
    }),
    case!("run.fence.reads-as-empty", [Kv, RunFence], ["RUN-2"], |cx| {
        let scope = ended(cx).await?;
        expect_eq!(cx.text(&scope, "k").await?, None, "an entry of a run that has ended");
        expect_eq!(cx.all_keys(&scope).await?.len(), 0);
        expect_eq!(cx.export(&scope).await?.len(), 0);
        check!(!cx.delete(&scope, "k").await?, "something was deleted in a run that has ended");
        cx.provider().end_run(&scope.tenant, &scope.id).await?;
        cx.kv().drop_scope(&scope).await?;
        all_refused(cx, &scope).await?;
    }),
    case!("run.fence.leaves-the-rest", [Kv, RunFence], ["RUN-3"], |cx| {
        let scope = ended(cx).await?;
        let id = scope.id.as_str();
        let mut others = vec![
            cx.scope_named(ScopeKind::Agent, id)?,
            cx.scope_named(ScopeKind::User, id)?,
            cx.scope_of(ScopeKind::Run)?,
        ];
        others.push(Scope::new(cx.other_tenant()?, ScopeKind::Run, scope.id.clone()));
        for other in &others {
            check!(
                cx.kv().set(other, &key("k")?, json("1")?, SetOptions::default()).await?.created,
                "{other}"
            );
            expect_eq!(cx.text(other, "k").await?.as_deref(), Some("1"), "an entry of {other}");
        }
    }),
    case!("run.fence.ends", [Kv, RunFence], ["RUN-4"], |cx| {
        let scope = ended(cx).await?;
        cx.advance_ms(FENCE);
        cx.sweep().await?;
        check!(
            cx.set(&scope, "k", "2").await?.created,
            "the id of a run that ended long ago brings back its entry"
        );
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("2"));
    }),
    case!("run.fence.record-is-removed", [Kv, Eviction, RunFence], ["RUN-5", "GC-12"], |cx| {
        ended(cx).await?;
        expect_eq!(cx.sweep().await?.fences, 0, "fences that are over while the only one lasts");
        cx.advance_ms(FENCE);
        expect_eq!(cx.sweep().await?.fences, 1, "fences that are over");
        expect_eq!(cx.sweep().await?.fences, 0, "fences left to remove");
    }),
    case!("run.fence.ends-for-databases", [Kv, Sql, RunFence], ["RUN-4"], |cx| {
        let run = cx.run()?;
        let scope = expect_some!(run.scope(ScopeKind::Run), "the scope of a run");
        let db = cx.database_of(scope.clone())?.by(&run);
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        cx.provider().end_run(&run.tenant, &run.root_run).await?;
        cx.advance_ms(FENCE);
        cx.sweep().await?;
        db.exec("CREATE TABLE t (n INTEGER)").await?;
        // What was left to do after the first run's end must not be done to the second.
        for rows in 1..=3 {
            db.exec("INSERT INTO t VALUES (1)").await?;
            expect_eq!(db.count("t").await?, rows, "rows in the database of a run whose id was used before");
        }
        if let Ok(other) = cx.store().another_handle().await {
            expect_eq!(cx.on(other).database_of(scope)?.count("t").await?, 3, "rows through another handle");
        }
    }),
];

/// The longest fence that a provider may have.
const FENCE: u64 = 30 * 86_400_000;
/// More than any provider's slack.
const LONG: u64 = 2 * SLACK;
/// The largest slack a provider may have.
const SLACK: u64 = 3_600_000;

async fn uses(cx: &Cx, tenant: &TenantId, query: ScopeUsesQuery) -> memory_core::Result<Vec<ScopeUse>> {
    Ok(cx.provider().scope_uses(tenant, query).await?.scopes)
}

async fn use_of(cx: &Cx, scope: &Scope) -> CaseResult<ScopeUse> {
    let all = uses(cx, &scope.tenant, ScopeUsesQuery::default().with_limit(1_000)).await?;
    Ok(expect_some!(all.into_iter().find(|found| found.scope == *scope), "the use of {scope}"))
}

/// The reported use is the one at `at`, within the slack.
fn is_of(found: &ScopeUse, at: Timestamp, what: &str) -> CaseResult {
    let behind = at.as_millis() - found.last_used_at.as_millis();
    let slack = i64::try_from(SLACK).unwrap_or(i64::MAX);
    check!((0..slack).contains(&behind), "after {what} the reported last use is {behind} ms old");
    Ok(())
}

async fn evict(cx: &Cx, scope: &Scope, since: Timestamp) -> memory_core::Result<EvictOutcome> {
    cx.provider().evict(scope, since).await
}

fn is_evicted(outcome: EvictOutcome, what: &str) -> CaseResult<u64> {
    match outcome {
        EvictOutcome::Evicted { bytes } => Ok(bytes),
        kept => Err(Stop::failed(format_args!("{what} was not evicted: {kept:?}"))),
    }
}

fn before(at: Timestamp, millis: i64) -> Timestamp {
    Timestamp::from_millis_clamped(at.as_millis() - millis)
}

const ORDERED: [(ScopeKind, &str); 7] = [
    (ScopeKind::Agent, "Z"),
    (ScopeKind::Agent, "a"),
    (ScopeKind::Agent, "a:b"),
    (ScopeKind::User, "a"),
    (ScopeKind::User, "🦀"),
    (ScopeKind::Run, "0"),
    (ScopeKind::Run, "a"),
];

async fn filled(cx: &Cx) -> CaseResult<Vec<Scope>> {
    let mut shuffled = ORDERED;
    cx.random().shuffle(&mut shuffled);
    for (kind, id) in shuffled {
        cx.bulk(&cx.scope_named(kind, id)?, vec![item("a", "1")?, item("bb", "[1,2]")?]).await?;
    }
    ORDERED.iter().map(|(kind, id)| cx.scope_named(*kind, id)).collect()
}

async fn ended(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope_of(ScopeKind::Run)?;
    cx.fill(&scope, &[("k", "1")]).await?;
    cx.provider().end_run(&scope.tenant, &scope.id).await?;
    Ok(scope)
}

/// Every write to a scope is refused without effect.
async fn all_refused(cx: &Cx, scope: &Scope) -> CaseResult {
    let kv = cx.kv();
    expect_kind!(cx.set(scope, "k", "2").await, ErrorKind::RunEnded, "a set after the run's end");
    expect_kind!(cx.increment(scope, "n", 1).await, ErrorKind::RunEnded, "an increment after the run's end");
    let update = kv.update(scope, &key("o")?, Reducer::Merge(json("{}")?), UpdateOptions::default()).await;
    expect_kind!(update, ErrorKind::RunEnded, "a reducer after the run's end");
    let items = vec![NewEntry::new(key("b")?, json("1")?)];
    let bulk = kv.bulk_insert(scope, items, BulkOptions::default()).await;
    let refused = expect_kind!(bulk, ErrorKind::RunEnded, "a bulk insert after the run's end");
    check!(!refused.details().contains_key("index"), "an item is named: {refused:?}");
    let record = Record::from(memory_core::Entry::new(key("i")?, json("1")?, 1, cx.now()));
    let import = kv.import_scope(scope, stream::records(vec![Ok(record)]), ImportOptions::default()).await;
    let refused = expect_kind!(import, ErrorKind::RunEnded, "an import after the run's end");
    check!(!refused.details().contains_key("index"), "a record is named: {refused:?}");
    // Whatever else is wrong with the write.
    let capabilities = cx.capabilities();
    let seen = Seen::Entry { version: 1, expires_at: None, digest: None };
    for (serves, options) in [
        (capabilities.compare_and_set, SetOptions::default().with_expect(Expect::Version(1))),
        (
            capabilities.quotas,
            SetOptions::default().with_quota(Quota { max_entries: Some(0), max_bytes: None }),
        ),
        (
            capabilities.drift.contains(&DriftPolicy::Row),
            SetOptions::default().with_drift(DriftCheck::Row(seen)),
        ),
    ] {
        if serves {
            let set = cx.set_with(scope, "k", "2", options).await;
            expect_kind!(set, ErrorKind::RunEnded, "a set after the run's end that something else forbids");
        }
    }
    expect_eq!(cx.all_keys(scope).await?.len(), 0, "keys of a run that has ended");
    Ok(())
}
