//! Importers: any file, in every format, is read to its end, and the results can be stored.

use memory_core::{ErrorKind, Result, Scope};
use memory_server::fuzzing::{self, Imported};

use crate::store::{kv, reference, wait};
use crate::support::{one_in, quickly, repeated};

/// Longest message about one broken place; it may quote the input.
const MAX_COMPLAINT: usize = 1_500;
/// Storing more turns of one file gains nothing.
const STORED: usize = 100;

/// Tries one file.
pub fn run(data: &[u8]) {
    let formats = fuzzing::formats();
    let detected = fuzzing::detected(data).expect("memory can be read");
    assert!(detected.is_none_or(|format| formats.contains(&format)));
    for format in &formats {
        let Some(imported) = fuzzing::turns(format, data).expect("memory can be read") else { continue };
        assert!(imported.entries.len() + imported.broken.len() + imported.passed_over <= data.len() + 1);
        told(&imported.broken);
        stored(imported);
    }
    records(data);
    if one_in(256, data) {
        large(data);
    }
}

fn told(complaints: &[String]) {
    for complaint in complaints {
        assert!(!complaint.is_empty() && complaint.chars().count() <= MAX_COMPLAINT, "{complaint}");
    }
}

fn stored(imported: Imported) {
    let (store, _clock) = reference();
    let scope = Scope::user("t", "u").expect("a scope");
    for entry in imported.entries.into_iter().take(STORED) {
        match entry {
            Ok(entry) => {
                let (key, value) = (entry.key.clone(), entry.value.clone());
                let set = wait(kv(&store).set(&scope, &key, value, entry.options.clone()));
                assert!(set.is_ok(), "{set:?} for {entry:?}");
            }
            Err(error) => assert!(matches!(error.kind(), ErrorKind::InvalidArgument | ErrorKind::TooLarge), "{error}"),
        }
    }
}

fn records(data: &[u8]) {
    let (store, _clock) = reference();
    let scope = Scope::user("t", "u").expect("a scope");
    let imported: Result<(u64, Vec<String>)> = wait(fuzzing::records(data, kv(&store), &scope));
    match imported {
        Ok((_, broken)) => told(&broken),
        Err(error) => assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}"),
    }
}

/// The same file many times, as lines and as elements.
fn large(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    for file in [repeated(&text, "\n"), format!("[{}]", repeated(&text, ",")), repeated(&text, "")] {
        for format in fuzzing::formats() {
            drop(quickly(format, || fuzzing::turns(format, file.as_bytes())));
        }
    }
}
