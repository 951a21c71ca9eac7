//! CAP: what is advertised is served, and nothing else.

use std::fmt::Debug;

use memory_core::layer::{AddOptions, FactsQuery, Message, Role};
use memory_core::sql::StatementOptions;
use memory_core::{
    Capabilities, ErrorKind, HealthStatus, MemoryLayer as _, Result, RunContext, ScopeId, SqlFacet as _,
};

use crate::case::{Need, cases};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::refusals;

cases! {
    "cap.flags.constant": [], ["CAP-2", "CAP-5"] => constant;
    "cap.facets.match-flags": [], ["CAP-1"] => facets;
    "cap.unadvertised.refused": [], ["CAP-3", "CAP-4"] => unadvertised;
    "cap.unadvertised.other-facets-refused": [], ["CAP-3"] => other_facets;
    "cap.health.ok": [], ["CAP-6"] => health;
}

async fn constant(cx: &Cx) -> CaseResult {
    let first = cx.raw().capabilities();
    cx.raw().health().await?;
    expect_eq!(cx.raw().capabilities(), first, "asked again");
    expect_eq!(cx.provider().capabilities(), first, "asked through Checked");
    let text = serde_json::to_string(&first)?;
    let back: Capabilities = serde_json::from_str(&text)?;
    expect_eq!(back, first, "after a JSON round trip");
    let contradictions = first.contradictions();
    check!(contradictions.is_empty(), "the flags contradict each other: {contradictions:?}");
    Ok(())
}

async fn facets(cx: &Cx) -> CaseResult {
    let flags = cx.capabilities();
    for (provider, door) in [(cx.provider(), "through Checked"), (cx.raw(), "asked directly")] {
        expect_eq!(provider.backend().is_some(), flags.kv, "`backend()` {door}, by the flag `kv`");
        expect_eq!(
            provider.layer().is_some(),
            flags.memory_layer,
            "`layer()` {door}, by the flag `memory_layer`"
        );
        expect_eq!(provider.sql().is_some(), flags.sql, "`sql()` {door}, by the flag `sql`");
    }
    Ok(())
}

async fn unadvertised(cx: &Cx) -> CaseResult {
    let capabilities = cx.capabilities();
    if !capabilities.kv {
        return refusals::prove(cx, Need::Kv).await;
    }
    for need in Need::ALL.into_iter().filter(|need| !need.is_met(&capabilities)) {
        refusals::prove(cx, need).await?;
    }
    Ok(())
}

async fn other_facets(cx: &Cx) -> CaseResult {
    let capabilities = cx.capabilities();
    let checked = cx.store().checked();
    let scope = cx.scope()?;
    let run = RunContext::new(cx.tenant(), ScopeId::new("agent")?, ScopeId::new("run")?);
    if !capabilities.memory_layer {
        let hello = Message::new(Role::User, "hello");
        refused(cx, "add", checked.add(&run, &scope, &[hello], AddOptions::default()).await)?;
        refused(cx, "facts", checked.facts(&run, &scope, FactsQuery::default()).await)?;
    }
    if !capabilities.sql {
        let options = StatementOptions::default();
        refused(cx, "exec", checked.exec(&run, &scope, "CREATE TABLE t (x)", &[], options.clone()).await)?;
        refused(cx, "query", checked.query(&run, &scope, "SELECT 1", &[], options).await)?;
        refused(cx, "begin", checked.begin(&run, &scope, None).await)?;
        refused(cx, "sql_usage", checked.sql_usage(&scope).await)?;
    }
    Ok(())
}

fn refused<T: Debug>(cx: &Cx, operation: &str, result: Result<T>) -> CaseResult {
    let error = expect_kind!(result, ErrorKind::Unsupported, "`{operation}`, not advertised");
    for (detail, due) in [("operation", operation), ("provider", cx.provider().name())] {
        let named = error.details().get(detail).and_then(|value| value.as_str());
        expect_eq!(named, Some(due), "details.{detail} of the refusal of `{operation}`");
    }
    Ok(())
}

async fn health(cx: &Cx) -> CaseResult {
    let health = cx.provider().health().await?;
    expect_eq!(health.status, HealthStatus::Ok, "the health of a provider just opened, `{}`", health.message);
    Ok(())
}
