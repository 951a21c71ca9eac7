//! EXP: export and import.

use memory_core::{Atomicity, Error, ErrorKind, Json, Next, OnExisting, Record, Reply, Request, Result};

use super::bend::{Memory, kv, mutants};
use crate::reference::fault::Fault;
use crate::stream;

mutants! {
    "export.without-expiry": ["EXP-1", "EXP-4"], "expiry is left out" => around(without_expiry);
    "export.without-versions": ["EXP-1", "EXP-4"], "versions are left out" => around(without_versions);
    "export.without-times": ["EXP-1", "EXP-4"], "entries look as if made now" => around(without_times);
    "export.without-accesses": ["EXP-1", "EXP-4"], "access counts are left out" => around(without_accesses);
    "export.without-text": ["EXP-1", "EXP-4"], "explicit texts are left out" => around(without_text);
    "export.without-vectors": ["EXP-1"], "vectors are left out" => around(without_vectors);
    "export.unordered": ["EXP-1"], "records come in reverse order" => around(unordered);
    "export.first-page-only": ["EXP-1"], "the export ends after 100 entries" => around(first_page_only);
    "export.long-values-left-out": ["EXP-1"], "entries of a megabyte are left out" => around(long_left_out);
    "export.last-twice": ["EXP-1"], "the last record comes twice" => around(last_twice);
    "export.key-with-quote-broken": ["EXP-3"], "a record's text does not survive JSON" => around(text_broken);
    "import.renumbers": ["EXP-4"], "imported entries get versions of their own" => fault(Fault::ImportRenumbers);
    "import.times-are-now": ["EXP-4"], "imported entries look as if made now" => around(times_are_now);
    "import.resets-accesses": ["EXP-4"], "imported entries were never accessed" => around(resets_accesses);
    "import.stores-same-again": ["EXP-5"], "importing again stores again" => fault(Fault::ImportStoresSame);
    "import.always-replaces": ["EXP-6"], "`skip` replaces" => ask(always_replaces);
    "import.never-replaces": ["EXP-6"], "`replace` keeps what is there" => ask(never_replaces);
    "import.fail-skips": ["EXP-6"], "`fail` skips" => ask(fail_skips);
    "import.expired-untold": ["EXP-7"], "expired records count as skipped" => answer(expired_untold);
    "import.expired-revived": ["EXP-7"], "expired records come back without an expiry" => around(expired_revived);
    "import.reuses-versions": ["EXP-8", "VER-2"], "a record brings back a version that the key had" => fault(Fault::ImportReusesVersions);
    "import.all-or-nothing": ["EXP-9"], "a malformed record takes back those before it" => around(all_or_nothing);
    "import.malformed-skipped": ["EXP-9"], "a malformed record is skipped in silence" => door_around(malformed_skipped);
    "moment.moves": ["MOM-1", "MOM-2", "MOM-3"] needs [Kv, Moment], "a moment shows what was written since" => fault(Fault::MomentMoves);
    "import.whole-in-steps": ["EXP-12", "EXP-13", "EXP-15"], "an import that is to be whole stores record by record" => fault(Fault::ImportInSteps);
    "import.replacement-keeps": ["EXP-13"], "what was there stays beside what takes its place" => ask(replacement_keeps);
    "import.replacement-drops-first": ["EXP-13"], "what was there goes in a step of its own" => around(drops_first);
    "import.mirror-keeps": ["EXP-15"], "what no record has stays beside what has one" => ask(mirror_keeps);
    "import.mirror-makes-anew": ["EXP-15"], "what says the same already is stored again" => ask(mirror_makes_anew);
    "import.line-feeds-lost": ["EXP-14"], "line feeds between a value's tokens become spaces" => around(line_feeds_lost);
    "import.position-untold": ["EXP-9"], "an error does not name the record" => door_around(position_untold);
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

async fn without_expiry(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.iter_mut().for_each(|record| record.entry.expires_at = None))
        .await
}

async fn without_versions(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.iter_mut().for_each(|record| record.entry.version = 1)).await
}

async fn without_times(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| {
        let latest = records.iter().map(|record| record.entry.updated_at).max();
        if let Some(latest) = latest {
            records.iter_mut().for_each(|record| record.entry.created_at = record.entry.updated_at);
            records.iter_mut().for_each(|record| record.entry.updated_at = latest);
        }
    })
    .await
}

async fn without_accesses(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.iter_mut().for_each(|record| record.entry.access_count = 0))
        .await
}

async fn without_text(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.iter_mut().for_each(|record| record.entry.text = None)).await
}

async fn without_vectors(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.iter_mut().for_each(|record| record.vectors.clear())).await
}

async fn unordered(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.reverse()).await
}

async fn first_page_only(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.truncate(100)).await
}

async fn long_left_out(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.retain(|record| record.entry.value.len_bytes() < 1 << 20)).await
}

async fn last_twice(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| records.extend(records.last().cloned())).await
}

async fn text_broken(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    exported(request, next, |records| {
        for record in records {
            // A float that JSON writes as null.
            if !record.entry.metadata.is_empty() {
                record.entry.metadata.insert("lost", f64::NAN);
            }
        }
    })
    .await
}

/// Changes the records of an import on their way in.
async fn imported(request: Request, next: Next<'_>, change: impl Fn(&mut Record) + Send) -> Result<Reply> {
    let Request::ImportScope { scope, mut records, options } = request else {
        return next.run(request).await;
    };
    let mut all = Vec::new();
    while let Some(record) = stream::next(&mut records).await {
        let failed = record.is_err();
        all.push(record.map(|mut record| {
            change(&mut record);
            record
        }));
        if failed {
            break;
        }
    }
    Ok(Reply::ImportScope(kv(&next)?.import_scope(&scope, stream::records(all), options).await?))
}

async fn times_are_now(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    imported(request, next, |record| record.entry.created_at = record.entry.updated_at).await
}

async fn resets_accesses(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    imported(request, next, |record| record.entry.access_count = 0).await
}

async fn expired_revived(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    imported(request, next, |record| record.entry.expires_at = None).await
}

fn on_existing(request: &mut Request, from: OnExisting, to: OnExisting) {
    if let Request::ImportScope { options, .. } = request
        && options.on_existing == from
    {
        options.on_existing = to;
    }
}

fn always_replaces(request: &mut Request) {
    on_existing(request, OnExisting::Skip, OnExisting::Replace);
}

fn never_replaces(request: &mut Request) {
    on_existing(request, OnExisting::Replace, OnExisting::Skip);
}

fn fail_skips(request: &mut Request) {
    on_existing(request, OnExisting::Fail, OnExisting::Skip);
}

fn replacement_keeps(request: &mut Request) {
    if let Request::ImportScope { options, .. } = request
        && options.atomicity == Atomicity::Replacement
    {
        options.atomicity = Atomicity::Scope;
        options.on_existing = OnExisting::Replace;
    }
}

fn mirror(request: &mut Request, becomes: Atomicity) {
    if let Request::ImportScope { options, .. } = request
        && options.atomicity == Atomicity::Mirror
    {
        options.atomicity = becomes;
    }
}

fn mirror_keeps(request: &mut Request) {
    mirror(request, Atomicity::Scope);
}

fn mirror_makes_anew(request: &mut Request) {
    mirror(request, Atomicity::Replacement);
}

async fn drops_first(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    if let Request::ImportScope { scope, options, .. } = &request
        && options.atomicity == Atomicity::Replacement
    {
        kv(&next)?.drop_scope(scope).await?;
    }
    next.run(request).await
}

async fn line_feeds_lost(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    imported(request, next, |record| {
        if let Ok(value) = Json::parse(record.entry.value.as_str().replace('\n', " ")) {
            record.entry.value = value;
        }
    })
    .await
}

fn expired_untold(reply: &mut Reply) {
    if let Reply::ImportScope(outcome) = reply {
        outcome.skipped += std::mem::take(&mut outcome.expired);
    }
}

async fn all_or_nothing(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let Request::ImportScope { scope, records, options } = request else { return next.run(request).await };
    let records = stream::collect(records).await?;
    let records = stream::records(records.into_iter().map(Ok).collect());
    Ok(Reply::ImportScope(kv(&next)?.import_scope(&scope, records, options).await?))
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

async fn position_untold(_: &Memory, request: Request, next: Next<'_>) -> Result<Reply> {
    let is_import = matches!(request, Request::ImportScope { .. });
    next.run(request).await.map_err(|error| match error.kind() {
        kind if is_import && kind != ErrorKind::Unsupported => Error::new(kind, error.message().to_owned()),
        _ => error,
    })
}
