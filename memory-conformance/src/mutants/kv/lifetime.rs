//! TTL: lifetimes.

use std::time::Duration;

use memory_core::limits::MAX_TTL_MILLIS;
use memory_core::{Reply, Request, Ttl};

use crate::mutants::mutant::mutants;
use crate::reference::fault::{Fault, Viewer};

mutants! {
    |memory, request, next|
    "ttl.boundary-inclusive": ["TTL-1"], "an entry is still live in its expiry millisecond" => fault(Fault::ExpiryInclusive);
    "ttl.one-more-millisecond": ["TTL-1"], "entries live one millisecond too long"
        => ask(|request| change_ttl(request, |ttl| {
            if let Ttl::After(duration) = ttl {
                *duration += Duration::from_millis(1);
            }
        }));
    "ttl.whole-seconds": ["TTL-1"], "lifetimes are rounded up to whole seconds"
        => ask(|request| change_ttl(request, |ttl| {
            if let Ttl::After(duration) = ttl {
                *duration =
                    Duration::from_secs(duration.as_millis().div_ceil(1_000).try_into().unwrap_or(u64::MAX));
            }
        }));
    "ttl.keep-forgets": ["TTL-2"], "`keep` clears the expiry"
        => ask(|request| change_ttl(request, |ttl| if *ttl == Ttl::Keep { *ttl = Ttl::Never; }));
    "ttl.keep-revives": ["TTL-2", "TTL-6"], "`keep` over an expired entry keeps its expiry" => fault(Fault::KeepRevivesExpiry);
    "ttl.never-keeps": ["TTL-3"], "`never` does not clear the expiry"
        => ask(|request| change_ttl(request, |ttl| if *ttl == Ttl::Never { *ttl = Ttl::Keep; }));
    "ttl.increment-forgets": ["INC-5"], "an increment clears the expiry"
        => ask(Request::Increment { options, .. } if options.ttl == Ttl::Keep => options.ttl = Ttl::Never);
    "ttl.increment-ignores": ["TTL-7"], "an increment ignores its lifetime"
        => ask(Request::Increment { options, .. } => options.ttl = Ttl::Keep);
    "ttl.update-ignores": ["TTL-7"], "an update ignores its lifetime"
        => ask(Request::Update { options, .. } => options.ttl = Ttl::Keep);
    "ttl.zero-means-never": ["TTL-4"], "a lifetime of zero means no limit"
        => ask_ahead(|request| change_ttl(request, |ttl| {
            if matches!(ttl, Ttl::After(duration) if duration.as_millis() == 0) {
                *ttl = Ttl::Never;
            }
        }));
    "ttl.too-long-is-clamped": ["TTL-4"], "a lifetime over 100 years is silently shortened"
        => ask_ahead(|request| change_ttl(request, |ttl| {
            if let Ttl::After(duration) = ttl {
                *duration = (*duration).min(Duration::from_millis(MAX_TTL_MILLIS));
            }
        }));
    "ttl.outcome-lies": ["SET-7"], "the outcome has no expiry"
        => answer(Reply::Set(outcome) => outcome.expires_at = None);
    "ttl.expired-in-get": ["TTL-5", "GET-2"], "get sees expired entries" => fault(Fault::Sees(Viewer::Get));
    "ttl.expired-in-get-many": ["TTL-5"], "get_many sees expired entries" => fault(Fault::Sees(Viewer::GetMany));
    "ttl.expired-in-list": ["TTL-5"], "list shows expired entries" => fault(Fault::Sees(Viewer::List));
    "ttl.search-boundary-inclusive": ["TTL-1", "TTL-5"], "search finds an entry in the millisecond of its expiry" => fault(Fault::SearchExpiryInclusive);
    "ttl.expired-in-search": ["TTL-5", "SRC-2"], "search finds expired entries" => fault(Fault::Sees(Viewer::Search));
    "ttl.expired-in-stats": ["TTL-5", "STA-1"], "stats count expired entries" => fault(Fault::Sees(Viewer::Stats));
    "ttl.expired-in-scopes": ["TTL-5", "SCO-1"], "scopes count expired entries" => fault(Fault::Sees(Viewer::Scopes));
    "ttl.expired-in-export": ["TTL-5", "EXP-1"], "expired entries are exported" => fault(Fault::Sees(Viewer::Export));
    "ttl.expired-in-import": ["TTL-5", "EXP-6"], "an import sees expired entries" => fault(Fault::Sees(Viewer::Import));
    "ttl.expired-in-quota": ["QUO-4"], "expired entries count against the quota" => fault(Fault::Sees(Viewer::Quota));
    "ttl.expired-in-set": ["TTL-5", "TTL-6"], "preconditions and `created` see expired entries" => fault(Fault::Sees(Viewer::Set));
    "ttl.expired-in-delete": ["TTL-5", "DEL-1"], "delete finds expired entries" => fault(Fault::Sees(Viewer::Delete));
    "ttl.expired-in-increment": ["INC-1"], "an increment continues from an expired entry" => fault(Fault::Sees(Viewer::Increment));
    "ttl.expired-in-update": ["UPD-5"], "an update continues from an expired entry" => fault(Fault::Sees(Viewer::Update));
    "ttl.expired-in-drop": ["SCO-4"], "dropping a scope counts expired entries" => fault(Fault::Sees(Viewer::Drop));
    "ttl.birth-survives": ["TTL-6"], "an entry over an expired one inherits its creation time and accesses" => fault(Fault::BirthSurvivesExpiry);
}

fn change_ttl(request: &mut Request, change: fn(&mut Ttl)) {
    match request {
        Request::Set { options, .. } => change(&mut options.ttl),
        Request::BulkInsert { items, .. } => items.iter_mut().for_each(|item| change(&mut item.options.ttl)),
        _ => {}
    }
}
