//! Which requests may be repeated, and at which store.

use memory_core::{Expect, Op, Reply, Request};

/// Added to versions from the fallback, so that they are never mistaken for the primary's. The sum stays below 2^53, so
/// JSON readers that use doubles read it exactly.
pub(super) const FALLBACK_VERSIONS: u64 = 1 << 52;
/// Prefix of fact cursors from the fallback.
const FALLBACK_CURSOR: &str = "fallback:";
/// Most items of a journaled bulk insert.
const MAX_JOURNALED_ITEMS: usize = 1_000;

/// How a request may be treated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Treatment {
    /// Changes nothing; the fallback may answer.
    Read,
    /// A write whose result does not depend on what is stored; the fallback may take it if it is journaled.
    Write,
    /// Only the primary can answer.
    Primary,
}

pub(super) fn treatment(request: &Request) -> Treatment {
    match request {
        Request::Get { .. }
        | Request::GetMany { .. }
        | Request::List { .. }
        | Request::Search { .. }
        | Request::Stats { .. }
        | Request::Scopes { .. }
        | Request::Recall { .. }
        | Request::SqlScopes { .. }
        | Request::DescribeTables { .. }
        | Request::SqlUsage { .. } => Treatment::Read,
        // A cursor is valid only at its store.
        Request::Facts { query, .. } if query.cursor.is_none() => Treatment::Read,
        Request::Query { options, .. } if options.tx.is_none() => Treatment::Read,
        Request::Set { options, .. } if options.expect == Expect::Any => Treatment::Write,
        Request::Delete { options, .. } if options.expect == Expect::Any => Treatment::Write,
        Request::BulkInsert { items, .. } => {
            let mut keys: Vec<&str> = items.iter().map(|item| item.key.as_str()).collect();
            keys.sort_unstable();
            let distinct = keys.windows(2).all(|pair| pair.first() != pair.last());
            let plain = items.iter().all(|item| item.options.expect == Expect::Any);
            if distinct && plain && items.len() <= MAX_JOURNALED_ITEMS {
                Treatment::Write
            } else {
                Treatment::Primary
            }
        }
        // Conditions, sums, reducers and statements depend on the primary's contents; facts and events have its ids; a
        // repeated add cannot be recognised; and a copy of a scope must come from the primary.
        _ => Treatment::Primary,
    }
}

/// A copy of the request; `None` if it cannot be repeated.
#[allow(clippy::clone_on_copy, reason = "some options are Copy")]
pub(super) fn again(request: &Request) -> Option<Request> {
    macro_rules! copied {
        ($($variant:ident { $($field:ident),* })*) => {
            match request {
                $(Request::$variant { $($field),* } => {
                    Some(Request::$variant { $($field: $field.clone()),* })
                })*
                _ => None,
            }
        };
    }
    copied! {
        Get { scope, key, options }
        GetMany { scope, keys, options }
        List { scope, query }
        Search { scope, query }
        Stats { scope }
        Scopes { tenant, query }
        Recall { run, scope, query }
        Facts { run, scope, query }
        SqlScopes { tenant, query }
        DescribeTables { run, scope }
        SqlUsage { scope }
        Query { run, scope, sql, args, options }
        Set { scope, key, value, options }
        Delete { scope, key, options }
        BulkInsert { scope, items, options }
    }
}

/// Whether it concerns keys and values, which is all that journals hold.
pub(super) fn is_key_value(op: Op) -> bool {
    op.facet() == "Backend" && op != Op::DriftState
}

/// Whether the request continues a listing from the fallback; if so, it is converted for the fallback.
pub(super) fn continues_fallback(request: &mut Request) -> bool {
    if let Request::Facts { query, .. } = request
        && let Some(rest) = query.cursor.as_ref().and_then(|cursor| cursor.strip_prefix(FALLBACK_CURSOR))
    {
        query.cursor = Some(rest.to_owned());
        return true;
    }
    false
}

/// The fallback's answer, marked so that nothing in it can be mistaken for the primary's.
pub(super) fn marked(reply: Reply) -> Reply {
    let mark = |version: &mut u64| *version = version.saturating_add(FALLBACK_VERSIONS);
    match reply {
        Reply::Get(mut entry) => {
            entry.iter_mut().for_each(|entry| mark(&mut entry.version));
            Reply::Get(entry)
        }
        Reply::GetMany(mut entries) => {
            entries.iter_mut().flatten().for_each(|entry| mark(&mut entry.version));
            Reply::GetMany(entries)
        }
        Reply::List(mut page) => {
            page.entries.iter_mut().for_each(|entry| mark(&mut entry.version));
            Reply::List(page)
        }
        Reply::Search(mut results) => {
            results.hits.iter_mut().for_each(|hit| mark(&mut hit.entry.version));
            Reply::Search(results)
        }
        Reply::Set(mut outcome) => {
            mark(&mut outcome.version);
            Reply::Set(outcome)
        }
        Reply::BulkInsert(mut outcomes) => {
            outcomes.iter_mut().for_each(|outcome| mark(&mut outcome.version));
            Reply::BulkInsert(outcomes)
        }
        Reply::Facts(mut page) => {
            page.next = page.next.map(|cursor| format!("{FALLBACK_CURSOR}{cursor}"));
            Reply::Facts(page)
        }
        other => other,
    }
}
