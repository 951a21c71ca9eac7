//! Refusals outside the facets.

use memory_core::sql::RestoreOptions;
use memory_core::{
    Backend as _, EraseTarget, ImportOptions, Provider, Record, ScopeKind, SqlFacet as _, Taken, Tombstone,
    TombstoneId, TombstonesOf,
};

use super::refuser::Refuser;
use crate::check::{CaseResult, check};
use crate::cx::{Cx, json, key};
use crate::stream;

/// There is nothing to refuse: after the end of a run its id can be used again.
pub(super) async fn unfenced(cx: &Cx) -> CaseResult {
    let scope = cx.scope_of(ScopeKind::Run)?;
    cx.set(&scope, "k", "1").await?;
    cx.provider().end_run(&scope.tenant, &scope.id).await?;
    check!(
        cx.set(&scope, "k", "2").await?.created,
        "`run_fence` is not advertised, yet a write after the end of a run did not start a new scope"
    );
    Ok(())
}

pub(super) async fn erase(refuser: &Refuser<'_>, provider: &dyn Provider, via: &str) -> CaseResult {
    let scope = refuser.cx.scope()?;
    let target = EraseTarget::Scope(scope.clone());
    refuser.expect(via, "erase", provider.erase(&target).await)?;
    refuser.expect(via, "tombstones", provider.tombstones(&TombstonesOf::Store, None, 10).await)?;
    let tombstone = Tombstone { id: TombstoneId::of(&target), at: refuser.cx.now(), version: 1 };
    refuser.expect(via, "bury", provider.bury(&[tombstone]).await)?;
    let checked = refuser.cx.store().checked();
    if refuser.cx.capabilities().kv {
        // Only through `Checked`, as for drift checks.
        let record = Record::from(memory_core::Entry::new(key("k")?, json("1")?, 1, refuser.cx.now()));
        let options = ImportOptions::default().with_taken(Taken::At(refuser.cx.now()));
        let import = checked.import_scope(&scope, stream::records(vec![Ok(record)]), options).await;
        refuser.expect(via, "import_scope", import)?;
        refuser.nothing_stored(&scope, via).await?;
    }
    if refuser.cx.capabilities().sql {
        let options = RestoreOptions::default().with_taken_at(Some(refuser.cx.now()));
        let restored = checked.restore(&scope, stream::lines(Vec::new()), options).await;
        refuser.expect(via, "restore", restored)?;
    }
    Ok(())
}
