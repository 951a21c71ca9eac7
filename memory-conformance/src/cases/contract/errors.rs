//! ERR: errors that help and leak nothing.

use memory_core::{
    Cursor, DeleteOptions, Error, ErrorKind, Expect, Field, Filter, ListQuery, Metadata, OnExisting, Reducer,
    Result, Scalar, Scope, ScopeId, ScopeKind, SearchMode, SearchQuery, SetOptions, Ttl, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, Stop, check};
use crate::cx::entries::{entries, item, item_with, string_of};
use crate::cx::{Cx, json, key, ms, source, tagged};

pub(crate) const CASES: &[Case] = &[
    case!("err.messages.codes-and-advice", [Kv], ["ERR-1"], |cx, scope: Scope| {
        full_of_secrets(cx, &scope).await?;
        for error in refusals(cx, &scope).await? {
            let (kind, message) = (error.kind(), error.message());
            check!(ErrorKind::ALL.contains(&kind), "an error has the unknown code {kind}");
            check!(
                !matches!(kind, ErrorKind::Internal | ErrorKind::Unavailable | ErrorKind::Timeout),
                "a refusal of bad input has the code {kind}: {message}"
            );
            check!(
                message.split_whitespace().count() >= 4,
                "the message of a refusal is not a sentence: `{message}`"
            );
            check!(message.len() < 1_000, "the message of a refusal has {} bytes", message.len());
        }
    }),
    case!("err.messages.no-stored-values", [Kv], ["ERR-2"], |cx, scope: Scope| {
        full_of_secrets(cx, &scope).await?;
        for error in refusals(cx, &scope).await? {
            let shown = shown(&error);
            check!(
                !shown.contains(SECRET),
                "an error of code {} shows what is stored: {shown}",
                error.kind()
            );
        }
    }),
    case!("err.messages.no-other-tenants", [Kv], ["ERR-2"], |cx| {
        let scope = cx.scope_named(ScopeKind::Agent, "own")?;
        cx.fill(&scope, &[("text", "\"a\""), ("object", "{}"), ("list", "[]")]).await?;
        let foreign = Scope::new(cx.tenant_below(SECRET)?, ScopeKind::Agent, ScopeId::new("own")?);
        full_of_secrets(cx, &foreign).await?;
        cx.set(&foreign, SECRET, "1").await?;
        let theirs = cx.kv().list(&foreign, ListQuery::default().with_limit(1)).await?.next;
        let mut errors = refusals(cx, &scope).await?;
        errors.push(error(cx.keys(&scope, ListQuery::default().with_cursor(theirs)).await)?);
        for error in errors {
            let shown = shown(&error);
            check!(
                !shown.contains(SECRET),
                "an error of code {} shows another tenant's text: {shown}",
                error.kind()
            );
        }
    }),
    case!("err.retry.as-the-kind", [Kv], ["ERR-3"], |cx, scope: Scope| {
        full_of_secrets(cx, &scope).await?;
        for error in refusals(cx, &scope).await? {
            let may = error.kind() == ErrorKind::Conflict;
            check!(
                error.retry().is_retryable() == may,
                "an error of code {} has the retry advice {:?}: {error}",
                error.kind(),
                error.retry()
            );
        }
    }),
    case!("err.retry.conflict", [Kv, Cas], ["ERR-1", "ERR-3"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let stale = SetOptions::default().with_expect(Expect::Absent);
        let conflict = error(cx.set_with(&scope, "k", "2", stale).await)?;
        check!(
            conflict.kind() == ErrorKind::Conflict,
            "a failed precondition has the code {}",
            conflict.kind()
        );
        check!(conflict.retry().is_retryable(), "a conflict says that reading and trying again is of no use");
        // The advice works: read, decide again, write.
        let version = cx.live(&scope, "k").await?.version;
        let again = cx
            .set_with(&scope, "k", "2", SetOptions::default().with_expect(Expect::Version(version)))
            .await?;
        check!(again.written, "a set with the version just read wrote nothing");
    }),
];

fn error<T>(result: Result<T>) -> CaseResult<Error> {
    match result {
        Err(error) => Ok(error),
        Ok(_) => Err(Stop::failed("a call that must be refused succeeded")),
    }
}

const SECRET: &str = "wombat-7731";

/// A scope full of the secret.
async fn full_of_secrets(cx: &Cx, scope: &Scope) -> CaseResult {
    let options = || -> Result<SetOptions> {
        Ok(tagged(Metadata::new().with(SECRET, SECRET)).with_text(SECRET).with_source(source(SECRET)?))
    };
    for (name, text) in [
        ("text", format!("\"{SECRET}\"")),
        ("object", format!(r#"{{"{SECRET}":1}}"#)),
        ("list", format!("[\"{SECRET}\"]")),
    ] {
        cx.set_with(scope, name, &text, options()?).await?;
    }
    Ok(())
}

/// Every refusal possible in a scope that holds `text`, `object` and `list`.
async fn refusals(cx: &Cx, scope: &Scope) -> CaseResult<Vec<Error>> {
    let capabilities = cx.capabilities();
    let kv = cx.kv();
    let text = key("text")?;
    let mut errors = vec![
        error(kv.increment(scope, &text, 1, UpdateOptions::default()).await)?,
        error(cx.update(scope, "text", Reducer::Merge(json("{}")?)).await)?,
        error(cx.update(scope, "object", Reducer::AppendDedupe(json("1")?)).await)?,
        error(cx.update(scope, "list", Reducer::BoundedList { item: json("1")?, limit: 0 }).await)?,
        error(cx.set(scope, "text", &string_of(capabilities.max_value_bytes + 1)).await)?,
        error(cx.set_with(scope, "text", "1", SetOptions::default().with_ttl(Ttl::After(ms(0)))).await)?,
        error(cx.set_with(scope, "text", "1", tagged(Metadata::new().with("", 1))).await)?,
        error(cx.bulk(scope, vec![item_with("text", "1", SetOptions::default().with_text("\0"))?]).await)?,
        error(cx.keys(scope, ListQuery::default().with_limit(0)).await)?,
        error(cx.keys(scope, ListQuery::default().with_limit(1_001)).await)?,
        error(cx.keys(scope, ListQuery::default().with_cursor(Some(Cursor::from_text("x")))).await)?,
        error(
            cx.keys(
                scope,
                ListQuery::default().with_filter(Filter::Eq(Field::CreatedAt, Scalar::from("soon"))),
            )
            .await,
        )?,
    ];
    let mut records = cx.export(scope).await?;
    if let Some(record) = records.first_mut() {
        record.entry.version = 0;
    }
    errors.push(error(cx.import(scope, records, OnExisting::Replace).await)?);
    errors.push(error(cx.import(scope, cx.export(scope).await?, OnExisting::Fail).await)?);
    if capabilities.compare_and_set {
        let stale = || SetOptions::default().with_expect(Expect::Version(u64::MAX));
        errors.push(error(cx.set_with(scope, "text", "1", stale()).await)?);
        errors.push(error(cx.bulk(scope, vec![item("text", "1")?, item_with("list", "1", stale())?]).await)?);
        errors.push(error(kv.delete(scope, &text, DeleteOptions::expecting(Expect::Absent)).await)?);
    }
    if capabilities.quotas {
        let none = SetOptions::default().with_quota(entries(0));
        errors.push(error(cx.set_with(scope, "new", "1", none).await)?);
    }
    if capabilities.lexical_search {
        let query = |text: &str| SearchQuery::new(text).with_mode(SearchMode::Lexical);
        errors.push(error(cx.find(scope, query(" ")).await)?);
        errors.push(error(cx.find(scope, query("x").with_top_k(0)).await)?);
        errors.push(error(cx.find(scope, query("x").with_threshold(2.0)).await)?);
    }
    Ok(errors)
}

/// Everything an error shows to a person or a program, including causes.
fn shown(error: &Error) -> String {
    let mut text = format!("{error} {error:?} {}", serde_json::Value::Object(error.details().clone()));
    let mut cause = std::error::Error::source(error);
    while let Some(inner) = cause {
        text.push_str(&format!(" {inner} {inner:?}"));
        cause = inner.source();
    }
    text
}
