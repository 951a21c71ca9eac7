//! DRF: what a caller last saw is not checked, or checked too strictly.

use memory_core::Seen;
use memory_core::{DriftCheck, Error, ErrorKind, Next, Reply, Request, Result, Retry, SetOptions};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::{kv, let_others_in, peek};
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "drift.listed-unserved": ["DRF-1"], "advertised policies are not checked" => ask(|request| relax(request, DriftCheck::compares));
    "drift.unchecked": ["DRF-2"], "the seen version is not compared" => ask(unchecked);
    "drift.delete-unchecked": ["DRF-2"], "a delete does not compare versions"
        => ask(Request::Delete { options, .. } if options.drift.compares() => options.drift = DriftCheck::Observe);
    "drift.vanished-passes": ["DRF-3"], "an entry that vanished is created again" => ask(|request| {
        // A caller that saw a vanished entry is treated as if it had seen nothing.
        if let Request::Set { options, .. } = request
            && let DriftCheck::Row(Seen::Entry { version, expires_at: Some(_), digest }) = options.drift
        {
            let expires_at = Some(memory_core::Timestamp::EPOCH);
            options.drift = DriftCheck::Row(Seen::Entry { version, expires_at, digest });
        }
    });
    "drift.appeared-passes": ["DRF-4"], "an entry that appeared is overwritten"
        => ask(|request| relax(request, |check| *check == DriftCheck::Row(Seen::Absent)));
    "drift.expiry-refuses": ["DRF-3"], "an expiry counts as a foreign change"
        => ask(Request::Set { options, .. } => {
            if let DriftCheck::Row(Seen::Entry { version, digest, .. }) = options.drift {
                options.drift = DriftCheck::Row(Seen::Entry { version, expires_at: None, digest });
            }
        });
    "drift.row-looks-at-scope": ["DRF-5"], "a row check fails because another row changed" => fault(Fault::DriftRowSeesScope);
    "drift.refusal-moves": ["DRF-6"], "a refused write changes the token" => fault(Fault::DriftRefusalMoves);
    "drift.refusal-acknowledges": ["DRF-2"], "a refused write succeeds when sent again" => around(acknowledges);
    "drift.strict-unchecked": ["DRF-7"], "the token is not compared"
        => ask(|request| relax(request, |check| matches!(check, DriftCheck::Strict(..))));
    "drift.deletes-unseen": ["DRF-7", "DRF-11"], "a delete does not change the token" => fault(Fault::DriftDeleteStays);
    "drift.stored-refused": ["DRF-8"], "writing what is already stored is refused" => fault(Fault::DriftStoredRefused);
    "drift.checks-then-writes": ["DRF-9"], "the check and the write are separate steps" => around(checks_then_writes);
    "drift.untold": ["DRF-10"], "outcomes have no tokens" => answer(|reply| each(reply, |drift| *drift = None));
    "drift.told-unasked": ["DRF-10"], "outcomes have tokens that nobody asked for"
        => ask(Request::Set { options, .. } if options.drift == DriftCheck::Off => options.drift = DriftCheck::Observe);
    "drift.told-after-only": ["DRF-10"], "the token before the write equals the one after it"
        => answer(|reply| each(reply, |drift| if let Some(change) = drift { change.before = change.after; }));
    "drift.reads-move": ["DRF-11"], "a counted read changes the token" => fault(Fault::DriftReadMoves);
    "drift.generation-zero": ["DRF-12"], "the first write leaves the scope without a generation" => fault(Fault::DriftFromZero);
    "drift.tokens-of-all": ["DRF-13"], "all scopes share one token" => fault(Fault::DriftOfAllScopes);
    "drift.retryable": ["DRF-14"], "a refusal says to retry"
        => refuse(|_, error| if error.kind() == ErrorKind::DriftDetected { error.with_retry(Retry::Now) } else { error });
    "drift.reason-untold": ["DRF-14"], "a refusal does not name its reason" => refuse(|_, error| {
        if error.kind() == ErrorKind::DriftDetected {
            Error::new(ErrorKind::DriftDetected, "something is different").with_retry(Retry::Never)
        } else {
            error
        }
    });
    "drift.bulk-unchecked": ["DRF-15"], "items of a bulk insert are not checked"
        => ask(Request::BulkInsert { items, .. } => {
            items.iter_mut().filter(|item| item.options.drift.compares()).for_each(|item| {
                item.options.drift = DriftCheck::Observe;
            });
        });
    "drift.bulk-row-ignored": ["DRF-15"], "a row check of a whole bulk insert is ignored"
        => ask_ahead(Request::BulkInsert { options, .. } if matches!(options.drift, DriftCheck::Row(_))
            => options.drift = DriftCheck::Observe);
    "drift.bulk-scope-unchecked": ["DRF-15"], "the token of a bulk insert is not checked"
        => ask(Request::BulkInsert { options, .. } => options.drift = DriftCheck::Off);
    "drift.expect-not-exempt": ["DRF-16"], "a write with a precondition is checked for drift too" => fault(Fault::DriftWithExpect);
    "drift.counters-refused": ["DRF-16"], "an increment is refused because of drift"
        => instead(Request::Increment { options, .. } if options.drift.compares()
            => Err(Error::new(ErrorKind::DriftDetected, "somebody else counted").with_retry(Retry::Never)));
    "drift.unread-passes": ["DRF-17"], "what was never read is written over"
        => ask(|request| relax(request, |check| matches!(check, DriftCheck::Row(Seen::Unread(_)))));
    "drift.unread-refuses": ["DRF-17"], "what was there before the session began is not written over"
        => ask(Request::Set { options, .. } if matches!(options.drift, DriftCheck::Row(Seen::Unread(_)))
            => options.drift = DriftCheck::Row(Seen::Unread(0)));
}

fn relax(request: &mut Request, relaxed: fn(&DriftCheck) -> bool) {
    if let Request::Set { options, .. } = request
        && relaxed(&options.drift)
    {
        options.drift = DriftCheck::Observe;
    }
}

fn unchecked(request: &mut Request) {
    relax(request, |check| matches!(check, DriftCheck::Row(_)));
}

/// Treats whatever it finds as seen.
async fn acknowledges(memory: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Set { scope, key, value, mut options } = request else { return next.run(request).await };
    let name = format!("{scope}/{key}");
    if options.drift.compares() && memory.lock().notes.contains_key(&name) {
        options.drift = DriftCheck::Observe;
    }
    let result = kv(&next)?.set(&scope, &key, value, options).await;
    if result.as_ref().is_err_and(|error| error.kind() == ErrorKind::DriftDetected) {
        memory.lock().notes.insert(name, 1);
    }
    result.map(Reply::Set)
}

async fn checks_then_writes(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::Set { scope, key, value, options } = request else { return next.run(request).await };
    let DriftCheck::Row(seen) = options.drift else {
        return Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?));
    };
    let now = Seen::of(peek(&next, &scope, &key).await?.as_ref());
    if now != seen {
        return Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, options).await?));
    }
    let_others_in();
    let unchecked = SetOptions::with_drift(options, DriftCheck::Observe);
    Ok(Reply::Set(kv(&next)?.set(&scope, &key, value, unchecked).await?))
}

fn each(reply: &mut Reply, change: fn(&mut Option<memory_core::DriftChange>)) {
    match reply {
        Reply::Set(outcome) => change(&mut outcome.drift),
        Reply::Delete(outcome) => change(&mut outcome.drift),
        Reply::Increment(outcome) => change(&mut outcome.drift),
        Reply::Update(outcome) => change(&mut outcome.drift),
        Reply::BulkInsert(outcomes) => outcomes.iter_mut().for_each(|outcome| change(&mut outcome.drift)),
        _ => {}
    }
}
