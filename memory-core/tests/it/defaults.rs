//! Default methods, over a backend that is wrong about versions.
#![allow(clippy::unwrap_used, missing_docs)]

use std::sync::atomic::{AtomicUsize, Ordering};

use memory_core::backend::RecordStream;
use memory_core::{
    Backend, BulkOptions, DeleteOptions, DeleteOutcome, DropOutcome, Entry, Error, ErrorKind, GetOptions,
    ImportOptions, ImportOutcome, Json, Key, ListQuery, NewEntry, Page, Reducer, Result, Scope, ScopePage,
    ScopesQuery, SetOptions, SetOutcome, TenantId, Timestamp, UpdateOptions, async_trait,
};

use crate::wrappers::{key, now, scope};

/// Finds an entry, and refuses every version.
#[derive(Debug, Default)]
struct Stuck(AtomicUsize);

fn unasked<T>() -> Result<T> {
    Err(Error::invalid("not asked for"))
}

#[async_trait]
impl Backend for Stuck {
    async fn get_many(&self, _: &Scope, keys: &[Key], _: GetOptions) -> Result<Vec<Option<Entry>>> {
        let value = Json::parse("[]").unwrap();
        let entry = |key: &Key| Some(Entry::new(key.clone(), value.clone(), 7, Timestamp::EPOCH));
        Ok(keys.iter().map(entry).collect())
    }
    async fn set(&self, _: &Scope, _: &Key, _: Json, _: SetOptions) -> Result<SetOutcome> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Err(Error::conflict(None))
    }
    async fn delete(&self, _: &Scope, _: &Key, _: DeleteOptions) -> Result<DeleteOutcome> {
        unasked()
    }
    async fn list(&self, _: &Scope, _: ListQuery) -> Result<Page> {
        unasked()
    }
    async fn bulk_insert(&self, _: &Scope, _: Vec<NewEntry>, _: BulkOptions) -> Result<Vec<SetOutcome>> {
        unasked()
    }
    async fn scopes(&self, _: &TenantId, _: ScopesQuery) -> Result<ScopePage> {
        unasked()
    }
    async fn drop_scope(&self, _: &Scope) -> Result<DropOutcome> {
        unasked()
    }
    async fn export_scope(&self, _: &Scope) -> Result<RecordStream> {
        unasked()
    }
    async fn import_scope(&self, _: &Scope, _: RecordStream, _: ImportOptions) -> Result<ImportOutcome> {
        unasked()
    }
}

#[test]
fn a_version_that_is_refused_though_nobody_wrote_is_the_backends_fault_and_not_tried_again() {
    let stuck = Stuck::default();
    let reducer = Reducer::AppendDedupe(Json::from(1));
    let error = now(stuck.update(&scope(), &key(), reducer, UpdateOptions::default())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Internal);
    assert!(error.message().contains("Expect::Version"), "{error}");
    assert_eq!(stuck.0.load(Ordering::Relaxed), 1);
}
