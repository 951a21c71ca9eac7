//! `scopes`, `stats` and `describe`.

use clap::Args;
use memory::Access;
use memory::audit::OpUsage;
use memory::conversations::{TurnVectorStats, turn_vectors};
use memory_core::sql::{SqlScopesQuery, SqlUsage};
use memory_core::{
    Capabilities, Cursor, EmbeddingModel, Error, ErrorKind, Health, Scope, ScopeInfo, ScopeKind, ScopePage,
    ScopeStats, ScopesQuery,
};
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Opened, Out, PageArgs, bytes, word};

#[derive(Args, Debug)]
pub(crate) struct ScopesArgs {
    /// Scopes of this kind only: agent, user or run
    #[arg(long)]
    kind: Option<ScopeKind>,
    #[command(flatten)]
    page: PageArgs,
    /// List scopes with a SQL database instead, with its size
    #[arg(long)]
    sql: bool,
}

pub(crate) async fn scopes(context: &Context, args: ScopesArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    if args.sql {
        return sql_scopes(&opened, args, out).await;
    }
    let backend = opened.backend("scopes")?;
    let read = async |cursor: Option<String>, limit| {
        let cursor = cursor.map(Cursor::from_text);
        let mut query = ScopesQuery::default().with_limit(limit).with_cursor(cursor);
        query.kind = args.kind;
        backend.scopes(&opened.settings.tenant, query).await
    };
    fn parts(page: &ScopePage) -> (&[ScopeInfo], Option<&str>) {
        (&page.scopes, page.next.as_ref().map(Cursor::as_str))
    }
    let row = |ScopeInfo { scope, entries, bytes: size, .. }: &ScopeInfo| {
        [scope.kind.to_string(), entries.to_string(), bytes(*size), scope.id.to_string()]
    };
    let table = |out: &mut Out, scopes: &[ScopeInfo]| {
        out.table(["KIND", "ENTRIES", "SIZE", "ID"], &scopes.iter().map(row).collect::<Vec<_>>())
    };
    args.page.print(out, read, parts, table).await
}

async fn sql_scopes(opened: &Opened, args: ScopesArgs, out: &mut Out) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Info {
        scope: Scope,
        bytes: u64,
    }
    #[derive(Serialize)]
    struct Page {
        scopes: Vec<Info>,
        next: Option<Cursor>,
    }
    fn parts(page: &Page) -> (&[Info], Option<&str>) {
        (&page.scopes, page.next.as_ref().map(Cursor::as_str))
    }
    let memory = &opened.memory;
    let sql = memory.sql().ok_or_else(|| Error::unsupported("sql_scopes", memory.name()))?;
    let read = async |cursor: Option<String>, limit| {
        let mut query = SqlScopesQuery::default();
        (query.cursor, query.limit) = (cursor.map(Cursor::from_text), limit);
        let page = sql.sql_scopes(&opened.settings.tenant, query).await?;
        let wanted =
            page.scopes.into_iter().filter(|(scope, _)| args.kind.is_none_or(|kind| kind == scope.kind));
        let scopes = wanted.map(|(scope, usage)| Info { scope, bytes: usage.bytes }).collect();
        Ok(Page { scopes, next: page.next })
    };
    let row = |info: &Info| [info.scope.kind.to_string(), bytes(info.bytes), info.scope.id.to_string()];
    let table = |out: &mut Out, scopes: &[Info]| {
        out.table(["KIND", "SIZE", "ID"], &scopes.iter().map(row).collect::<Vec<_>>())
    };
    args.page.print(out, read, parts, table).await
}

pub(crate) async fn stats(context: &Context, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    let stats = opened.backend("stats")?.stats(opened.scope()).await?;
    let sql = match opened.memory.sql() {
        Some(sql) => match sql.sql_usage(opened.scope()).await {
            // Callers that may not use SQL there still see the entries.
            Err(error) if matches!(error.kind(), ErrorKind::ScopeDenied | ErrorKind::Forbidden) => None,
            usage => Some(usage?),
        },
        None => None,
    };
    let turns = match turn_vectors(&opened.memory) {
        Some(vectors) => Some(vectors.stats(opened.scope()).await?).filter(|turns| turns.turns > 0),
        None => None,
    };
    let calls = match opened.settings.audit_file() {
        Some(file) => memory::audit::usage(&file, &opened.settings.tenant).unwrap_or_default(),
        None => Vec::new(),
    };
    if out.is_json() {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            entries: &'a ScopeStats,
            /// The tenant's calls, according to the audit file.
            #[serde(skip_serializing_if = "Vec::is_empty")]
            calls: Vec<OpUsage>,
            #[serde(skip_serializing_if = "Option::is_none")]
            turns: Option<TurnVectorStats>,
            #[serde(skip_serializing_if = "Option::is_none")]
            sql: Option<SqlUsage>,
        }
        out.document(&Document { entries: &stats, calls, turns, sql })?;
        return Ok(Exit::Ok);
    }
    let ScopeStats { entries, expiring, .. } = stats;
    out.line(format!("scope     {}", opened.scope()))?;
    out.line(format!("entries   {entries}"))?;
    out.line(format!("size      {}", bytes(stats.bytes)))?;
    out.line(format!("expiring  {expiring}"))?;
    for model in &stats.models {
        out.line(format!(
            "vectors   {} {}: {} ({}), {} stale, {} missing",
            model.model.provider,
            model.model.model,
            model.rows,
            bytes(model.bytes),
            model.stale,
            model.missing.saturating_sub(model.stale)
        ))?;
        if model.stale > 0 {
            out.line("          stale ones have a vector of another model: they are found by words alone until `memory reembed`")?;
        }
    }
    if let Some(turns) = turns {
        tell_turns(out, &turns)?;
        if !stats.models.is_empty() {
            out.line("          these vectors are apart; as entries, turns have none and count as missing")?;
        }
    }
    if let Some(usage) = sql {
        let quota = usage.quota_bytes.map_or_else(String::new, |quota| format!(" of {}", bytes(quota)));
        out.line(format!("sql       {}{quota}", bytes(usage.bytes)))?;
    }
    for OpUsage { op, calls, failed, empty, median_ms, p99_ms, since, .. } in &calls {
        out.line(format!(
            "calls     {op}: {calls} since {since}, {failed} failed, {empty} found nothing; {median_ms:.1} ms (median), {p99_ms:.1} ms (99 %)"
        ))?;
    }
    Ok(Exit::Ok)
}

/// Whose vectors the turns have, and what to do about those without one of the current model.
fn tell_turns(out: &mut Out, turns: &TurnVectorStats) -> Result<(), Failure> {
    let TurnVectorStats { model, turns: all, stale, missing, stale_models, .. } = turns;
    let (name, current) = (&model.model, all - stale - missing);
    out.line(format!(
        "turns     {all}: {current} by {} {name}, {stale} stale, {missing} missing",
        model.provider
    ))?;
    for (other, turns) in stale_models {
        out.line(format!("          {turns} by {other}"))?;
    }
    if stale + missing > 0 {
        out.line("          stale and missing ones are found by words alone; `memory reembed` embeds them")?;
    }
    Ok(())
}

#[derive(Serialize)]
struct Description<'a> {
    provider: &'a str,
    url: String,
    health: Health,
    /// The model that the store was opened with.
    embedding_model: Option<&'a EmbeddingModel>,
    /// The model of its conversations.
    conversation_model: Option<&'a EmbeddingModel>,
    /// The language model of memory.toml.
    chat_model: Option<String>,
    capabilities: Capabilities,
}

pub(crate) async fn describe(context: &Context, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    let description = Description {
        provider: opened.memory.name(),
        url: opened.settings.shown_url()?,
        health: opened.memory.health().await?,
        embedding_model: opened.memory.embedding_model(),
        conversation_model: opened.memory.conversation_model(),
        chat_model: opened
            .settings
            .config
            .as_ref()
            .and_then(|config| config.file().models.chat.as_ref())
            .map(memory::config::ChatSection::shown),
        capabilities: opened.memory.capabilities(),
    };
    if out.is_json() {
        out.document(&description)?;
        return Ok(Exit::Ok);
    }
    let Description { provider, url, health, embedding_model, conversation_model, chat_model, capabilities } =
        description;
    out.line(format!("provider  {provider}"))?;
    out.line(format!("url       {url}"))?;
    out.line(format!("health    {}: {}", word(&health.status), health.message))?;
    if let Some(EmbeddingModel { provider, model, dimensions }) = embedding_model {
        out.line(format!("embedder  {provider} {model}, {dimensions} dimensions"))?;
    }
    if let Some(EmbeddingModel { provider, model, dimensions }) = conversation_model {
        out.line(format!("recall by {provider} {model}, {dimensions} dimensions"))?;
    }
    if let Some(model) = chat_model {
        out.line(format!("model     {model}"))?;
    }
    let capabilities = serde_json::to_value(&capabilities)
        .map_err(|error| Error::internal("capabilities have no JSON form").with_source(error))?;
    let members = capabilities.as_object().into_iter().flatten();
    let (mut serves, mut not, mut rest) = (Vec::new(), Vec::new(), Vec::new());
    for (name, value) in members {
        match value {
            serde_json::Value::Bool(true) => serves.push(name.as_str()),
            serde_json::Value::Bool(false) => not.push(name.as_str()),
            serde_json::Value::Null => {}
            other => rest.push((name, word(other))),
        }
    }
    out.line(format!("serves    {}", serves.join(", ")))?;
    out.line(format!("refuses   {}", not.join(", ")))?;
    for (name, value) in rest {
        out.line(format!("{name:<16} {value}"))?;
    }
    Ok(Exit::Ok)
}
