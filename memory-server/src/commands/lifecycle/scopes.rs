//! `scopes`, `stats` and `describe`.

use clap::Args;
use memory::Access;
use memory_core::sql::{SqlScopesQuery, SqlUsage};
use memory_core::{
    Capabilities, Cursor, EmbeddingModel, Error, Health, Scope, ScopeKind, ScopeStats, ScopesQuery,
};
use serde::Serialize;

use crate::terminal::{Context, Exit, Failure, Opened, Out, bytes};

/// Options of `scopes`.
#[derive(Args, Debug)]
pub(crate) struct ScopesArgs {
    /// Scopes of this kind only: agent, user or run
    #[arg(long)]
    kind: Option<ScopeKind>,
    /// Scopes per page: 1 to 1,000
    #[arg(long, value_name = "N", default_value_t = 100)]
    limit: usize,
    /// The cursor that the previous page printed
    #[arg(long, conflicts_with = "all")]
    cursor: Option<String>,
    /// Print every page; with --json one scope per line
    #[arg(long)]
    all: bool,
    /// List scopes with a SQL database instead, with its size
    #[arg(long)]
    sql: bool,
}

/// `memory scopes`.
pub(crate) async fn scopes(context: &Context, args: ScopesArgs, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    if args.sql {
        return sql_scopes(&opened, args, out).await;
    }
    let backend = opened.backend("scopes")?;
    let mut cursor = args.cursor.map(Cursor::from_text);
    loop {
        let mut query = ScopesQuery::default().with_limit(args.limit).with_cursor(cursor);
        query.kind = args.kind;
        let page = backend.scopes(&opened.settings.tenant, query).await?;
        if out.is_json() {
            if !args.all {
                out.document(&page)?;
                return Ok(Exit::Ok);
            }
            for scope in &page.scopes {
                out.document(scope)?;
            }
        } else {
            let rows: Vec<[String; 4]> = page
                .scopes
                .iter()
                .map(|info| {
                    let scope = &info.scope;
                    [
                        scope.kind.to_string(),
                        info.entries.to_string(),
                        bytes(info.bytes),
                        scope.id.to_string(),
                    ]
                })
                .collect();
            out.table(["KIND", "ENTRIES", "SIZE", "ID"], &rows)?;
        }
        out.flush()?;
        cursor = page.next;
        if is_last(cursor.as_ref(), args.all) {
            return Ok(Exit::Ok);
        }
    }
}

/// Whether to stop after this page; prints the next cursor if there is one.
fn is_last(next: Option<&Cursor>, all: bool) -> bool {
    match next {
        Some(next) if !all => {
            crate::terminal::note(&format!("more: --cursor {}", next.as_str()));
            true
        }
        Some(_) => false,
        None => true,
    }
}

/// `memory scopes --sql`.
async fn sql_scopes(opened: &Opened, args: ScopesArgs, out: &mut Out) -> Result<Exit, Failure> {
    #[derive(Serialize)]
    struct Info<'a> {
        scope: &'a Scope,
        bytes: u64,
    }
    #[derive(Serialize)]
    struct Page<'a> {
        scopes: Vec<Info<'a>>,
        next: Option<Cursor>,
    }
    let memory = &opened.memory;
    let sql = memory.sql().ok_or_else(|| Error::unsupported("sql_scopes", memory.name()))?;
    let mut cursor = args.cursor.map(Cursor::from_text);
    loop {
        let mut query = SqlScopesQuery::default();
        (query.cursor, query.limit) = (cursor, args.limit);
        let page = sql.sql_scopes(&opened.settings.tenant, query).await?;
        let wanted = page.scopes.iter().filter(|(scope, _)| args.kind.is_none_or(|kind| kind == scope.kind));
        let scopes: Vec<Info<'_>> = wanted.map(|(scope, usage)| Info { scope, bytes: usage.bytes }).collect();
        if out.is_json() {
            if !args.all {
                out.document(&Page { scopes, next: page.next.clone() })?;
                return Ok(Exit::Ok);
            }
            for info in &scopes {
                out.document(info)?;
            }
        } else {
            let row =
                |info: &Info<'_>| [info.scope.kind.to_string(), bytes(info.bytes), info.scope.id.to_string()];
            let rows: Vec<[String; 3]> = scopes.iter().map(row).collect();
            out.table(["KIND", "SIZE", "ID"], &rows)?;
        }
        out.flush()?;
        cursor = page.next;
        if is_last(cursor.as_ref(), args.all) {
            return Ok(Exit::Ok);
        }
    }
}

/// `memory stats`.
pub(crate) async fn stats(context: &Context, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    let stats = opened.backend("stats")?.stats(opened.scope()).await?;
    let sql = match opened.memory.sql() {
        Some(sql) => Some(sql.sql_usage(opened.scope()).await?),
        None => None,
    };
    if out.is_json() {
        #[derive(Serialize)]
        struct Document<'a> {
            #[serde(flatten)]
            entries: &'a ScopeStats,
            #[serde(skip_serializing_if = "Option::is_none")]
            sql: Option<SqlUsage>,
        }
        out.document(&Document { entries: &stats, sql })?;
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
            model.missing
        ))?;
    }
    if let Some(usage) = sql {
        let quota = usage.quota_bytes.map_or_else(String::new, |quota| format!(" of {}", bytes(quota)));
        out.line(format!("sql       {}{quota}", bytes(usage.bytes)))?;
    }
    Ok(Exit::Ok)
}

#[derive(Serialize)]
struct Description<'a> {
    provider: &'a str,
    url: String,
    health: Health,
    /// The model that the store was opened with.
    embedding_model: Option<&'a EmbeddingModel>,
    capabilities: Capabilities,
}

/// `memory describe`.
pub(crate) async fn describe(context: &Context, out: &mut Out) -> Result<Exit, Failure> {
    let opened = context.open(Access::Read).await?;
    let description = Description {
        provider: opened.memory.name(),
        url: opened.settings.shown_url()?,
        health: opened.memory.health().await?,
        embedding_model: opened.memory.embedding_model(),
        capabilities: opened.memory.capabilities(),
    };
    if out.is_json() {
        out.document(&description)?;
        return Ok(Exit::Ok);
    }
    let Description { provider, url, health, embedding_model, capabilities } = description;
    out.line(format!("provider  {provider}"))?;
    out.line(format!("url       {url}"))?;
    let word = |value: serde_json::Result<serde_json::Value>| match value {
        Ok(serde_json::Value::String(word)) => word,
        Ok(other) => other.to_string(),
        Err(_) => String::new(),
    };
    let state = word(serde_json::to_value(health.status));
    out.line(format!("health    {state}: {}", health.message))?;
    if let Some(EmbeddingModel { provider, model, dimensions }) = embedding_model {
        out.line(format!("embedder  {provider} {model}, {dimensions} dimensions"))?;
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
            other => rest.push((name, word(Ok(other.clone())))),
        }
    }
    out.line(format!("serves    {}", serves.join(", ")))?;
    out.line(format!("refuses   {}", not.join(", ")))?;
    for (name, value) in rest {
        out.line(format!("{name:<16} {value}"))?;
    }
    Ok(Exit::Ok)
}
