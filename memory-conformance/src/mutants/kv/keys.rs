//! KEY, ISO: names mistaken for other names.

use memory_core::{Cursor, Reply, Request, Scope, ScopeId, ScopeKind, TenantId};

use crate::mutants::mutant::mutants;
use crate::mutants::requests::{change_keys, change_scope, kv};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "key.lower-cased": ["KEY-2"], "keys are lower-cased" => ask(|request| change_keys(request, str::to_lowercase));
    "key.composed": ["KEY-2"], "keys are normalised" => ask(|request| change_keys(request, compose));
    "key.trimmed": ["KEY-2"], "white space around keys is trimmed"
        => ask(|request| change_keys(request, |key| key.trim().to_owned()));
    "key.path-cleaned": ["KEY-2"], "`a/./b` and `a//b` are the same key as `a/b`"
        => ask(|request| change_keys(request, |key| {
            let parts: Vec<&str> = key.split('/').filter(|part| !part.is_empty() && *part != ".").collect();
            parts.join("/")
        }));
    "key.cut-at-255": ["KEY-1"], "keys are cut at 255 bytes" => ask(|request| change_keys(request, |key| {
        let end = (0..=255).rev().find(|end| key.is_char_boundary(*end)).unwrap_or(0);
        key.get(..end.min(key.len())).unwrap_or(key).to_owned()
    }));
    "scope.tenant-ignored": ["ISO-1"], "tenants share their scopes"
        => ask(|request| change_scope(request, |scope| Ok(Scope { tenant: TenantId::new("everybody")?, ..scope.clone() })));
    "scope.kind-ignored": ["ISO-1"], "an agent, a user and a run with the same id share a scope"
        => ask(|request| change_scope(request, |scope| Ok(Scope { kind: ScopeKind::Agent, ..scope.clone() })));
    "scope.parts-joined": ["ISO-1"], "a scope is `tenant/kind/id`, so separators in ids collide"
        => ask(|request| change_scope(request, |scope| {
            // As for a file name, without the lengths that separate the parts.
            let joined = scope.to_string();
            let digest =
                Scope::agent("joined", joined.get(..joined.len().min(256)).unwrap_or("long"))?.digest().to_hex();
            Scope::agent("joined", &digest)
        }));
    "scope.lower-cased": ["ISO-1"], "scope ids are lower-cased"
        => ask(|request| change_scope(request, |scope| {
            Ok(Scope { id: ScopeId::new(scope.id.as_str().to_lowercase())?, ..scope.clone() })
        }));
    "scope.composed": ["ISO-1"], "scope ids are normalised" => ask(|request| change_scope(request, |scope| {
        Ok(Scope { id: ScopeId::new(compose(scope.id.as_str()))?, ..scope.clone() })
    }));
    "scope.statistics-shared": ["ISO-3"], "word statistics cover all scopes" => fault(Fault::StatisticsOfAllScopes);
    "cursor.foreign-restarts": ["ISO-5", "LST-7"], "a foreign or malformed cursor restarts the listing"
        => over_ahead(Request::List { scope, mut query } => {
            let foreign = |cursor: &Cursor| cursor.key(&scope, &query.prefix).is_err();
            if query.cursor.as_ref().is_some_and(foreign) {
                query.cursor = None;
            }
            Ok(Reply::List(kv(&next)?.list(&scope, query).await?))
        });
    "cursor.foreign-scopes-restart": ["ISO-5", "SCO-2"], "a foreign cursor restarts the listing of scopes"
        => over_ahead(Request::Scopes { tenant, mut query } => {
            if query.cursor.as_ref().is_some_and(|cursor| cursor.scope(&tenant).is_err()) {
                query.cursor = None;
            }
            Ok(Reply::Scopes(kv(&next)?.scopes(&tenant, query).await?))
        });
}

/// One composition suffices: e with acute.
fn compose(text: &str) -> String {
    text.replace("e\u{301}", "\u{e9}").replace("a\u{30a}", "\u{e5}").replace("o\u{308}", "\u{f6}")
}
