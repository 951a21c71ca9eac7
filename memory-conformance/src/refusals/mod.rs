//! Refusals for capabilities that are not advertised.

mod backend;
mod layer;
mod provider;
mod refuser;
mod sql;

use memory_core::ScopeUsesQuery;

use crate::case::Need;
use crate::check::{CaseResult, check};
use crate::cx::Cx;
use refuser::Refuser;

/// Proves that everything `need` covers is refused, through `Checked` and by the provider itself, without effect.
pub(crate) async fn prove(cx: &Cx, need: Need) -> CaseResult {
    if need == Need::Kv {
        check!(cx.provider().backend().is_none(), "`kv` is not advertised, yet the facet is handed out");
        check!(cx.raw().backend().is_none(), "`kv` is not advertised, yet the provider hands the facet out");
    }
    let refuser = Refuser { need, cx };
    if need == Need::Tenants {
        refuser.expect("called through Checked", "tenants", cx.provider().tenants(None, 10).await)?;
        return refuser.expect("called on the provider itself", "tenants", cx.raw().tenants(None, 10).await);
    }
    if need == Need::ReadSnapshot {
        refuser.expect("called through Checked", "moment", cx.provider().read_snapshot().await)?;
        return refuser.expect("called on the provider itself", "moment", cx.raw().read_snapshot().await);
    }
    if need == Need::Eviction {
        for (via, provider) in
            [("called through Checked", cx.provider()), ("called on the provider itself", cx.raw())]
        {
            let tenant = cx.tenant();
            let uses = provider.scope_uses(&tenant, ScopeUsesQuery::default()).await;
            refuser.expect(via, "scope_uses", uses)?;
            refuser.expect(via, "evict", provider.evict(&cx.scope()?, cx.now()).await)?;
            refuser.expect(via, "reclaim", provider.reclaim().await)?;
        }
        return Ok(());
    }
    if need == Need::RunFence {
        return provider::unfenced(cx).await;
    }
    if need == Need::Erase {
        provider::erase(&refuser, cx.store().checked(), "called through Checked").await?;
        return provider::erase(&refuser, cx.raw(), "called on the provider itself").await;
    }
    if need.is_sql() {
        return sql::prove(&refuser).await;
    }
    if need.is_layer() {
        return layer::prove(&refuser).await;
    }
    backend::all(&refuser, cx.store().checked(), "called through Checked").await?;
    if let Some(raw) = cx.raw().backend() {
        backend::all(&refuser, raw, "called on the provider itself").await?;
    }
    Ok(())
}
