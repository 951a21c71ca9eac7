//! The lines of a foreign export: accepted records come out unchanged.

use memory_conformance::stream;
use memory_core::json::Json;
use memory_core::limits::MAX_KEY_BYTES;
use memory_core::{
    Checked, ErrorKind, ImportOptions, ImportOutcome, OnExisting, Quota, Record, Result, Scope, SetOptions,
};
use memory_conformance::Reference;

use crate::store::{kv, reference, wait};

/// Longer inputs gain nothing.
const MAX_RECORDS: usize = 64;

/// Tries one file, header or not.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let lines = text.lines().take(MAX_RECORDS);
    let records: Vec<Record> = lines.filter_map(|line| serde_json::from_str(line).ok()).collect();
    // JSON has no infinity, so a vector with one is refused.
    let finite = |record: &&Record| record.vectors.iter().flat_map(|v| &v.vector).all(|x| x.is_finite());
    for record in records.iter().filter(finite) {
        let text = serde_json::to_string(record).expect("writes");
        assert_eq!(serde_json::from_str::<Record>(&text).expect("reads what it wrote"), *record);
    }
    kept(&records);
    limited(&records);
}

fn scope(id: &str) -> Scope {
    Scope::user("t", id).expect("a scope")
}

fn import(store: &Checked<Reference>, id: &str, records: Vec<Record>, options: ImportOptions) -> Result<ImportOutcome> {
    let records = stream::records(records.into_iter().map(Ok).collect());
    wait(kv(store).import_scope(&scope(id), records, options))
}

fn export(store: &Checked<Reference>, id: &str) -> Vec<Record> {
    let stream = wait(kv(store).export_scope(&scope(id))).expect("an export");
    wait(stream::collect(stream)).expect("a whole export")
}

fn kept(records: &[Record]) {
    let (store, _clock) = reference();
    let outcome = import(&store, "first", records.to_vec(), ImportOptions::default());
    let stored = export(&store, "first");
    match &outcome {
        Ok(outcome) => {
            let seen = outcome.created + outcome.replaced + outcome.skipped + outcome.expired;
            assert_eq!(usize::try_from(seen), Ok(records.len()));
        }
        Err(error) => {
            assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge), "{error}");
            let index = error.details().get("index").and_then(serde_json::Value::as_u64).expect("a position");
            assert!(usize::try_from(index).is_ok_and(|index| index < records.len()));
            // The records before it are stored.
            let before = &records[..usize::try_from(index).expect("a position")];
            assert!(before.iter().all(|record| record.entry.expires_at.is_some() || holds(&stored, record)));
        }
    }
    assert!(stored.iter().all(|stored| records.iter().any(|record| comes_back(record, stored))), "{stored:?}");
    assert!(stored.is_sorted_by(|a, b| a.entry.key < b.entry.key));
    for record in &stored {
        assert!((1..=MAX_KEY_BYTES).contains(&record.entry.key.as_str().len()));
        assert!(record.entry.metadata.check().is_ok());
    }

    // Importing again changes nothing, and another scope gets the same.
    let replacing = ImportOptions::default().with_on_existing(OnExisting::Replace);
    let again = import(&store, "first", stored.clone(), replacing).expect("its own export");
    assert_eq!(usize::try_from(again.skipped), Ok(stored.len()), "{again:?}");
    let copied = import(&store, "second", stored.clone(), ImportOptions::default()).expect("an export");
    assert_eq!(usize::try_from(copied.created), Ok(stored.len()), "{copied:?}");
    assert_eq!(export(&store, "second"), stored);
    assert_eq!(export(&store, "first"), stored);

    // No version, however high, blocks the key.
    for record in &stored {
        let key = &record.entry.key;
        let set = wait(kv(&store).set(&scope("first"), key, Json::null(), SetOptions::default())).expect("a write");
        assert!(set.version > record.entry.version || record.entry.value == Json::null());
    }
}

/// EXP-9: the record unchanged, except for a version beyond 2^62.
fn comes_back(record: &Record, stored: &Record) -> bool {
    let mut expected = record.clone();
    expected.entry.version = expected.entry.version.min(1 << 62);
    expected == *stored
}

fn holds(stored: &[Record], record: &Record) -> bool {
    stored.iter().any(|stored| stored.entry.key == record.entry.key)
}

fn limited(records: &[Record]) {
    let (store, _clock) = reference();
    let quota = Quota { max_entries: Some(3), max_bytes: Some(200) };
    for on_existing in [OnExisting::Fail, OnExisting::Replace] {
        let options = ImportOptions::default().with_on_existing(on_existing).with_quota(quota);
        drop(import(&store, "small", records.to_vec(), options));
        let stored = export(&store, "small");
        assert!(stored.len() <= 3 && stored.iter().map(|record| record.entry.size_bytes()).sum::<u64>() <= 200);
    }
}
