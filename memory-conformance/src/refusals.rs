//! What a provider must refuse where it does not advertise it.

mod layer;
mod sql;

use std::fmt::Debug;

use memory_core::drift::Seen;
use memory_core::sql::RestoreOptions;
use memory_core::{
    Atomicity, Backend, BulkOptions, DeleteOptions, DriftCheck, DriftToken, Embed, EraseTarget, ErrorKind,
    Expect, GetOptions, ImportOptions, ListQuery, NewEntry, Provider, Quota, Record, Reducer, ReembedOptions,
    Result, ScopeKind, ScopeUsesQuery, ScopesQuery, SearchMode, SearchQuery, SetOptions, SqlFacet as _,
    Taken, Tombstone, TombstoneId, TombstonesOf, UpdateOptions,
};

use crate::case::Need;
use crate::check::{CaseResult, check, expect_kind};
use crate::cx::{Cx, json, key};
use crate::stream;

/// Proves that everything `need` covers is refused, through `Checked` and by the provider itself,
/// and leaves nothing behind.
pub(crate) async fn prove(cx: &Cx, need: Need) -> CaseResult {
    if need == Need::Kv {
        check!(cx.provider().backend().is_none(), "`kv` is not advertised, yet the facet is handed out");
        check!(cx.raw().backend().is_none(), "`kv` is not advertised, yet the provider hands the facet out");
    }
    let refuser = Refuser { need, cx };
    if need == Need::Tenants {
        refuser.expect("through Checked", "tenants", cx.provider().tenants(None, 10).await)?;
        return refuser.expect("asked directly", "tenants", cx.raw().tenants(None, 10).await);
    }
    if need == Need::Moment {
        refuser.expect("through Checked", "moment", cx.provider().moment().await)?;
        return refuser.expect("asked directly", "moment", cx.raw().moment().await);
    }
    if need == Need::Eviction {
        for (door, provider) in [("through Checked", cx.provider()), ("asked directly", cx.raw())] {
            let tenant = cx.tenant();
            let uses = provider.scope_uses(&tenant, ScopeUsesQuery::default()).await;
            refuser.expect(door, "scope_uses", uses)?;
            refuser.expect(door, "evict", provider.evict(&cx.scope()?, cx.now()).await)?;
            refuser.expect(door, "reclaim", provider.reclaim().await)?;
        }
        return Ok(());
    }
    if need == Need::RunFence {
        return unfenced(cx).await;
    }
    if need == Need::Erase {
        refuser.erase(cx.store().checked(), "through Checked").await?;
        return refuser.erase(cx.raw(), "asked directly").await;
    }
    if need.is_sql() {
        return sql::prove(&refuser).await;
    }
    if need.is_layer() {
        return layer::prove(&refuser).await;
    }
    refuser.all(cx.store().checked(), "through Checked").await?;
    if let Some(raw) = cx.raw().backend() {
        refuser.all(raw, "asked directly").await?;
    }
    Ok(())
}

/// There is nothing to refuse: a run's id begins anew after its end, as it always did.
async fn unfenced(cx: &Cx) -> CaseResult {
    let scope = cx.scope_of(ScopeKind::Run)?;
    cx.set(&scope, "k", "1").await?;
    cx.provider().end_run(&scope.tenant, &scope.id).await?;
    check!(
        cx.set(&scope, "k", "2").await?.created,
        "`run_fence` is not advertised, yet a write after the end of a run was not taken as the first"
    );
    Ok(())
}

struct Refuser<'a> {
    need: Need,
    cx: &'a Cx,
}

impl Refuser<'_> {
    fn expect<T: Debug>(&self, door: &str, op: &str, result: Result<T>) -> CaseResult {
        let kind = if matches!(self.need, Need::Vector | Need::SqlVectors) {
            ErrorKind::VectorUnsupported
        } else {
            ErrorKind::Unsupported
        };
        let error = expect_kind!(result, kind, "`{op}` {door}, without `{:?}` advertised", self.need);
        let named = |detail: &str, name: &str| {
            error.details().get(detail).and_then(|value| value.as_str()) == Some(name)
        };
        let provider = self.cx.provider().name();
        check!(
            named("operation", op),
            "`{op}` {door}: the refusal does not name the operation in details.operation"
        );
        check!(
            named("provider", provider),
            "`{op}` {door}: the refusal does not name the provider in details.provider"
        );
        Ok(())
    }

    async fn all(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        match self.need {
            Need::Kv => self.kv(kv, door).await,
            Need::Lexical => self.lexical(kv, door).await,
            Need::Vector => self.vector(kv, door).await,
            Need::Cas => self.cas(kv, door).await,
            Need::Quotas => self.quotas(kv, door).await,
            Need::Drift => self.drift(door).await,
            Need::Stats => self.expect(door, "stats", kv.stats(&self.cx.scope()?).await),
            Need::AtomicImport => self.atomic_import(kv, door).await,
            // Of the other facets.
            _ => Ok(()),
        }
    }

    async fn erase(&self, provider: &dyn Provider, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let target = EraseTarget::Scope(scope.clone());
        self.expect(door, "erase", provider.erase(&target).await)?;
        self.expect(door, "tombstones", provider.tombstones(&TombstonesOf::Store, None, 10).await)?;
        let tombstone = Tombstone { id: TombstoneId::of(&target), at: self.cx.now(), version: 1 };
        self.expect(door, "bury", provider.bury(&[tombstone]).await)?;
        let checked = self.cx.store().checked();
        if self.cx.capabilities().kv {
            // Through `Checked` alone, as for a check of drift.
            let record = Record::from(memory_core::Entry::new(key("k")?, json("1")?, 1, self.cx.now()));
            let options = ImportOptions::default().with_taken(Taken::At(self.cx.now()));
            let import = checked.import_scope(&scope, stream::records(vec![Ok(record)]), options).await;
            self.expect(door, "import_scope", import)?;
            self.nothing_stored(&scope, door).await?;
        }
        if self.cx.capabilities().sql {
            let options = RestoreOptions::default().with_taken_at(Some(self.cx.now()));
            let restored = checked.restore(&scope, stream::lines(Vec::new()), options).await;
            self.expect(door, "restore", restored)?;
        }
        Ok(())
    }

    async fn atomic_import(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        for atomicity in [Atomicity::Scope, Atomicity::Replacement, Atomicity::Mirror] {
            let record = Record::from(memory_core::Entry::new(key("k")?, json("1")?, 1, self.cx.now()));
            let options = ImportOptions::default().with_atomicity(atomicity);
            let import = kv.import_scope(&scope, stream::records(vec![Ok(record)]), options).await;
            self.expect(door, "import_scope", import)?;
        }
        self.nothing_stored(&scope, door).await
    }

    async fn kv(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let update = UpdateOptions::default();
        let items = vec![NewEntry::new(k.clone(), v.clone())];
        self.expect(door, "get", kv.get(&scope, &k, GetOptions::default()).await)?;
        self.expect(
            door,
            "get_many",
            kv.get_many(&scope, std::slice::from_ref(&k), GetOptions::default()).await,
        )?;
        self.expect(door, "set", kv.set(&scope, &k, v.clone(), SetOptions::default()).await)?;
        self.expect(door, "delete", kv.delete(&scope, &k, DeleteOptions::default()).await)?;
        self.expect(door, "list", kv.list(&scope, ListQuery::default()).await)?;
        self.expect(door, "increment", kv.increment(&scope, &k, 1, update).await)?;
        self.expect(door, "update", kv.update(&scope, &k, Reducer::Merge(v), update).await)?;
        self.expect(door, "bulk_insert", kv.bulk_insert(&scope, items, BulkOptions::default()).await)?;
        self.expect(door, "search", kv.search(&scope, SearchQuery::new("word")).await)?;
        self.expect(door, "stats", kv.stats(&scope).await)?;
        self.expect(door, "reembed", kv.reembed(&scope, ReembedOptions::default()).await)?;
        self.expect(door, "scopes", kv.scopes(&scope.tenant, ScopesQuery::default()).await)?;
        self.expect(door, "drop_scope", kv.drop_scope(&scope).await)?;
        self.expect(door, "export_scope", kv.export_scope(&scope).await.map(drop))?;
        let import = kv.import_scope(&scope, stream::records(Vec::new()), ImportOptions::default()).await;
        self.expect(door, "import_scope", import)
    }

    async fn lexical(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let search = |mode| kv.search(&scope, SearchQuery::new("word").with_mode(mode));
        self.expect(door, "search", search(SearchMode::Lexical).await)?;
        if !self.cx.capabilities().vector_search {
            self.expect(door, "search", search(SearchMode::Auto).await)?;
        }
        Ok(())
    }

    async fn vector(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let embed = SetOptions::default().with_embed(Embed::Always);
        for mode in [SearchMode::Vector, SearchMode::Hybrid] {
            let search = kv.search(&scope, SearchQuery::new("word").with_mode(mode)).await;
            self.expect(door, "search", search)?;
        }
        self.expect(door, "set", kv.set(&scope, &k, v.clone(), embed.clone()).await)?;
        let mut item = NewEntry::new(k, v);
        item.options = embed;
        self.expect(door, "bulk_insert", kv.bulk_insert(&scope, vec![item], BulkOptions::default()).await)?;
        self.expect(door, "reembed", kv.reembed(&scope, ReembedOptions::default()).await)?;
        self.nothing_stored(&scope, door).await
    }

    async fn cas(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        for expect in [Expect::Absent, Expect::Version(1), Expect::Sha256([0; 32])] {
            let options = SetOptions::default().with_expect(expect);
            self.expect(door, "set", kv.set(&scope, &k, v.clone(), options.clone()).await)?;
            self.expect(door, "delete", kv.delete(&scope, &k, DeleteOptions::expecting(expect)).await)?;
            let mut item = NewEntry::new(k.clone(), v.clone());
            item.options = options;
            self.expect(
                door,
                "bulk_insert",
                kv.bulk_insert(&scope, vec![item], BulkOptions::default()).await,
            )?;
        }
        self.nothing_stored(&scope, door).await
    }

    /// Through `Checked` alone: a provider that never heard of the option need not look at it, since nothing reaches it
    /// but through `Checked`.
    async fn drift(&self, door: &str) -> CaseResult {
        let kv = self.cx.store().checked();
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let absent = DriftCheck::Row(Seen::Absent);
        let never = DriftCheck::Strict(DriftToken::new(0, 0, 0), None);
        self.expect(door, "drift_state", kv.drift_state(&scope).await)?;
        for check in [DriftCheck::Observe, absent, never] {
            let set = SetOptions::default().with_drift(check);
            self.expect(door, "set", kv.set(&scope, &k, v.clone(), set.clone()).await)?;
            let delete = DeleteOptions::default().with_drift(check);
            self.expect(door, "delete", kv.delete(&scope, &k, delete).await)?;
            let update = UpdateOptions::default().with_drift(check);
            self.expect(door, "increment", kv.increment(&scope, &k, 1, update).await)?;
            self.expect(door, "update", kv.update(&scope, &k, Reducer::Merge(v.clone()), update).await)?;
            let mut item = NewEntry::new(k.clone(), v.clone());
            item.options = set;
            let bulk = BulkOptions::default();
            self.expect(door, "bulk_insert", kv.bulk_insert(&scope, vec![item], bulk).await)?;
            let plain = vec![NewEntry::new(k.clone(), v.clone())];
            self.expect(door, "bulk_insert", kv.bulk_insert(&scope, plain, bulk.with_drift(check)).await)?;
        }
        self.nothing_stored(&scope, door).await
    }

    async fn quotas(&self, kv: &dyn Backend, door: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let quota = Quota { max_entries: Some(100), max_bytes: None };
        let update = UpdateOptions::default().with_quota(quota);
        let set = SetOptions::default().with_quota(quota);
        self.expect(door, "set", kv.set(&scope, &k, v.clone(), set).await)?;
        self.expect(door, "increment", kv.increment(&scope, &k, 1, update).await)?;
        self.expect(door, "update", kv.update(&scope, &k, Reducer::Merge(v.clone()), update).await)?;
        let items = vec![NewEntry::new(k.clone(), v.clone())];
        let bulk = BulkOptions::default().with_quota(quota);
        self.expect(door, "bulk_insert", kv.bulk_insert(&scope, items, bulk).await)?;
        let record = Record::from(memory_core::Entry::new(k, v, 1, self.cx.now()));
        let import = ImportOptions::default().with_quota(quota);
        self.expect(
            door,
            "import_scope",
            kv.import_scope(&scope, stream::records(vec![Ok(record)]), import).await,
        )?;
        self.nothing_stored(&scope, door).await
    }

    async fn nothing_stored(&self, scope: &memory_core::Scope, door: &str) -> CaseResult {
        let keys = self.cx.keys(scope, ListQuery::default()).await?;
        check!(keys.is_empty(), "refused writes {door} left {keys:?} behind");
        Ok(())
    }
}
