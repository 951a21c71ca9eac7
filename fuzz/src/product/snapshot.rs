//! Snapshots: an invalid one is refused before anything is written, and a valid one is restored as it is.

use std::io::Cursor;

use memory::snapshot::{Control, RestoreOptions, SnapshotOptions, check, restore, write};
use memory_core::{Checked, ErrorKind, Provider, Record, ScopesQuery, TenantId};
use serde_json::Value;
use sha2::{Digest as _, Sha256};

use crate::store::{kv, reference, wait};

/// Tries one file unchanged, and with correct digests, so that the code behind that check is reached.
pub fn run(data: &[u8]) {
    tried(data);
    if let Some(sealed) = sealed(data) {
        tried(&sealed);
    }
}

fn tried(data: &[u8]) {
    let checked = check(Cursor::new(data), &Control::default());
    let (store, _clock) = reference();
    let options = RestoreOptions::default().with_now(Some(memory_core::Timestamp::EPOCH));
    let restored = wait(restore(&store, Cursor::new(data.to_vec()), &options, &Control::default()));
    match checked {
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
            let restored = restored.expect_err("an invalid snapshot is not restored");
            assert_eq!(restored.kind(), ErrorKind::Corrupt, "{restored}");
            assert!(is_empty(&store), "nothing was restored");
        }
        Ok(progress) => {
            let report = restored.expect("a valid snapshot is restored into an empty store");
            assert_eq!(report.scopes, progress.scopes);
            again(&store);
        }
    }
}

fn is_empty(store: &Checked<memory_conformance::Reference>) -> bool {
    wait(store.tenants(None, 1_000)).expect("tenants").iter().all(|tenant: &TenantId| {
        wait(kv(store).scopes(tenant, ScopesQuery::default())).expect("scopes").scopes.is_empty()
    })
}

/// A new snapshot of the restored store is valid, and restoring it changes nothing.
fn again(store: &Checked<memory_conformance::Reference>) {
    let mut file = Vec::new();
    let written = wait(write(store, &mut file, &SnapshotOptions::default(), &Control::default()));
    assert!(written.expect("a snapshot").is_complete());
    check(Cursor::new(&file), &Control::default()).expect("a written snapshot is valid");
    // The store has its own clock: its contents are alive, whatever this host's clock says.
    let options = RestoreOptions::default().with_now(Some(memory_core::Timestamp::EPOCH));
    let report = wait(restore(store, Cursor::new(file), &options, &Control::default()));
    assert_eq!(report.expect("a restore").records, 0);
}

fn hex(bytes: &[u8]) -> Value {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// The same lines with matching counts and digests; `None` if it is not text.
fn sealed(data: &[u8]) -> Option<Vec<u8>> {
    let text = std::str::from_utf8(data).ok()?;
    let (mut file, mut scope, mut records, mut content, mut dump) =
        (Vec::new(), 0, String::new(), String::new(), String::new());
    let (mut entries, mut vectors, mut lines) = (0_usize, 0_usize, 0_usize);
    let mut totals = [0_usize; 5];
    for line in text.lines() {
        let mut made = line.to_owned();
        if let Ok(mut record) = Record::from_line(line) {
            entries += 1;
            vectors += record.vectors.len();
            records.push_str(line);
            records.push('\n');
            record.vectors.sort_by(|a, b| a.model.cmp(&b.model));
            (record.entry.version, record.entry.access_count) = (1, 0);
            content.push_str(&record.to_line().ok()?);
            content.push('\n');
        } else if let Some(dumped) = line.strip_prefix("{\"sql\":").and_then(|line| line.strip_suffix('}')) {
            lines += 1;
            dump.push_str(dumped);
            dump.push('\n');
        } else if let Ok(mut document) = serde_json::from_str::<Value>(line) {
            let name = document.as_object().and_then(|object| object.keys().next().cloned()).unwrap_or_default();
            let member = document.get_mut(&name).filter(|member| member.is_object());
            match (name.as_str(), member) {
                ("scope", Some(_)) => {
                    scope = file.len();
                    (entries, vectors, lines) = (0, 0, 0);
                    records.clear();
                    content.clear();
                    dump.clear();
                }
                ("entries_end", Some(end)) => {
                    end["entries"] = entries.into();
                    end["vectors"] = vectors.into();
                    end["sha256"] = hex(records.as_bytes());
                    end["content"] = hex(content.as_bytes());
                }
                ("sql_end", Some(end)) => {
                    end["lines"] = lines.into();
                    end["sha256"] = hex(dump.as_bytes());
                    let kept: String = dump
                        .split_inclusive('\n')
                        .filter(|line| !line.starts_with("{\"skipped\":"))
                        .collect();
                    end["content"] = hex(kept.as_bytes());
                }
                ("scope_end", Some(end)) => {
                    end["bytes"] = (file.len() - scope).into();
                    end["sha256"] = hex(file.get(scope..)?);
                    for (total, count) in totals.iter_mut().zip([1, 0, entries, vectors, lines]) {
                        *total += count;
                    }
                }
                ("scope_skipped", Some(_)) => totals[1] += 1,
                ("end", Some(end)) => {
                    for (name, total) in ["scopes", "skipped", "entries", "vectors", "sql_lines"].iter().zip(totals) {
                        end[*name] = total.into();
                    }
                    end["bytes"] = file.len().into();
                    end["sha256"] = hex(&file);
                }
                _ => {}
            }
            made = document.to_string();
        }
        file.extend_from_slice(made.as_bytes());
        file.push(b'\n');
    }
    Some(file)
}
