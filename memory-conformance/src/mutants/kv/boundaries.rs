//! Defects at the edges of a range, or missing from outcomes.

use memory_core::reduce::MAX_LIST_LIMIT;
use memory_core::{
    Error, ErrorKind, Json, Next, Reducer, Reply, Request, Result, Scalar, Scope, ScopeId, SetOptions,
    TenantId,
};

use super::versions::overwrite;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{change_scope, everything, kv};

mutants! {
    |memory, request, next|
    "truth.max-key-lies": ["KEY-1"], "a longer key limit is advertised than holds"
        => advertise(|_, inner| inner.max_key_bytes *= 2);
    "value.parser-stops-early": ["VAL-2"], "values pass through a parser that stops at 127 levels"
        => instead(Request::Set { value, .. } if serde_json::from_str::<serde_json::Value>(value.as_str()) .is_err_and(|error| error.to_string().contains("recursion limit"))
            => Err(Error::invalid("the value is nested too deeply; nest it less")));
    "metadata.long-text-is-cut": ["VAL-4"], "a metadata string is cut at 2,000 characters"
        => ask(|request| change_metadata(request, |metadata| {
            *metadata = metadata
                .iter()
                .map(|(name, value)| match value {
                    Scalar::Text(text) => (name.to_owned(), Scalar::Text(text.chars().take(2_000).collect())),
                    other => (name.to_owned(), other.clone()),
                })
                .collect();
        }));
    "metadata.fifty-members": ["VAL-4"], "only the first 50 members of the metadata are kept"
        => ask(|request| change_metadata(request, |metadata| {
            *metadata = metadata.iter().take(50).map(|(name, value)| (name.to_owned(), value.clone())).collect();
        }));
    "get-many.uncounted": ["GET-4"], "get_many does not count accesses"
        => ask(Request::GetMany { options, .. } => options.count_access = false);
    "increment.stores-a-float": ["INC-2"], "the sum is stored as 42.0"
        => over(Request::Increment { scope, key, delta, options } => {
            let mut outcome = kv(&next)?.increment(&scope, &key, delta, options).await?;
            let float = Json::parse(format!("{}.0", outcome.value))?;
            outcome.version = overwrite(&next, &scope, &key, float).await?;
            Ok(Reply::Increment(outcome))
        });
    "increment.expiry-untold": ["SET-7", "TTL-7"], "the outcome of an increment has no expiry"
        => answer(Reply::Increment(outcome) => outcome.expires_at = None);
    "increment.tells-old-version": ["SET-7"], "the outcome of an increment has the old version"
        => answer(Reply::Increment(outcome) => outcome.version -= 1);
    "update.expiry-untold": ["SET-7", "TTL-7"], "the outcome of an update has no expiry"
        => answer(Reply::Update(outcome) => outcome.expires_at = None);
    "update.tells-old-version": ["SET-7"], "the outcome of an update has the old version"
        => answer(Reply::Update(outcome) => outcome.version -= 1);
    "bounded.limit-clamped": ["UPD-4"], "a limit out of range is silently clamped"
        => ask_ahead(Request::Update { reducer: Reducer::BoundedList { limit, .. }, .. }
            => *limit = (*limit).clamp(1, MAX_LIST_LIMIT));
    "export.empty-fails": ["EXP-1"], "an empty scope cannot be exported"
        => instead(Request::ExportScope { scope } if everything(&next, scope).await?.is_empty()
            => Err(Error::new(ErrorKind::NotFound, "there is no such scope; write to it first")));
    "search.empty-fails": ["SRC-1"], "an empty scope cannot be searched"
        => instead(Request::Search { scope, .. } if everything(&next, scope).await?.is_empty()
            => Err(Error::new(ErrorKind::NotFound, "there is no such scope; write to it first")));
    "version.of-every-scope": ["ISO-4"], "writes to other scopes use up versions" => around(of_every_scope);
    "scope.joined-by-colons": ["ISO-1"], "a scope is `tenant:kind:id`"
        => ask(|request| change_scope(request, |scope| named(&format!("{}:{}:{}", scope.tenant, scope.kind, scope.id))));
    "scope.joined-without-kind": ["ISO-1"], "a scope is `tenant/id` in a folder of its kind"
        => ask(|request| change_scope(request, |scope| named(&format!("{}/{}/{}", scope.kind, scope.tenant, scope.id))));
    "scope.parts-run-together": ["ISO-1"], "a scope's parts are joined without a separator"
        => ask(|request| change_scope(request, |scope| named(&format!("{}{}{}", scope.kind, scope.tenant, scope.id))));
    "scope.names-a-path": ["ISO-1"], "an id is normalised like a file name"
        => ask(|request| change_scope(request, |scope| {
            let clean = |text: &str| text.replace('\\', "/").trim_matches(['/', '.']).to_owned();
            let id = Some(clean(scope.id.as_str())).filter(|id| !id.is_empty()).unwrap_or("root".to_owned());
            Ok(Scope { id: ScopeId::new(id)?, tenant: TenantId::new(scope.tenant.as_str())?, kind: scope.kind })
        }));
    "scope.long-id-cut": ["ISO-1"], "an id is cut at 255 bytes, like a file name"
        => ask(|request| change_scope(request, |scope| {
            let id = scope.id.as_str();
            let end = (0..=id.len().min(255)).rev().find(|at| id.is_char_boundary(*at)).unwrap_or(0);
            Ok(Scope { id: ScopeId::new(id.get(..end).unwrap_or(id))?, ..scope.clone() })
        }));
}

fn change_metadata(request: &mut Request, change: impl Fn(&mut memory_core::Metadata)) {
    match request {
        Request::Set { options, .. } => change(&mut options.metadata),
        Request::BulkInsert { items, .. } => {
            items.iter_mut().for_each(|item| change(&mut item.options.metadata));
        }
        _ => {}
    }
}

async fn of_every_scope(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::Set { scope, .. } = &request {
        let others = {
            let mut memory = memory.lock();
            memory.scopes.insert(scope.clone());
            memory.scopes.len() - 1
        };
        let spare = memory_core::Key::new("a key that uses up a version")?;
        for _ in 0..others {
            kv(&next)?.set(scope, &spare, Json::null(), SetOptions::default()).await?;
            kv(&next)?.delete(scope, &spare, memory_core::DeleteOptions::default()).await?;
        }
    }
    next.run(request).await
}

/// A scope shared by every scope with this name.
fn named(name: &str) -> Result<Scope> {
    let digest = Scope::agent("named", name.get(..name.len().min(256)).unwrap_or("long"))?.digest().to_hex();
    Scope::agent("named", &digest)
}
