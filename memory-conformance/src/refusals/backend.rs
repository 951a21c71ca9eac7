//! Refusals of the key/value facet for capabilities that are not advertised.

use memory_core::Seen;
use memory_core::{
    Atomicity, Backend, BulkOptions, DeleteOptions, DriftCheck, DriftToken, Embed, Expect, GetOptions,
    ImportOptions, ListQuery, NewEntry, Quota, Record, Reducer, ReembedOptions, ScopesQuery, SearchMode,
    SearchQuery, SetOptions, UpdateOptions,
};

use super::refuser::Refuser;
use crate::case::Need;
use crate::check::CaseResult;
use crate::cx::{json, key};
use crate::stream;

/// Calls everything that `refuser.need` covers.
pub(super) async fn all(refuser: &Refuser<'_>, kv: &dyn Backend, via: &str) -> CaseResult {
    match refuser.need {
        Need::Kv => refuser.kv(kv, via).await,
        Need::Lexical => refuser.lexical(kv, via).await,
        Need::Vector => refuser.vector(kv, via).await,
        Need::Cas => refuser.cas(kv, via).await,
        Need::Quotas => refuser.quotas(kv, via).await,
        Need::Drift => refuser.drift(via).await,
        Need::Stats => refuser.expect(via, "stats", kv.stats(&refuser.cx.scope()?).await),
        Need::AtomicImport => refuser.atomic_import(kv, via).await,
        // These belong to other facets.
        _ => Ok(()),
    }
}

impl Refuser<'_> {
    async fn atomic_import(&self, kv: &dyn Backend, via: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        for atomicity in [Atomicity::Scope, Atomicity::Replacement, Atomicity::Mirror] {
            let record = Record::from(memory_core::Entry::new(key("k")?, json("1")?, 1, self.cx.now()));
            let options = ImportOptions::default().with_atomicity(atomicity);
            let import = kv.import_scope(&scope, stream::records(vec![Ok(record)]), options).await;
            self.expect(via, "import_scope", import)?;
        }
        self.nothing_stored(&scope, via).await
    }

    async fn kv(&self, kv: &dyn Backend, via: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let update = UpdateOptions::default();
        let items = vec![NewEntry::new(k.clone(), v.clone())];
        self.expect(via, "get", kv.get(&scope, &k, GetOptions::default()).await)?;
        self.expect(
            via,
            "get_many",
            kv.get_many(&scope, std::slice::from_ref(&k), GetOptions::default()).await,
        )?;
        self.expect(via, "set", kv.set(&scope, &k, v.clone(), SetOptions::default()).await)?;
        self.expect(via, "delete", kv.delete(&scope, &k, DeleteOptions::default()).await)?;
        self.expect(via, "list", kv.list(&scope, ListQuery::default()).await)?;
        self.expect(via, "increment", kv.increment(&scope, &k, 1, update).await)?;
        self.expect(via, "update", kv.update(&scope, &k, Reducer::Merge(v), update).await)?;
        self.expect(via, "bulk_insert", kv.bulk_insert(&scope, items, BulkOptions::default()).await)?;
        self.expect(via, "search", kv.search(&scope, SearchQuery::new("word")).await)?;
        self.expect(via, "stats", kv.stats(&scope).await)?;
        self.expect(via, "reembed", kv.reembed(&scope, ReembedOptions::default()).await)?;
        self.expect(via, "scopes", kv.scopes(&scope.tenant, ScopesQuery::default()).await)?;
        self.expect(via, "drop_scope", kv.drop_scope(&scope).await)?;
        self.expect(via, "export_scope", kv.export_scope(&scope).await.map(drop))?;
        let import = kv.import_scope(&scope, stream::records(Vec::new()), ImportOptions::default()).await;
        self.expect(via, "import_scope", import)
    }

    async fn lexical(&self, kv: &dyn Backend, via: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let search = |mode| kv.search(&scope, SearchQuery::new("word").with_mode(mode));
        self.expect(via, "search", search(SearchMode::Lexical).await)?;
        if !self.cx.capabilities().vector_search {
            self.expect(via, "search", search(SearchMode::Auto).await)?;
        }
        Ok(())
    }

    async fn vector(&self, kv: &dyn Backend, via: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let embed = SetOptions::default().with_embed(Embed::Always);
        for mode in [SearchMode::Vector, SearchMode::Hybrid] {
            let search = kv.search(&scope, SearchQuery::new("word").with_mode(mode)).await;
            self.expect(via, "search", search)?;
        }
        self.expect(via, "set", kv.set(&scope, &k, v.clone(), embed.clone()).await)?;
        let mut item = NewEntry::new(k, v);
        item.options = embed;
        self.expect(via, "bulk_insert", kv.bulk_insert(&scope, vec![item], BulkOptions::default()).await)?;
        self.expect(via, "reembed", kv.reembed(&scope, ReembedOptions::default()).await)?;
        self.nothing_stored(&scope, via).await
    }

    async fn cas(&self, kv: &dyn Backend, via: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        for expect in [Expect::Absent, Expect::Version(1), Expect::Sha256([0; 32])] {
            let options = SetOptions::default().with_expect(expect);
            self.expect(via, "set", kv.set(&scope, &k, v.clone(), options.clone()).await)?;
            self.expect(via, "delete", kv.delete(&scope, &k, DeleteOptions::expecting(expect)).await)?;
            let mut item = NewEntry::new(k.clone(), v.clone());
            item.options = options;
            self.expect(
                via,
                "bulk_insert",
                kv.bulk_insert(&scope, vec![item], BulkOptions::default()).await,
            )?;
        }
        self.nothing_stored(&scope, via).await
    }

    /// Only through `Checked`: a provider that does not know the option need not check it, because every call passes
    /// through `Checked`.
    async fn drift(&self, via: &str) -> CaseResult {
        let kv = self.cx.store().checked();
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let absent = DriftCheck::Row(Seen::Absent);
        let never = DriftCheck::Strict(DriftToken::new(0, 0, 0), None);
        self.expect(via, "drift_state", kv.drift_state(&scope).await)?;
        for check in [DriftCheck::Observe, absent, never] {
            let set = SetOptions::default().with_drift(check);
            self.expect(via, "set", kv.set(&scope, &k, v.clone(), set.clone()).await)?;
            let delete = DeleteOptions::default().with_drift(check);
            self.expect(via, "delete", kv.delete(&scope, &k, delete).await)?;
            let update = UpdateOptions::default().with_drift(check);
            self.expect(via, "increment", kv.increment(&scope, &k, 1, update).await)?;
            self.expect(via, "update", kv.update(&scope, &k, Reducer::Merge(v.clone()), update).await)?;
            let mut item = NewEntry::new(k.clone(), v.clone());
            item.options = set;
            let bulk = BulkOptions::default();
            self.expect(via, "bulk_insert", kv.bulk_insert(&scope, vec![item], bulk).await)?;
            let plain = vec![NewEntry::new(k.clone(), v.clone())];
            self.expect(via, "bulk_insert", kv.bulk_insert(&scope, plain, bulk.with_drift(check)).await)?;
        }
        self.nothing_stored(&scope, via).await
    }

    async fn quotas(&self, kv: &dyn Backend, via: &str) -> CaseResult {
        let scope = self.cx.scope()?;
        let (k, v) = (key("k")?, json("1")?);
        let quota = Quota { max_entries: Some(100), max_bytes: None };
        let update = UpdateOptions::default().with_quota(quota);
        let set = SetOptions::default().with_quota(quota);
        self.expect(via, "set", kv.set(&scope, &k, v.clone(), set).await)?;
        self.expect(via, "increment", kv.increment(&scope, &k, 1, update).await)?;
        self.expect(via, "update", kv.update(&scope, &k, Reducer::Merge(v.clone()), update).await)?;
        let items = vec![NewEntry::new(k.clone(), v.clone())];
        let bulk = BulkOptions::default().with_quota(quota);
        self.expect(via, "bulk_insert", kv.bulk_insert(&scope, items, bulk).await)?;
        let record = Record::from(memory_core::Entry::new(k, v, 1, self.cx.now()));
        let import = ImportOptions::default().with_quota(quota);
        self.expect(
            via,
            "import_scope",
            kv.import_scope(&scope, stream::records(vec![Ok(record)]), import).await,
        )?;
        self.nothing_stored(&scope, via).await
    }
}
