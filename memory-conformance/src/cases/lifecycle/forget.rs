//! FGT: forgotten data is gone, and no older copy restores it.

use crate::cx::database::Database;
use memory_core::sql::RestoreOptions;
use memory_core::{
    Atomicity, Entry, EraseTarget, Erased, ErrorKind, ImportOptions, ImportOutcome, ListQuery, OnExisting,
    Quota, Record, Result, Scope, ScopeId, ScopeKind, ScopeUse, ScopeUsesQuery, ScopesQuery, SearchMode,
    SearchQuery, SetOptions, Taken, TenantId, Timestamp, Tombstone, TombstoneId, TombstonesOf, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::{Cx, json, key};
use crate::stream;

pub(crate) const CASES: &[Case] = &[
    case!("forget.scope.is-gone", [Kv, Erase], ["FGT-1", "FGT-4"], |cx| {
        let scope = filled(cx, &["a", "b"]).await?;
        cx.set_with(&scope, "late", "1", cx.expiring(5)).await?;
        let namesake = Scope::new(scope.tenant.clone(), ScopeKind::Agent, scope.id.clone());
        let namesake = if namesake == scope {
            Scope::new(scope.tenant.clone(), ScopeKind::User, scope.id.clone())
        } else {
            namesake
        };
        let elsewhere = Scope::new(cx.other_tenant()?, scope.kind, scope.id.clone());
        for other in [&namesake, &elsewhere] {
            cx.set(other, "a", "\"kept\"").await?;
        }
        cx.advance_ms(10);
        let erased = erase_scope(cx, &scope).await?;
        expect_eq!(erased.scopes, 1, "scopes erased");
        expect_eq!(erased.entries, 3, "entries erased, one of them expired");
        expect_eq!(cx.entry(&scope, "a").await?, None, "an entry of an erased scope");
        check!(keys(cx, &scope).await?.is_empty(), "an erased scope lists keys");
        check!(cx.export(&scope).await?.is_empty(), "an erased scope exports records");
        check!(!is_listed(cx, &scope).await?, "an erased scope is listed");
        for other in [&namesake, &elsewhere] {
            expect_eq!(cx.text(other, "a").await?.as_deref(), Some("\"kept\""), "an entry of another scope");
        }
    }),
    case!("forget.scope.words-are-gone", [Kv, Lexical, Erase], ["FGT-1"], |cx, scope: Scope| {
        cx.say(&scope, "a", "the kettle sings").await?;
        check!(!cx.words(&scope, "kettle").await?.is_empty(), "the words are not found before the erasure");
        erase_scope(cx, &scope).await?;
        check!(cx.words(&scope, "kettle").await?.is_empty(), "words of an erased scope are found");
        cx.say(&scope, "b", "a cup of tea").await?;
        check!(
            cx.words(&scope, "kettle").await?.is_empty(),
            "words of the erased scope are found once it is recreated"
        );
    }),
    case!("forget.scope.vectors-are-gone", [Kv, Vector, Erase], ["FGT-1"], |cx, scope: Scope| {
        cx.say(&scope, "a", "the kettle sings").await?;
        cx.say(&scope, "b", "the kettle cools").await?;
        let query = || SearchQuery::new("the kettle sings").with_mode(SearchMode::Vector);
        check!(cx.find(&scope, query()).await?.len() == 2, "both are not found before");
        erase_key(cx, &scope, "a").await?;
        let left = cx.find(&scope, query()).await?;
        check!(left.iter().all(|hit| hit.entry.key.as_str() == "b"), "an erased key is found by its vector");
        erase_scope(cx, &scope).await?;
        check!(cx.find(&scope, query()).await?.is_empty(), "an erased scope is found by its vectors");
    }),
    case!("forget.scope.counts-are-gone", [Kv, Stats, Erase], ["FGT-1", "FGT-4"], |cx| {
        let scope = filled(cx, &["a", "b", "c"]).await?;
        erase_key(cx, &scope, "b").await?;
        expect_eq!(cx.kv().stats(&scope).await?.entries, 2, "entries after a key was erased");
        erase_scope(cx, &scope).await?;
        let stats = cx.kv().stats(&scope).await?;
        expect_eq!((stats.entries, stats.bytes), (0, 0), "entries and bytes of an erased scope");
    }),
    case!("forget.tenant.is-gone", [Kv, Tenants, Erase], ["FGT-2", "FGT-4"], |cx| {
        let (tenant, other) = (cx.tenant_below("x")?, cx.tenant_below("xy")?);
        // The host keeps entries of its own, such as answers to repeated requests.
        let host = cx.provider().capabilities().host_tables.then_some(ScopeKind::Host);
        let kinds: Vec<_> =
            [ScopeKind::Agent, ScopeKind::User, ScopeKind::Run].into_iter().chain(host).collect();
        let scopes = |tenant: &TenantId| -> Result<Vec<Scope>> {
            kinds.iter().map(|kind| Ok(Scope::new(tenant.clone(), *kind, ScopeId::new("a")?))).collect()
        };
        for scope in scopes(&tenant)?.iter().chain(&scopes(&other)?) {
            cx.set(scope, "k", "1").await?;
        }
        let erased = erase(cx, EraseTarget::Tenant(tenant.clone())).await?;
        let all = kinds.len() as u64;
        expect_eq!((erased.scopes, erased.entries), (all, all), "scopes and entries erased");
        let named = cx.provider().tenants(Some(&cx.tenant()), 1_000).await?;
        check!(!named.contains(&tenant), "an erased tenant is named");
        for scope in scopes(&tenant)? {
            check!(!is_listed(cx, &scope).await?, "a {} scope of an erased tenant is listed", scope.kind);
            check!(keys(cx, &scope).await?.is_empty(), "a {} scope of an erased tenant has keys", scope.kind);
        }
        for scope in scopes(&other)? {
            expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("1"), "an entry of another tenant");
        }
    }),
    case!("forget.key.is-gone", [Kv, Erase], ["FGT-3", "FGT-4"], |cx| {
        let scope = filled(cx, &["a", "ab", "b"]).await?;
        cx.set_with(&scope, "late", "1", cx.expiring(5)).await?;
        cx.advance_ms(10);
        expect_eq!(erase_key(cx, &scope, "late").await?.entries, 1, "expired entries erased");
        let erased = erase_key(cx, &scope, "a").await?;
        expect_eq!((erased.scopes, erased.entries), (0, 1), "scopes and entries erased");
        expect_eq!(keys(cx, &scope).await?, ["ab", "b"], "the keys that stay");
        expect_eq!(cx.entry(&scope, "a").await?, None, "an erased entry");
        expect_eq!(erase_key(cx, &scope, "a").await?.entries, 0, "entries erased again");
        expect_eq!(keys(cx, &scope).await?, ["ab", "b"], "the keys that stay");
    }),
    case!("forget.nothing.succeeds", [Kv, Erase], ["FGT-4", "FGT-11"], |cx, scope: Scope| {
        for target in [
            EraseTarget::Tenant(cx.tenant_below("never")?),
            EraseTarget::Scope(scope.clone()),
            EraseTarget::Key { scope: scope.clone(), key: key("never")? },
        ] {
            for _ in 0..2 {
                let erased = erase(cx, target.clone()).await?;
                expect_eq!(
                    (erased.scopes, erased.entries),
                    (0, 0),
                    "what was erased for a {}",
                    target.kind()
                );
                expect_eq!(erased.tombstone.id, TombstoneId::of(&target), "what the tombstone is about");
            }
        }
    }),
    case!("forget.nothing.of-refused-writes", [Kv, Quotas, Tenants, Erase], ["FGT-4", "SET-6"], |cx| {
        let scope = Scope::new(cx.tenant_below("refused")?, ScopeKind::Agent, ScopeId::new("a")?);
        let quota = Quota { max_entries: Some(0), max_bytes: None };
        let set = cx.set_with(&scope, "k", "1", SetOptions::default().with_quota(quota)).await;
        expect_kind!(set, ErrorKind::QuotaExceeded, "a set over the quota");
        let options = UpdateOptions::default().with_quota(quota);
        let sum = cx.kv().increment(&scope, &key("n")?, 1, options).await;
        expect_kind!(sum, ErrorKind::QuotaExceeded, "an increment over the quota");
        let named = cx.provider().tenants(Some(&cx.tenant()), 1_000).await?;
        check!(!named.contains(&scope.tenant), "a tenant of refused writes alone is named");
        let erased = erase_scope(cx, &scope).await?;
        expect_eq!((erased.scopes, erased.entries), (0, 0), "scopes and entries erased");
    }),
    case!("forget.versions.never-again", [Kv, Erase], ["FGT-5", "FGT-6"], |cx| {
        let scope = filled(cx, &["a", "a", "b"]).await?;
        let last = cx.set(&scope, "a", "2").await?.version;
        let erased = erase_key(cx, &scope, "a").await?;
        check!(
            erased.tombstone.version >= last,
            "the tombstone of a key that had version {last}: {erased:?}"
        );
        let after_key = cx.set(&scope, "a", "3").await?.version;
        check!(after_key > last, "version {after_key} after a key was erased that had {last}");
        erase_scope(cx, &scope).await?;
        let after_scope = cx.set(&scope, "c", "4").await?.version;
        check!(
            after_scope > after_key,
            "version {after_scope} after a scope was erased that had given {after_key}"
        );
        erase(cx, EraseTarget::Tenant(scope.tenant.clone())).await?;
        let record = Record::from(Entry::new(key("a")?, json("5")?, after_scope, cx.now()));
        import(cx, &scope, &[record], Taken::New).await?;
        let imported = cx.entry(&scope, "a").await?.map(|entry| entry.version).unwrap_or_default();
        check!(
            imported > after_scope,
            "version {imported} after a tenant was erased that had given {after_scope}"
        );
    }),
    case!("forget.versions.of-a-replaced-scope", [Kv, AtomicImport, Erase], ["FGT-5", "EXP-8"], |cx| {
        for kind in ScopeKind::ALL {
            let scope = cx.scope_of(kind)?;
            let record = Record::from(Entry::new(key("k")?, json("1")?, 10, cx.now()));
            import(cx, &scope, std::slice::from_ref(&record), Taken::New).await?;
            erase_scope(cx, &scope).await?;
            cx.set(&scope, "a", "2").await?;
            let options = ImportOptions::default().with_atomicity(Atomicity::Replacement);
            cx.kv().import_scope(&scope, stream::records(vec![Ok(record)]), options).await?;
            let version = cx.live(&scope, "k").await?.version;
            check!(version > 10, "version {version} of a key that had 10 before its scope was erased");
        }
    }),
    // A store that outlives a run contains what earlier runs erased; that must not show in fresh scopes.
    case!("forget.versions.of-others", [Kv, Erase], ["FGT-1", "FGT-12", "ISO-4"], |cx| {
        const HIGH: u64 = 1_000_000;
        let record = |version| -> CaseResult<Record> {
            Ok(Record::from(Entry::new(key("k")?, json("1")?, version, cx.now())))
        };
        let erased = cx.scope()?;
        import(cx, &erased, &[record(HIGH)?], Taken::New).await?;
        erase_scope(cx, &erased).await?;
        let elsewhere = cx.scope()?;
        let id = TombstoneId::of(&EraseTarget::Scope(elsewhere));
        cx.provider().bury(&[Tombstone { id, at: cx.now(), version: HIGH }]).await?;
        let of_other_tenant = Scope::new(cx.other_tenant()?, erased.kind, erased.id.clone());
        for other in [cx.scope()?, of_other_tenant] {
            import(cx, &other, &[record(7)?], Taken::New).await?;
            expect_eq!(
                cx.live(&other, "k").await?.version,
                7,
                "the version imported into a scope next to an erased one"
            );
        }
    }),
    case!("forget.writes.are-ordinary", [Kv, Erase], ["FGT-6"], |cx| {
        let scope = filled(cx, &["a"]).await?;
        erase_scope(cx, &scope).await?;
        check!(cx.set(&scope, "a", "2").await?.created, "the first write is not reported as a creation");
        cx.set(&scope, "b", "3").await?;
        erase_key(cx, &scope, "c").await?;
        expect_eq!(keys(cx, &scope).await?, ["a", "b"], "the keys written after");
        expect_eq!(cx.text(&scope, "a").await?.as_deref(), Some("2"), "the value written after");
        check!(is_listed(cx, &scope).await?, "the scope is not listed");
    }),
    case!("forget.writes.are-uses", [Kv, Erase, Eviction], ["FGT-6", "GC-3", "GC-6"], |cx, scope: Scope| {
        let of_tenant = Scope::new(cx.tenant_below("erased")?, scope.kind, scope.id.clone());
        for (scope, target) in [
            (&scope, EraseTarget::Scope(scope.clone())),
            (&of_tenant, EraseTarget::Tenant(of_tenant.tenant.clone())),
        ] {
            cx.set(scope, "k", "1").await?;
            erase(cx, target).await?;
            cx.advance_ms(1_000);
            cx.set(scope, "k", "2").await?;
            let uses = cx.provider().scope_uses(&scope.tenant, ScopeUsesQuery::default()).await?.scopes;
            let is_now = |found: &ScopeUse| found.last_used_at <= cx.now() && cx.now() <= found.latest_use;
            check!(
                uses.iter().any(|found| found.scope == *scope && is_now(found)),
                "the use of a scope that was written after its erasure: {uses:?}"
            );
            let since = Timestamp::from_millis_clamped(cx.now().as_millis() - 1);
            let outcome = cx.provider().evict(scope, since).await?;
            check!(!outcome.is_evicted(), "a scope was evicted that was written after its erasure");
        }
    }),
    case!("forget.copy.older-is-left-out", [Kv, Erase], ["FGT-7"], |cx| {
        let scope = filled(cx, &["a", "b", "c"]).await?;
        let (copy, taken) = copied(cx, &scope).await?;
        erase_key(cx, &scope, "b").await?;
        let outcome = import(cx, &scope, &copy, Taken::At(taken)).await?;
        expect_eq!(outcome.forgotten, 1, "records left out because their key was erased");
        expect_eq!(keys(cx, &scope).await?, ["a", "c"], "the keys after a key was erased");
        for target in [EraseTarget::Scope(scope.clone()), EraseTarget::Tenant(scope.tenant.clone())] {
            let kind = target.kind();
            erase(cx, target).await?;
            let outcome = import(cx, &scope, &copy, Taken::At(taken)).await?;
            expect_eq!(
                (outcome.forgotten, outcome.created),
                (3, 0),
                "records left out, and stored, after a {kind}"
            );
            check!(keys(cx, &scope).await?.is_empty(), "an older copy brings back an erased {kind}");
        }
        let other = cx.scope_named(scope.kind, "another")?;
        let other = Scope::new(cx.other_tenant()?, other.kind, other.id);
        let outcome = import(cx, &other, &copy, Taken::At(taken)).await?;
        expect_eq!((outcome.forgotten, outcome.created), (0, 3), "records left out, and stored, elsewhere");
    }),
    case!("forget.copy.of-the-same-moment", [Kv, Erase], ["FGT-7"], |cx| {
        let scope = filled(cx, &["a"]).await?;
        let copy = cx.export(&scope).await?;
        let at = erase_scope(cx, &scope).await?.tombstone.at;
        let outcome = import(cx, &scope, &copy, Taken::At(at)).await?;
        expect_eq!(outcome.forgotten, 1, "records left out of a copy of the tombstone's moment");
        check!(keys(cx, &scope).await?.is_empty(), "a copy of the same moment brings it back");
    }),
    case!("forget.copy.later-is-stored", [Kv, Erase], ["FGT-8"], |cx| {
        let scope = filled(cx, &["a", "b"]).await?;
        let (copy, _) = copied(cx, &scope).await?;
        erase_scope(cx, &scope).await?;
        let outcome = import(cx, &scope, &copy, Taken::New).await?;
        expect_eq!(
            (outcome.forgotten, outcome.created),
            (0, 2),
            "records that are declared not to be a copy"
        );
        erase_scope(cx, &scope).await?;
        cx.advance_ms(1);
        let outcome = import(cx, &scope, &copy, Taken::At(cx.now())).await?;
        expect_eq!((outcome.forgotten, outcome.created), (0, 2), "records of a later copy");
    }),
    case!("forget.copy.without-a-date", [Kv, Erase], ["FGT-9"], |cx| {
        let scope = filled(cx, &["old"]).await?;
        let mut copy = cx.export(&scope).await?;
        cx.advance_ms(1_000);
        let at = erase_scope(cx, &scope).await?.tombstone.at;
        cx.advance_ms(1);
        copy.push(Record::from(Entry::new(key("same")?, json("1")?, 1, at)));
        copy.push(Record::from(Entry::new(key("young")?, json("1")?, 1, cx.now())));
        let outcome = import(cx, &scope, &copy, Taken::Undated).await?;
        expect_eq!((outcome.forgotten, outcome.created), (2, 1), "records left out, and stored");
        expect_eq!(keys(cx, &scope).await?, ["young"], "the keys updated after the erasure");
    }),
    case!("forget.copy.whole", [Kv, AtomicImport, Erase], ["FGT-10", "FGT-7"], |cx| {
        let scope = filled(cx, &["a", "b", "c"]).await?;
        let (copy, taken) = copied(cx, &scope).await?;
        erase_key(cx, &scope, "b").await?;
        for atomicity in [Atomicity::Scope, Atomicity::Replacement] {
            let outcome = whole_copy(cx, &scope, &copy, atomicity, taken).await?;
            expect_eq!(outcome.forgotten, 1, "records left out of a whole import");
            expect_eq!(keys(cx, &scope).await?, ["a", "c"], "the keys after a whole import");
        }
        erase_scope(cx, &scope).await?;
        let outcome = whole_copy(cx, &scope, &copy, Atomicity::Scope, taken).await?;
        expect_eq!((outcome.forgotten, outcome.created), (3, 0), "records left out, and stored");
        check!(keys(cx, &scope).await?.is_empty(), "a whole import brings an erased scope back");
    }),
    case!("forget.copy.at-the-same-time" * 3, [Kv, AtomicImport, Erase], ["FGT-10"], |cx, scope: Scope| {
        let mut copy = Vec::new();
        for at in 0..400 {
            copy.push(Record::from(Entry::new(key(&format!("{at:03}"))?, json("1")?, at + 1, cx.now())));
        }
        let taken = cx.now();
        cx.advance_ms(1);
        let importing = |atomicity| {
            let (scope, copy) = (&scope, &copy);
            Box::pin(async move { whole_copy(cx, scope, copy, atomicity, taken).await.map(drop) })
                as crate::harness::executor::BoxFuture<'_, Result<()>>
        };
        let erasing = Box::pin(async { erase_scope(cx, &scope).await.map(drop) });
        let done = cx.threads(vec![importing(Atomicity::Record), erasing, importing(Atomicity::Scope)])?;
        for done in done {
            done?;
        }
        check!(
            keys(cx, &scope).await?.is_empty(),
            "an import concurrent with an erasure restored an older copy"
        );
    }),
    case!("forget.tombstones.in-order", [Kv, Erase], ["FGT-11"], |cx| {
        let (tenant, other) = (cx.tenant_below("x")?, cx.tenant_below("y")?);
        let scope = |tenant: &TenantId, id: &str| -> Result<Scope> {
            Ok(Scope::new(tenant.clone(), ScopeKind::User, ScopeId::new(id)?))
        };
        let (a, b) = (scope(&tenant, "a")?, scope(&tenant, "b")?);
        let of_key = |scope: &Scope, name: &str| -> Result<EraseTarget> {
            Ok(EraseTarget::Key { scope: scope.clone(), key: key(name)? })
        };
        let of_a = [of_key(&a, "k")?, of_key(&a, "l")?, EraseTarget::Scope(a.clone())];
        let of_b = [of_key(&b, "k")?];
        let whole = EraseTarget::Tenant(tenant.clone());
        let of_other = EraseTarget::Scope(scope(&other, "a")?);
        for target in of_a.iter().chain(&of_b).chain([&of_other, &whole]) {
            erase(cx, target.clone()).await?;
        }
        let ids = |targets: Vec<&EraseTarget>| {
            let mut ids: Vec<TombstoneId> = targets.into_iter().map(TombstoneId::of).collect();
            ids.sort();
            ids
        };
        let found = |tombstones: Vec<Tombstone>| tombstones.iter().map(|one| one.id).collect::<Vec<_>>();
        for limit in [1, 2, 1_000] {
            let of_scope = listed(cx, &TombstonesOf::Scope(a.clone()), limit).await?;
            let wanted = ids(of_a.iter().chain([&whole]).collect());
            expect_eq!(found(of_scope), wanted, "tombstones that concern a scope, {limit} a page");
            let of_tenant = listed(cx, &TombstonesOf::Tenant(tenant.clone()), limit).await?;
            let wanted = ids(of_a.iter().chain(&of_b).chain([&whole]).collect());
            let mut of_tenant = found(of_tenant);
            check!(
                of_tenant.iter().all(|id| id.tenant == TombstoneId::of(&whole).tenant),
                "tombstones of another tenant are listed with one's, {limit} a page"
            );
            // A store may record the scopes of an erased tenant one by one.
            of_tenant.retain(|id| wanted.contains(id));
            expect_eq!(of_tenant, wanted, "tombstones of a tenant, {limit} a page");
        }
        let all = found(listed(cx, &TombstonesOf::Store, 1_000).await?);
        for id in ids(of_a.iter().chain(&of_b).chain([&whole, &of_other]).collect()) {
            check!(all.contains(&id), "a tombstone is not listed with all");
        }
        for (limit, kind) in [(0, ErrorKind::InvalidArgument), (1_001, ErrorKind::TooLarge)] {
            expect_kind!(
                cx.provider().tombstones(&TombstonesOf::Store, None, limit).await,
                kind,
                "a page of {limit} tombstones"
            );
        }
    }),
    case!("forget.tombstones.from-elsewhere", [Kv, Erase], ["FGT-12"], |cx| {
        let scope = filled(cx, &["a", "b"]).await?;
        let (copy, taken) = copied(cx, &scope).await?;
        let id = TombstoneId::of(&EraseTarget::Scope(scope.clone()));
        let high = cx.entry(&scope, "b").await?.map(|entry| entry.version).unwrap_or_default() + 1_000;
        cx.provider().bury(&[Tombstone { id, at: cx.now(), version: high }]).await?;
        expect_eq!(keys(cx, &scope).await?, ["a", "b"], "the keys after a tombstone came from elsewhere");
        let empty = cx.scope()?;
        let of_key = EraseTarget::Key { scope: empty.clone(), key: key("a")? };
        cx.provider().bury(&[Tombstone { id: TombstoneId::of(&of_key), at: cx.now(), version: 7 }]).await?;
        let outcome = import(cx, &empty, &copy, Taken::At(taken)).await?;
        expect_eq!((outcome.forgotten, outcome.created), (1, 1), "records left out, and stored");
        let outcome = import(cx, &scope, &copy, Taken::At(taken)).await?;
        expect_eq!(outcome.forgotten, 2, "records left out by a tombstone from elsewhere");
        let version = cx.set(&scope, "c", "1").await?.version;
        check!(version > high, "version {version} after a tombstone that says {high}");
        let page = vec![Tombstone { id, at: cx.now(), version: 1 }; 1_001];
        expect_kind!(cx.provider().bury(&page).await, ErrorKind::TooLarge, "1,001 tombstones at once");
    }),
    case!("forget.tombstones.merged", [Kv, Erase], ["FGT-12"], |cx, scope: Scope| {
        let id = TombstoneId::of(&EraseTarget::Scope(scope.clone()));
        let early = cx.now();
        cx.advance_ms(1_000);
        let one = Tombstone { id, at: cx.now(), version: 3 };
        cx.provider().bury(&[one]).await?;
        cx.provider().bury(&[Tombstone { id, at: early, version: 9 }]).await?;
        let of = TombstonesOf::Scope(scope.clone());
        let both = Tombstone { id, at: one.at, version: 9 };
        expect_eq!(listed(cx, &of, 10).await?, [both], "two tombstones of one target");
        let future = cx.now().checked_add(std::time::Duration::from_secs(3_600)).unwrap_or(Timestamp::MAX);
        cx.provider().bury(&[Tombstone { id, at: future, version: 1 }]).await?;
        let found = listed(cx, &of, 10).await?;
        check!(found.iter().all(|one| one.at <= cx.now()), "a tombstone is later than the store's clock");
    }),
    case!("forget.handles.see-it", [Kv, Erase], ["FGT-15", "FGT-1"], |cx| {
        let store = cx.open().await?;
        let own = cx.on(store.clone());
        let scope = filled(&own, &["a", "b"]).await?;
        let (copy, taken) = copied(&own, &scope).await?;
        let beside = cx.on(store.another_handle().await?);
        expect_eq!(keys(&beside, &scope).await?.len(), 2, "the keys that another handle sees before");
        let erased = erase_scope(&own, &scope).await?;
        check!(keys(&beside, &scope).await?.is_empty(), "another handle lists keys of an erased scope");
        expect_eq!(beside.entry(&scope, "a").await?, None, "what another handle reads of an erased scope");
        drop((beside, own));
        let again = cx.on(store.reopen().await?);
        let found = listed(&again, &TombstonesOf::Scope(scope.clone()), 10).await?;
        check!(found.contains(&erased.tombstone), "the tombstone ended with the handle");
        expect_eq!(
            import(&again, &scope, &copy, Taken::At(taken)).await?.forgotten,
            2,
            "records left out later"
        );
    }),
    case!("forget.sql.is-gone", [Sql, Erase], ["FGT-13"], |cx, db: Database, other: Database| {
        for db in [&db, &other] {
            db.exec_all(&["CREATE TABLE t (a INTEGER)", "INSERT INTO t VALUES (1)"]).await?;
        }
        expect_eq!(erase_scope(cx, &db.scope).await?.databases, 1, "databases erased");
        check!(db.tables().await?.is_empty(), "the tables of an erased scope are there");
        expect_eq!(other.count("t").await?, 1, "rows of another scope");
        expect_eq!(erase_scope(cx, &db.scope).await?.databases, 0, "databases erased again");
        erase(cx, EraseTarget::Tenant(other.scope.tenant.clone())).await?;
        check!(other.tables().await?.is_empty(), "the tables of an erased tenant are there");
        db.exec("CREATE TABLE t (a INTEGER)").await?;
        expect_eq!(db.count("t").await?, 0, "rows of a table created after");
    }),
    case!(
        "forget.sql.transactions-are-lost",
        [Sql, SqlTransactions, Erase],
        ["FGT-13"],
        |cx, db: Database| {
            db.exec("CREATE TABLE t (a INTEGER)").await?;
            let (within, _) = db.begin().await?;
            within.exec("INSERT INTO t VALUES (1)").await?;
            erase_scope(cx, &db.scope).await?;
            expect_kind!(
                within.exec("INSERT INTO t VALUES (2)").await,
                ErrorKind::TransactionLost,
                "a statement in a transaction on an erased database"
            );
            check!(db.tables().await?.is_empty(), "the tables of an erased scope are there");
        }
    ),
    case!("forget.sql.stays-with-a-key", [Sql, Erase], ["FGT-13"], |cx, db: Database| {
        db.exec("CREATE TABLE t (a INTEGER)").await?;
        expect_eq!(erase_key(cx, &db.scope, "t").await?.databases, 0, "databases erased with a key");
        expect_eq!(db.tables().await?.len(), 1, "tables after a key was erased");
    }),
    case!("forget.sql.older-copy", [Sql, Erase], ["FGT-14"], |cx, db: Database| {
        db.exec("CREATE TABLE t (a INTEGER)").await?;
        let dump = stream::collect_lines(cx.sql().dump(&db.scope).await?).await?;
        let lines = || stream::lines(dump.iter().cloned().map(Ok).collect());
        let of_copy = |moment| RestoreOptions::default().with_taken_at(Some(moment));
        let taken = cx.now();
        cx.advance_ms(1_000);
        let at = erase_scope(cx, &db.scope).await?.tombstone.at;
        for moment in [taken, at] {
            let outcome = cx.sql().restore(&db.scope, lines(), of_copy(moment)).await?;
            check!(outcome.forgotten, "it is not reported that an older copy was left out");
            check!(db.tables().await?.is_empty(), "an older copy of a database was restored");
        }
        cx.advance_ms(1);
        let outcome = cx.sql().restore(&db.scope, lines(), of_copy(cx.now())).await?;
        check!(!outcome.forgotten, "a later copy was left out");
        expect_eq!(db.tables().await?.len(), 1, "tables of a later copy");
    }),
];

async fn erase(cx: &Cx, target: EraseTarget) -> Result<Erased> {
    cx.provider().erase(&target).await
}

async fn erase_scope(cx: &Cx, scope: &Scope) -> Result<Erased> {
    erase(cx, EraseTarget::Scope(scope.clone())).await
}

async fn erase_key(cx: &Cx, scope: &Scope, name: &str) -> Result<Erased> {
    erase(cx, EraseTarget::Key { scope: scope.clone(), key: key(name)? }).await
}

/// Imports records over existing ones.
async fn import(cx: &Cx, scope: &Scope, records: &[Record], taken: Taken) -> Result<ImportOutcome> {
    let options = ImportOptions::default().with_on_existing(OnExisting::Replace).with_taken(taken);
    let records = records.iter().cloned().map(Ok).collect();
    cx.kv().import_scope(scope, stream::records(records), options).await
}

async fn keys(cx: &Cx, scope: &Scope) -> Result<Vec<String>> {
    cx.keys(scope, ListQuery::default()).await
}

/// A scope with these keys.
async fn filled(cx: &Cx, names: &[&str]) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    for name in names {
        cx.set(&scope, name, "\"tea\"").await?;
    }
    Ok(scope)
}

async fn is_listed(cx: &Cx, scope: &Scope) -> Result<bool> {
    let query = ScopesQuery::default();
    Ok(cx.kv().scopes(&scope.tenant, query).await?.scopes.iter().any(|info| info.scope == *scope))
}

/// A copy of the scope and its time; then the clock moves on.
async fn copied(cx: &Cx, scope: &Scope) -> CaseResult<(Vec<Record>, Timestamp)> {
    let copy = (cx.export(scope).await?, cx.now());
    cx.advance_ms(1_000);
    Ok(copy)
}

async fn whole_copy(
    cx: &Cx,
    scope: &Scope,
    copy: &[Record],
    atomicity: Atomicity,
    taken: Timestamp,
) -> Result<ImportOutcome> {
    let options = ImportOptions::default()
        .with_on_existing(OnExisting::Replace)
        .with_atomicity(atomicity)
        .with_taken(Taken::At(taken));
    let records = copy.iter().cloned().map(Ok).collect();
    cx.kv().import_scope(scope, stream::records(records), options).await
}

/// Every tombstone, in pages of this size.
async fn listed(cx: &Cx, of: &TombstonesOf, limit: usize) -> CaseResult<Vec<Tombstone>> {
    let mut found: Vec<Tombstone> = Vec::new();
    loop {
        let after = found.last().map(|last| last.id);
        let page = cx.provider().tombstones(of, after.as_ref(), limit).await?;
        check!(page.len() <= limit, "a page of {limit} tombstones has {}", page.len());
        for tombstone in &page {
            check!(
                found.last().is_none_or(|last| last.id < tombstone.id),
                "tombstones are out of order, or one is there twice"
            );
            found.push(*tombstone);
        }
        if page.len() < limit {
            return Ok(found);
        }
    }
}
