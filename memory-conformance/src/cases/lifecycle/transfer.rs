//! EXP: scopes moving between stores.

use memory_core::{
    Entry, Error, ErrorKind, Json, NewEntry, OnExisting, Record, Scope, ScopeKind, SetOptions, Ttl,
};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::entries::{detail, item, metadata, string_of};
use crate::cx::{Cx, key, ms, source};
use crate::stream;

pub(crate) const CASES: &[Case] = &[
    case!("export.records.every-live-entry", [Kv], ["EXP-1"], |cx| {
        let scope = varied(cx).await?;
        let entries = without_vectors(cx.export(&scope).await?);
        let keys: Vec<&str> = entries.iter().map(|entry| entry.key.as_str()).collect();
        expect_eq!(keys, ["counter", "full", "é/%_'\"\n"], "the keys exported");
        for entry in &entries {
            expect_eq!(
                *entry,
                cx.live(&scope, entry.key.as_str()).await?,
                "the entry exported, as get gives it"
            );
        }
        expect_eq!(without_vectors(cx.export(&scope).await?), entries, "the entries exported a second time");
    }),
    case!("export.records.many", [Kv], ["EXP-1"], |cx, scope: Scope| {
        let names: Vec<String> = (0..2_100).map(|at| format!("{at:04}")).collect();
        let items =
            names.iter().map(|name| item(name, "1")).collect::<memory_core::Result<Vec<NewEntry>>>()?;
        cx.bulk(&scope, items).await?;
        let exported = without_vectors(cx.export(&scope).await?);
        let keys: Vec<&str> = exported.iter().map(|entry| entry.key.as_str()).collect();
        check!(keys == names, "2,100 entries were exported as {} records, or not in order", keys.len());
        let copy = cx.scope()?;
        let outcome = cx.import(&copy, cx.export(&scope).await?, OnExisting::Skip).await?;
        expect_eq!(outcome.created, 2_100, "records created by the import");
    }),
    case!("export.records.large", [Kv], ["EXP-1"], |cx, scope: Scope, copy: Scope| {
        let value = string_of(cx.capabilities().max_value_bytes);
        for name in ["a", "b", "c"] {
            cx.set(&scope, name, &value).await?;
        }
        cx.import(&copy, cx.export(&scope).await?, OnExisting::Skip).await?;
        for name in ["a", "b", "c"] {
            check!(
                cx.text(&copy, name).await?.as_ref() == Some(&value),
                "the largest value of `{name}` came through changed"
            );
        }
    }),
    case!("export.records.empty-scope", [Kv], ["EXP-1"], |cx, scope: Scope| {
        expect_eq!(cx.export(&scope).await?.len(), 0, "records of a scope never written");
        let outcome = cx.import(&scope, Vec::new(), OnExisting::Fail).await?;
        expect_eq!(
            (outcome.created, outcome.replaced, outcome.skipped, outcome.expired),
            (0, 0, 0, 0),
            "an import of nothing"
        );
    }),
    case!("export.records.json-round-trip", [Kv], ["EXP-3"], |cx| {
        let scope = varied(cx).await?;
        let records = cx.export(&scope).await?;
        let mut lines = Vec::new();
        for record in &records {
            lines.push(serde_json::to_string(record)?);
        }
        check!(lines.iter().all(|line| !line.contains('\n')), "a record as JSON has more than one line");
        let mut back = Vec::new();
        for line in &lines {
            back.push(serde_json::from_str::<Record>(line)?);
        }
        expect_eq!(back, records, "the records after a JSON round trip");
        let copy = cx.scope()?;
        cx.import(&copy, back, OnExisting::Fail).await?;
        expect_eq!(
            without_vectors(cx.export(&copy).await?),
            without_vectors(records),
            "the entries imported from JSON"
        );
    }),
    case!("export.import.keeps-everything", [Kv], ["EXP-4"], |cx| {
        let scope = varied(cx).await?;
        let records = cx.export(&scope).await?;
        cx.advance_ms(500);
        for kind in ScopeKind::ALL {
            let copy = cx.scope_of(kind)?;
            let outcome = cx.import(&copy, records.clone(), OnExisting::Skip).await?;
            expect_eq!(
                (outcome.created, outcome.replaced, outcome.skipped, outcome.expired),
                (3, 0, 0, 0),
                "the outcome"
            );
            expect_eq!(
                without_vectors(cx.export(&copy).await?),
                without_vectors(records.clone()),
                "the entries of the copy"
            );
        }
    }),
    case!("export.import.again-changes-nothing", [Kv], ["EXP-5"], |cx| {
        let scope = varied(cx).await?;
        let records = cx.export(&scope).await?;
        let copy = cx.scope()?;
        for into in [&scope, &copy] {
            cx.import(into, records.clone(), OnExisting::Skip).await?;
            let before = cx.export(into).await?;
            cx.advance_ms(1);
            for on_existing in [OnExisting::Skip, OnExisting::Replace] {
                let outcome = cx.import(into, records.clone(), on_existing).await?;
                expect_eq!(
                    (outcome.created, outcome.replaced, outcome.skipped, outcome.expired),
                    (0, 0, 3, 0),
                    "the outcome of importing the same again with {on_existing:?}"
                );
                expect_eq!(cx.export(into).await?, before, "the entries after importing the same again");
            }
            let failed = cx.import(into, records.clone(), OnExisting::Fail).await;
            expect_kind!(
                failed,
                ErrorKind::Conflict,
                "importing the same again if existing keys are an error"
            );
        }
    }),
    case!("export.import.replace-again-changes-nothing", [Kv], ["EXP-5"], |cx| {
        let scope = varied(cx).await?;
        let records = cx.export(&scope).await?;
        let copy = cx.scope()?;
        cx.fill(&copy, &[("full", "1"), ("counter", "1")]).await?;
        let outcome = cx.import(&copy, records.clone(), OnExisting::Replace).await?;
        expect_eq!((outcome.created, outcome.replaced, outcome.skipped), (1, 2, 0), "the first outcome");
        let before = cx.export(&copy).await?;
        cx.access(&copy, "full").await?;
        let outcome = cx.import(&copy, records, OnExisting::Replace).await?;
        expect_eq!((outcome.created, outcome.replaced, outcome.skipped), (0, 0, 3), "the second outcome");
        let versions =
            |records: &[Record]| -> Vec<u64> { records.iter().map(|record| record.entry.version).collect() };
        expect_eq!(
            versions(&cx.export(&copy).await?),
            versions(&before),
            "the versions after the second import"
        );
    }),
    case!("export.import.skip", [Kv], ["EXP-6"], |cx| {
        let (scope, records) = overlapping(cx).await?;
        let before = cx.live(&scope, "b").await?;
        let outcome = cx.import(&scope, records, OnExisting::Skip).await?;
        expect_eq!((outcome.created, outcome.replaced, outcome.skipped), (1, 0, 1), "the outcome");
        expect_eq!(cx.live(&scope, "b").await?, before, "the entry that was there");
        expect_eq!(cx.text(&scope, "c").await?.as_deref(), Some("\"new\""), "the entry that was not");
    }),
    case!("export.import.replace", [Kv], ["EXP-6"], |cx| {
        let (scope, records) = overlapping(cx).await?;
        let before = cx.live(&scope, "b").await?;
        let outcome = cx.import(&scope, records, OnExisting::Replace).await?;
        expect_eq!((outcome.created, outcome.replaced, outcome.skipped), (1, 1, 0), "the outcome");
        let after = cx.live(&scope, "b").await?;
        expect_eq!(after.value.as_str(), "\"new\"");
        expect_eq!(after.metadata, metadata(r#"{"from":"elsewhere"}"#)?);
        expect_eq!(after.source, Some(source("import")?));
        check!(
            after.version > before.version,
            "version {} replaced version {}",
            after.version,
            before.version
        );
        expect_eq!(cx.text(&scope, "a").await?.as_deref(), Some("\"old\""), "an entry that no record names");
    }),
    case!("export.import.fail", [Kv], ["EXP-6"], |cx| {
        let (scope, mut records) = overlapping(cx).await?;
        // First `c`, then the existing one, then one that must not be reached.
        records.reverse();
        records.push(Record::from(Entry::new(key("d")?, Json::null(), 1, cx.now())));
        let before = cx.live(&scope, "b").await?;
        let error = expect_kind!(
            cx.import(&scope, records, OnExisting::Fail).await,
            ErrorKind::Conflict,
            "an import over an existing key"
        );
        expect_eq!(detail(&error, "current_version"), Some(before.version), "details.current_version");
        expect_eq!(cx.all_keys(&scope).await?, ["a", "b", "c"], "the keys stored before the conflict");
        expect_eq!(cx.live(&scope, "b").await?, before, "the entry that was there");
    }),
    case!("export.import.same-key-twice", [Kv], ["EXP-6"], |cx| {
        let record = |text: &str, version| -> memory_core::Result<Record> {
            Ok(Record::from(Entry::new(key("k")?, crate::cx::json(text)?, version, cx.now())))
        };
        for (on_existing, due) in [(OnExisting::Skip, "1"), (OnExisting::Replace, "2")] {
            let scope = cx.scope()?;
            cx.import(&scope, vec![record("1", 5)?, record("2", 5)?], on_existing).await?;
            expect_eq!(
                cx.text(&scope, "k").await?.as_deref(),
                Some(due),
                "the value after two records with {on_existing:?}"
            );
        }
        let scope = cx.scope()?;
        let result = cx.import(&scope, vec![record("1", 5)?, record("2", 5)?], OnExisting::Fail).await;
        expect_kind!(result, ErrorKind::Conflict, "two records of one key");
        expect_eq!(cx.text(&scope, "k").await?.as_deref(), Some("1"), "the value after the conflict");
    }),
    case!("export.import.expired-left-out", [Kv], ["EXP-7"], |cx, from: Scope, to: Scope| {
        for (name, life) in [("a", 10), ("b", 11), ("c", 1_000)] {
            cx.set_with(&from, name, "1", cx.expiring(life)).await?;
        }
        let records = cx.export(&from).await?;
        cx.set(&to, "a", "2").await?;
        cx.advance_ms(10);
        let outcome = cx.import(&to, records.clone(), OnExisting::Replace).await?;
        expect_eq!(
            (outcome.created, outcome.replaced, outcome.expired),
            (2, 0, 1),
            "the outcome at the first expiry"
        );
        expect_eq!(cx.text(&to, "a").await?.as_deref(), Some("2"), "the entry that an expired record names");
        cx.advance_ms(1);
        expect_eq!(cx.all_keys(&to).await?, ["a", "c"], "the keys at the second expiry");
        let copy = cx.scope()?;
        let outcome = cx.import(&copy, records, OnExisting::Fail).await?;
        expect_eq!((outcome.created, outcome.expired), (1, 2), "the outcome at the second expiry");
    }),
    case!("export.import.over-expired", [Kv], ["EXP-6", "TTL-5"], |cx, from: Scope, to: Scope| {
        cx.set(&from, "k", "\"new\"").await?;
        let records = cx.export(&from).await?;
        cx.set(&to, "k", "1").await?;
        let last = cx.set_with(&to, "k", "2", cx.expiring(5)).await?.version;
        cx.advance_ms(5);
        let outcome = cx.import(&to, records, OnExisting::Fail).await?;
        expect_eq!(
            (outcome.created, outcome.replaced, outcome.skipped),
            (1, 0, 0),
            "the outcome over an expired entry"
        );
        let entry = cx.live(&to, "k").await?;
        expect_eq!(entry.value.as_str(), "\"new\"");
        expect_eq!(entry.expires_at, None, "the expiry of the entry imported");
        check!(entry.version > last, "version {} came after version {last}", entry.version);
    }),
    case!("export.import.versions-unique", [Kv], ["EXP-8", "VER-2"], |cx, scope: Scope| {
        cx.set(&scope, "k", "1").await?;
        let old = cx.export(&scope).await?;
        let mut last = cx.set(&scope, "k", "2").await?.version;
        for way in ["deleted", "dropped"] {
            match way {
                "deleted" => drop(cx.delete(&scope, "k").await?),
                _ => drop(cx.kv().drop_scope(&scope).await?),
            }
            cx.import(&scope, old.clone(), OnExisting::Skip).await?;
            let version = cx.live(&scope, "k").await?.version;
            check!(
                version > last,
                "a key that was {way} at version {last} came back by import as version {version}"
            );
            last = cx.set(&scope, "k", "3").await?.version;
            check!(last > version, "version {last} came after version {version}");
        }
    }),
    case!("export.import.versions-go-on", [Kv], ["EXP-8", "VER-1"], |cx, scope: Scope| {
        let far = Record::from(Entry::new(key("k")?, Json::null(), 1_000, cx.now()));
        cx.import(&scope, vec![far], OnExisting::Skip).await?;
        expect_eq!(cx.live(&scope, "k").await?.version, 1_000, "the version imported");
        let next = cx.set(&scope, "k", "1").await?.version;
        check!(next > 1_000, "version {next} came after the imported version 1000");
        cx.delete(&scope, "k").await?;
        let again = cx.set(&scope, "k", "2").await?.version;
        check!(again > next, "version {again} came after version {next}, across a delete");
    }),
    case!("export.import.greatest-version", [Kv], ["EXP-8", "EXP-9"], |cx, scope: Scope| {
        let record = |version| -> memory_core::Result<Record> {
            Ok(Record::from(Entry::new(key("k")?, Json::null(), version, cx.now())))
        };
        for version in [0, 1 << 63, u64::MAX] {
            let result = cx.import(&scope, vec![record(version)?], OnExisting::Skip).await;
            expect_kind!(result, ErrorKind::InvalidArgument, "a record of version {version}");
        }
        let greatest = 1 << 62;
        for version in [greatest, greatest + 1, u64::MAX >> 1] {
            let scope = cx.scope()?;
            cx.import(&scope, vec![record(version)?], OnExisting::Skip).await?;
            expect_eq!(cx.live(&scope, "k").await?.version, greatest, "what became of version {version}");
            let next = cx.set(&scope, "k", "1").await?.version;
            check!(next > greatest, "version {next} came after version {greatest}");
            cx.set(&scope, "other", "1").await?;
            let copy = cx.scope()?;
            cx.import(&copy, cx.export(&scope).await?, OnExisting::Skip).await?;
            expect_eq!(cx.all_keys(&copy).await?, ["k", "other"], "the keys of a copy after later writes");
        }
    }),
    case!("export.import.greatest-access-count", [Kv], ["EXP-9"], |cx, scope: Scope| {
        let own = cx.on(cx.open().await?);
        let mut often = Entry::new(key("often")?, Json::null(), 1, cx.now());
        often.access_count = u64::MAX;
        let once = Entry::new(key("once")?, Json::null(), 1, cx.now());
        own.import(&scope, vec![Record::from(often), Record::from(once)], OnExisting::Skip).await?;
        for name in ["often", "once"] {
            own.access(&scope, name).await?;
        }
        // Stores the counts.
        own.provider().close().await?;
        let beside = cx.on(own.store().another_handle().await?);
        for (name, due) in [("often", (1 << 62) + 1), ("once", 1)] {
            expect_eq!(beside.live(&scope, name).await?.access_count, due, "accesses of `{name}`");
        }
    }),
    case!("export.import.malformed-ends", [Kv], ["EXP-9"], |cx| {
        let entry = |name: &str| -> memory_core::Result<Entry> {
            Ok(Entry::new(key(name)?, Json::null(), 1, cx.now()))
        };
        let mut long = entry("bad")?;
        long.value = crate::cx::json(&string_of(cx.capabilities().max_value_bytes + 1))?;
        let mut nul = entry("bad")?;
        nul.text = Some("a\0b".to_owned());
        let mut backwards = entry("bad")?;
        backwards.created_at = cx.now().checked_add(ms(1)).unwrap_or_default();
        let mut nameless = entry("bad")?;
        nameless.metadata.insert("", 1);
        let mut unversioned = entry("bad")?;
        unversioned.version = 0;
        for (what, kind, bad) in [
            ("a long value", ErrorKind::TooLarge, long),
            ("a NUL in its text", ErrorKind::InvalidArgument, nul),
            ("an update before its creation", ErrorKind::InvalidArgument, backwards),
            ("a nameless member", ErrorKind::InvalidArgument, nameless),
            ("version 0", ErrorKind::InvalidArgument, unversioned),
        ] {
            let scope = cx.scope()?;
            let records = [entry("a")?, entry("b")?, bad, entry("c")?].map(Record::from);
            let result = cx.import(&scope, records.into(), OnExisting::Skip).await;
            let error = expect_kind!(result, kind, "a record with {what}");
            expect_eq!(detail(&error, "index"), Some(2), "details.index of the record with {what}");
            expect_eq!(
                cx.all_keys(&scope).await?,
                ["a", "b"],
                "the keys stored before the record with {what}"
            );
        }
    }),
    case!("export.import.stream-error-ends", [Kv], ["EXP-9"], |cx, scope: Scope| {
        let record = |name: &str| -> memory_core::Result<Record> {
            Ok(Record::from(Entry::new(key(name)?, Json::null(), 1, cx.now())))
        };
        let broken = Error::new(ErrorKind::Corrupt, "line 3 is broken; restore the file and import again");
        let records = vec![Ok(record("a")?), Ok(record("b")?), Err(broken), Ok(record("c")?)];
        let result = cx
            .kv()
            .import_scope(&scope, stream::records(records), memory_core::ImportOptions::default())
            .await;
        let error = expect_kind!(result, ErrorKind::Corrupt, "an import of a stream that fails");
        check!(error.message().contains("line 3"), "the stream's own error is lost: {error}");
        expect_eq!(cx.all_keys(&scope).await?, ["a", "b"], "the keys stored before the error");
        let next = cx.set_with(&scope, "c", "1", SetOptions::default().with_ttl(Ttl::Never)).await?;
        check!(next.created, "the scope cannot be written after a failed import");
    }),
];

/// Entries with everything an entry can have, of different age and access counts.
async fn varied(cx: &Cx) -> CaseResult<Scope> {
    let scope = cx.scope()?;
    let full = cx
        .expiring(60_000)
        .with_metadata(metadata(r#"{"n":9007199254740993,"x":0.1,"ok":true,"city":"Zürich"}"#)?)
        .with_source(source("chat")?)
        .with_text("lives in Zürich \u{0001}");
    cx.set_with(&scope, "full", r#"{ "b":1.0, "a":"\u00e9" }"#, full).await?;
    cx.advance_ms(1);
    cx.set(&scope, "é/%_'\"\n", "null").await?;
    cx.set(&scope, "counter", "1").await?;
    cx.advance_ms(1);
    cx.increment(&scope, "counter", 1).await?;
    for _ in 0..3 {
        cx.access(&scope, "counter").await?;
    }
    cx.set_with(&scope, "gone", "1", cx.expiring(1)).await?;
    cx.set(&scope, "deleted", "1").await?;
    cx.delete(&scope, "deleted").await?;
    cx.advance_ms(1);
    Ok(scope)
}

fn without_vectors(records: Vec<Record>) -> Vec<Entry> {
    records.into_iter().map(|record| record.entry).collect()
}

/// A scope of `a` and `b`, and records with other values for `b` and `c`.
async fn overlapping(cx: &Cx) -> CaseResult<(Scope, Vec<Record>)> {
    let (from, to) = (cx.scope()?, cx.scope()?);
    let tagged = SetOptions::default()
        .with_metadata(metadata(r#"{"from":"elsewhere"}"#)?)
        .with_source(source("import")?);
    for name in ["b", "c"] {
        cx.set_with(&from, name, "\"new\"", tagged.clone()).await?;
    }
    cx.advance_ms(10);
    cx.fill(&to, &[("a", "\"old\""), ("b", "\"older\""), ("b", "\"old\"")]).await?;
    Ok((to, cx.export(&from).await?))
}
