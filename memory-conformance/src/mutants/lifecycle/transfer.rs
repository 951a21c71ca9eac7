//! EXP: export and import.

use memory_core::{Atomicity, Error, ErrorKind, Json, Next, OnExisting, Record, Reply, Request, Result};

use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::mutants::requests::kv;
use crate::reference::fault::Fault;
use crate::stream;

mutants! {
    |memory, request, next|
    "export.without-expiry": ["EXP-1", "EXP-4"], "expiry is missing"
        => exported(|records| records.iter_mut().for_each(|record| record.entry.expires_at = None));
    "export.without-versions": ["EXP-1", "EXP-4"], "versions are missing"
        => exported(|records| records.iter_mut().for_each(|record| record.entry.version = 1));
    "export.without-times": ["EXP-1", "EXP-4"], "exported entries have the current time" => exported(|records| without_times(records));
    "export.without-accesses": ["EXP-1", "EXP-4"], "access counts are missing"
        => exported(|records| records.iter_mut().for_each(|record| record.entry.access_count = 0));
    "export.without-text": ["EXP-1", "EXP-4"], "explicit texts are missing"
        => exported(|records| records.iter_mut().for_each(|record| record.entry.text = None));
    "export.without-vectors": ["EXP-1"], "vectors are missing" => exported(|records| records.iter_mut().for_each(|record| record.vectors.clear()));
    "export.vectors-unordered": ["EXP-1"], "vectors of an entry come in reverse order"
        => exported(|records| records.iter_mut().for_each(|record| record.vectors.reverse()));
    "export.unordered": ["EXP-1"], "records come in reverse order"
        => around(exported(request, next, |records| records.reverse()).await);
    "export.first-page-only": ["EXP-1"], "the export ends after 100 entries" => exported(|records| records.truncate(100));
    "export.long-values-left-out": ["EXP-1"], "entries of a megabyte are missing"
        => exported(|records| records.retain(|record| record.entry.value.len_bytes() < 1 << 20));
    "export.last-twice": ["EXP-1"], "the last record is repeated" => exported(|records| records.extend(records.last().cloned()));
    "export.key-with-quote-broken": ["EXP-3"], "a key with a quote makes the record invalid JSON"
        => exported(|records| {
            for record in records {
                // A float that JSON writes as null.
                if !record.entry.metadata.is_empty() {
                    record.entry.metadata.insert("lost", f64::NAN);
                }
            }
        });
    "import.renumbers": ["EXP-4"], "imported entries get new versions" => fault(Fault::ImportRenumbers);
    "import.times-are-now": ["EXP-4"], "imported entries get the current time" => imported(|record| record.entry.created_at = record.entry.updated_at);
    "import.resets-accesses": ["EXP-4"], "imported entries have no accesses" => imported(|record| record.entry.access_count = 0);
    "import.stores-same-again": ["EXP-5"], "importing again stores again" => fault(Fault::ImportStoresSame);
    "import.always-replaces": ["EXP-6"], "`skip` replaces" => ask(|request| on_existing(request, OnExisting::Skip, OnExisting::Replace));
    "import.never-replaces": ["EXP-6"], "`replace` keeps the stored entry" => ask(|request| on_existing(request, OnExisting::Replace, OnExisting::Skip));
    "import.fail-skips": ["EXP-6"], "`fail` skips" => ask(|request| on_existing(request, OnExisting::Fail, OnExisting::Skip));
    "import.expired-untold": ["EXP-7"], "expired records count as skipped"
        => answer(Reply::ImportScope(outcome) => outcome.skipped += std::mem::take(&mut outcome.expired));
    "import.expired-revived": ["EXP-7"], "expired records come back without an expiry" => imported(|record| record.entry.expires_at = None);
    "import.reuses-versions": ["EXP-8", "VER-2"], "a record reuses an earlier version of the key" => fault(Fault::ImportReusesVersions);
    "import.all-or-nothing": ["EXP-9"], "a malformed record undoes those before it"
        => over(Request::ImportScope { scope, records, options } => {
            let records = stream::collect(records).await?;
            let records = stream::records(records.into_iter().map(Ok).collect());
            Ok(Reply::ImportScope(kv(&next)?.import_scope(&scope, records, options).await?))
        });
    "import.counts-to-the-brim": ["EXP-9"], "an imported access count leaves no room for more"
        => imported(|record| if record.entry.access_count >= 1 << 62 { record.entry.access_count = u64::MAX >> 1; });
    "import.malformed-skipped": ["EXP-9"], "a malformed record is silently skipped" => around_ahead(malformed_skipped);
    "moment.moves": ["MOM-1", "MOM-2", "MOM-3"] needs [Kv, ReadSnapshot], "a read snapshot shows later writes" => fault(Fault::MomentMoves);
    "import.whole-in-steps": ["EXP-12", "EXP-13", "EXP-15"], "an atomic import stores record by record" => fault(Fault::ImportInSteps);
    "import.replacement-keeps": ["EXP-13"], "replacing a scope keeps its old entries"
        => ask(Request::ImportScope { options, .. } if options.atomicity == Atomicity::Replacement => {
            options.atomicity = Atomicity::Scope;
            options.on_existing = OnExisting::Replace;
        });
    "import.replaced-runs-begin-anew": ["EXP-8", "EXP-13"], "replacing a run resets its versions" => fault(Fault::ReplacedRunsBeginAnew);
    "import.replacement-drops-first": ["EXP-13"], "the old entries are dropped in a separate step"
        => ask(Request::ImportScope { scope, options, .. } if options.atomicity == Atomicity::Replacement
            => kv(&next)?.drop_scope(scope).await?);
    "import.mirror-keeps": ["EXP-15"], "mirroring keeps entries without a record" => ask(|request| mirror(request, Atomicity::Scope));
    "import.mirror-makes-anew": ["EXP-15"], "mirroring rewrites unchanged entries" => ask(|request| mirror(request, Atomicity::Replacement));
    "import.mirror-keeps-expired": ["EXP-15"], "mirroring keeps an entry whose record has expired" => fault(Fault::MirrorKeepsExpired);
    "import.line-feeds-lost": ["EXP-14"], "line feeds between a value's tokens become spaces"
        => imported(|record| {
            if let Ok(value) = Json::parse(record.entry.value.as_str().replace('\n', " ")) {
                record.entry.value = value;
            }
        });
    "import.position-untold": ["EXP-9"], "an error does not name the record" => around_ahead({
        let is_import = matches!(request, Request::ImportScope { .. });
        next.run(request).await.map_err(|error| match error.kind() {
            kind if is_import && kind != ErrorKind::Unsupported => Error::new(kind, error.message().to_owned()),
            _ => error,
        })
    });
}

/// Changes the records of an export.
async fn exported(
    request: Request,
    next: Next<'_>,
    change: impl FnOnce(&mut Vec<Record>) + Send,
) -> Result<Reply> {
    let Request::ExportScope { scope } = request else { return next.run(request).await };
    let mut records = stream::collect(kv(&next)?.export_scope(&scope).await?).await?;
    change(&mut records);
    Ok(Reply::ExportScope(stream::records(records.into_iter().map(Ok).collect())))
}

fn without_times(records: &mut [Record]) {
    let latest = records.iter().map(|record| record.entry.updated_at).max();
    if let Some(latest) = latest {
        records.iter_mut().for_each(|record| record.entry.created_at = record.entry.updated_at);
        records.iter_mut().for_each(|record| record.entry.updated_at = latest);
    }
}

fn on_existing(request: &mut Request, from: OnExisting, to: OnExisting) {
    if let Request::ImportScope { options, .. } = request
        && options.on_existing == from
    {
        options.on_existing = to;
    }
}

fn mirror(request: &mut Request, becomes: Atomicity) {
    if let Request::ImportScope { options, .. } = request
        && options.atomicity == Atomicity::Mirror
    {
        options.atomicity = becomes;
    }
}

async fn malformed_skipped(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::ImportScope { scope, mut records, options } = request else {
        return next.run(request).await;
    };
    let mut sound = Vec::new();
    let max = next.provider().capabilities().max_value_bytes;
    while let Some(record) = stream::next(&mut records).await {
        let record = record?;
        let entry = &record.entry;
        let is_sound = entry.version > 0
            && i64::try_from(entry.version).is_ok()
            && entry.updated_at >= entry.created_at
            && entry.value.len_bytes() <= max
            && entry.metadata.check().is_ok();
        if is_sound {
            sound.push(Ok(record));
        }
    }
    Ok(Reply::ImportScope(kv(&next)?.import_scope(&scope, stream::records(sound), options).await?))
}
