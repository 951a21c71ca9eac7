//! ERR: errors that help and leak nothing.

use memory_core::ErrorKind::{Conflict, InvalidArgument, QuotaExceeded, TooLarge, WrongType};
use memory_core::{
    Cursor, DeleteOptions, Error, ErrorKind, Expect, Field, Filter, ListQuery, Metadata, OnExisting, Reducer,
    Result, Scalar, Scope, ScopeId, ScopeKind, SearchMode, SearchQuery, SetOptions, Ttl, UpdateOptions,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_kind};
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
        errors.push(expect_kind!(
            cx.keys(&scope, ListQuery::default().with_cursor(theirs)).await,
            InvalidArgument,
            "`list` from another tenant's cursor"
        ));
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
        let conflict = expect_kind!(
            cx.set_with(&scope, "k", "2", stale).await,
            Conflict,
            "`set` that expects no entry where there is one"
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

/// Every possible refusal in a scope that contains `text`, `object` and `list`.
async fn refusals(cx: &Cx, scope: &Scope) -> CaseResult<Vec<Error>> {
    let capabilities = cx.capabilities();
    let kv = cx.kv();
    let text = key("text")?;
    let mut errors = vec![
        expect_kind!(
            kv.increment(scope, &text, 1, UpdateOptions::default()).await,
            WrongType,
            "`increment` of a text"
        ),
        expect_kind!(
            cx.update(scope, "text", Reducer::Merge(json("{}")?)).await,
            WrongType,
            "`merge` into a text"
        ),
        expect_kind!(
            cx.update(scope, "object", Reducer::AppendDedupe(json("1")?)).await,
            WrongType,
            "`append_dedupe` to an object"
        ),
        expect_kind!(
            cx.update(scope, "list", Reducer::BoundedList { item: json("1")?, limit: 0 }).await,
            InvalidArgument,
            "`bounded_list` with the limit 0"
        ),
        expect_kind!(
            cx.set(scope, "text", &string_of(capabilities.max_value_bytes + 1)).await,
            TooLarge,
            "`set` of a value one byte over `max_value_bytes`"
        ),
        expect_kind!(
            cx.set_with(scope, "text", "1", SetOptions::default().with_ttl(Ttl::After(ms(0)))).await,
            InvalidArgument,
            "`set` with a lifetime of 0 ms"
        ),
        expect_kind!(
            cx.set_with(scope, "text", "1", tagged(Metadata::new().with("", 1))).await,
            InvalidArgument,
            "`set` with metadata without a name"
        ),
        expect_kind!(
            cx.bulk(scope, vec![item_with("text", "1", SetOptions::default().with_text("\0"))?]).await,
            InvalidArgument,
            "`bulk_insert` of a text with a NUL"
        ),
        expect_kind!(
            cx.keys(scope, ListQuery::default().with_limit(0)).await,
            InvalidArgument,
            "`list` with the limit 0"
        ),
        expect_kind!(
            cx.keys(scope, ListQuery::default().with_limit(1_001)).await,
            TooLarge,
            "`list` with the limit 1,001"
        ),
        expect_kind!(
            cx.keys(scope, ListQuery::default().with_cursor(Some(Cursor::from_text("x")))).await,
            InvalidArgument,
            "`list` from the cursor `x`"
        ),
        expect_kind!(
            cx.keys(
                scope,
                ListQuery::default().with_filter(Filter::Eq(Field::CreatedAt, Scalar::from("soon")))
            )
            .await,
            InvalidArgument,
            "`list` with `created_at` compared to a text"
        ),
    ];
    let mut records = cx.export(scope).await?;
    if let Some(record) = records.first_mut() {
        record.entry.version = 0;
    }
    errors.push(expect_kind!(
        cx.import(scope, records, OnExisting::Replace).await,
        InvalidArgument,
        "`import_scope` of a record with the version 0"
    ));
    errors.push(expect_kind!(
        cx.import(scope, cx.export(scope).await?, OnExisting::Fail).await,
        Conflict,
        "`import_scope` of keys that are there, with `on_existing` at `fail`"
    ));
    if capabilities.compare_and_set {
        let stale = || SetOptions::default().with_expect(Expect::Version(u64::MAX));
        errors.push(expect_kind!(
            cx.set_with(scope, "text", "1", stale()).await,
            Conflict,
            "`set` that expects another version"
        ));
        errors.push(expect_kind!(
            cx.bulk(scope, vec![item("text", "1")?, item_with("list", "1", stale())?]).await,
            Conflict,
            "`bulk_insert` whose second item expects another version"
        ));
        errors.push(expect_kind!(
            kv.delete(scope, &text, DeleteOptions::expecting(Expect::Absent)).await,
            Conflict,
            "`delete` that expects no entry where there is one"
        ));
    }
    if capabilities.quotas {
        let none = SetOptions::default().with_quota(entries(0));
        errors.push(expect_kind!(
            cx.set_with(scope, "new", "1", none).await,
            QuotaExceeded,
            "`set` over a quota of no entries"
        ));
    }
    if capabilities.lexical_search {
        let query = |text: &str| SearchQuery::new(text).with_mode(SearchMode::Lexical);
        for (what, query) in [
            ("`search` of a blank", query(" ")),
            ("`search` for no hits", query("x").with_top_k(0)),
            ("`search` over the threshold 2", query("x").with_threshold(2.0)),
        ] {
            errors.push(expect_kind!(cx.find(scope, query).await, InvalidArgument, "{what}"));
        }
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
