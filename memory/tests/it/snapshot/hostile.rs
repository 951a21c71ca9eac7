use std::io::Cursor;

use memory::Memory;
use memory::snapshot::{Control, MAX_LINE_BYTES, RestoreOptions, SnapshotOptions, check};
use memory_core::{Error, ErrorKind};

use crate::snapshot::support::{content, durable, restored, scope, set, store, taken, varied};

async fn file() -> Vec<u8> {
    taken(&varied().await, &SnapshotOptions::default()).await.0
}

fn refusal(file: &[u8]) -> Error {
    let error = check(Cursor::new(file), &Control::default()).expect_err("it is no snapshot");
    assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
    error
}

async fn is_empty(memory: &Memory) -> bool {
    let mut all = true;
    for scope in durable() {
        let (records, lines) = content(memory, &scope).await;
        all &= records.is_empty() && lines.len() == 2;
    }
    all
}

#[tokio::test]
async fn a_file_cut_off_anywhere_is_refused_and_nothing_is_written() {
    let file = file().await;
    for end in (0..file.len()).step_by(7).chain([file.len() - 1]) {
        refusal(&file[..end]);
    }
    let to = store().await;
    for end in [100, file.len() / 2, file.len() - 1] {
        let error = restored(&to, &file[..end], &RestoreOptions::default()).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        assert!(is_empty(&to).await);
    }
}

#[tokio::test]
async fn any_changed_bit_is_detected() {
    let file = file().await;
    for at in 0..file.len() {
        let mut changed = file.clone();
        changed[at] ^= 1 << (at % 8);
        assert!(check(Cursor::new(changed), &Control::default()).is_err(), "byte {at}");
    }
}

#[tokio::test]
async fn swapped_repeated_or_missing_lines_are_detected() {
    let file = file().await;
    let lines: Vec<&[u8]> = file.split_inclusive(|byte| *byte == b'\n').collect();
    for at in 0..lines.len() {
        let mut without = lines.clone();
        without.remove(at);
        refusal(&without.concat());
        let mut doubled = lines.clone();
        doubled.insert(at, lines[at]);
        refusal(&doubled.concat());
        if at + 1 < lines.len() {
            let mut swapped = lines.clone();
            swapped.swap(at, at + 1);
            refusal(&swapped.concat());
        }
    }
    refusal(&[&file[..], b"\n"].concat());
    refusal(&[&file[..], &file[..]].concat());
}

#[tokio::test]
async fn an_error_names_the_line_and_the_scope() {
    let file = String::from_utf8(file().await).unwrap();
    let broken = file.replacen("Lives", "lives", 1).replacen("oolong", "OOLONG", 1);
    let error = refusal(broken.as_bytes());
    let scope = serde_json::to_value(scope("ada")).unwrap();
    assert_eq!(error.details()["scope"], scope);
    assert!(error.details()["line"].as_u64().unwrap() > 5);
    let line = error.details()["line"].to_string();
    assert!(error.message().contains(&line) && error.message().contains("acme/user/ada"), "{error}");
    assert!(!error.to_string().contains("OOLONG"), "no stored value is in it");
}

#[tokio::test]
async fn foreign_files_are_refused() {
    let file = String::from_utf8(file().await).unwrap();
    let newer = file.replacen("\"version\":1", "\"version\":3", 1);
    assert!(refusal(newer.as_bytes()).message().contains("newer"), "it says what to do");
    for foreign in [
        "",
        "\n",
        "{}\n",
        "hello",
        "{\"format\":\"memory-export\",\"version\":1}\n",
        "{\"memory_sql_dump\":{\"version\":1,\"dialect\":\"sqlite\"}}\n",
        "{\"memory_snapshot\":{\"version\":1}}\n",
        "\u{feff}{\"memory_snapshot\":{}}\n",
    ] {
        refusal(foreign.as_bytes());
    }
    refusal(&[0xff; 100]);
    refusal(&vec![b'['; 1 << 20]);
}

/// A snapshot with valid digests, whatever its lines.
fn forged(header: &str, scopes: &[(&str, &[&str])]) -> Vec<u8> {
    use sha2::{Digest as _, Sha256};
    let hex =
        |bytes: &[u8]| Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let mut file = format!("{header}\n").into_bytes();
    for (scope, lines) in scopes {
        let begin = file.len();
        file.extend(format!("{{\"scope\":{scope}}}\n").bytes());
        for line in *lines {
            file.extend(format!("{line}\n").bytes());
        }
        let (bytes, sha256) = (file.len() - begin, hex(&file[begin..]));
        file.extend(format!("{{\"scope_end\":{{\"bytes\":{bytes},\"sha256\":\"{sha256}\"}}}}\n").bytes());
    }
    let (bytes, sha256, count) = (file.len(), hex(&file), scopes.len());
    file.extend(
        format!(
            "{{\"end\":{{\"scopes\":{count},\"skipped\":0,\"entries\":0,\"vectors\":0,\"sql_lines\":0,\
             \"bytes\":{bytes},\"sha256\":\"{sha256}\"}}}}\n"
        )
        .bytes(),
    );
    file
}

const HEADER: &str = r#"{"memory_snapshot":{"version":1,"created_at":"2026-01-01T00:00:00.000Z","by":"x","provider":"x","sections":["entries"],"consistency":"per_scope"}}"#;

#[test]
fn valid_digests_do_not_excuse_invalid_contents() {
    let ada = r#"{"tenant":"t","kind":"user","id":"ada"}"#;
    check(Cursor::new(forged(HEADER, &[(ada, &[])])), &Control::default()).unwrap();
    let run = r#"{"tenant":"t","kind":"run","id":"ada"}"#;
    let bob = r#"{"tenant":"t","kind":"user","id":"bob"}"#;
    let agent = r#"{"tenant":"t","kind":"agent","id":"ada"}"#;
    let hostile_id = r#"{"tenant":"t","kind":"user","id":"*"}"#;
    let entry = |key: &str| {
        format!(
            r#"{{"entry":{{"key":"{key}","value":1,"version":1,"created_at":0,"updated_at":0,"access_count":0}}}}"#
        )
    };
    let (a, b) = (entry("a"), entry("b"));
    let scopes: [&[(&str, &[&str])]; 9] = [
        &[(run, &[])],
        &[(hostile_id, &[])],
        &[(bob, &[]), (ada, &[])],
        &[(ada, &[]), (ada, &[])],
        &[(ada, &[]), (agent, &[])],
        // Endless records, out of order, repeated, and a dump that the header does not announce.
        &[(ada, &[&a])],
        &[(ada, &[&b, &a])],
        &[(ada, &[&a, &a])],
        &[(ada, &[r#"{"sql_begin":{"dialect":"sqlite"}}"#])],
    ];
    for scopes in scopes {
        refusal(&forged(HEADER, scopes));
    }
    for record in [
        r#"{"entry":{"key":"a","value":1,"version":0,"created_at":0,"updated_at":0}}"#,
        r#"{"entry":{"key":"a","value":1,"version":4611686018427387905,"created_at":0,"updated_at":0}}"#,
        r#"{"entry":{"key":"a","value":1,"version":1,"created_at":9,"updated_at":0}}"#,
        r#"{"entry":{"key":"","value":1,"version":1,"created_at":0,"updated_at":0}}"#,
        r#"{"entry":{"key":"a","value":1,"version":1,"created_at":0,"updated_at":0},"vectors":[{"model":{"provider":"p","model":"m","dimensions":3},"vector":[1]}]}"#,
        r#"{"entry":1}"#,
        r#"{"record":"x"}"#,
    ] {
        refusal(&forged(HEADER, &[(ada, &[record])]));
    }
    let one_tenant = HEADER.replace("\"consistency\"", "\"tenant\":\"other\",\"consistency\"");
    refusal(&forged(&one_tenant, &[(ada, &[])]));
}

#[test]
fn endless_nesting_and_lines_are_refused_within_bounds() {
    let deep = format!("{HEADER}\n{}{}\n", "{\"scope\":".repeat(200_000), "}".repeat(200_000));
    refusal(deep.as_bytes());
    let value = format!(r#"{{"entry":{{"key":"a","value":{}1,"#, "[".repeat(100_000));
    refusal(
        format!("{HEADER}\n{{\"scope\":{{\"tenant\":\"t\",\"kind\":\"user\",\"id\":\"u\"}}}}\n{value}\n")
            .as_bytes(),
    );
    let mut endless = format!("{HEADER}\n").into_bytes();
    endless.resize(endless.len() + MAX_LINE_BYTES + 10, b' ');
    assert!(refusal(&endless).message().contains("longer"));
}

#[tokio::test]
async fn forbidden_statements_in_a_dump_are_left_out_and_reported() {
    // The dump belongs to the scope but has a statement forbidden to agents: the facet judges it again.
    let from = store().await;
    crate::snapshot::support::sql(&from, &scope("ada"), "CREATE TABLE t (a)").await;
    set(&from, &scope("ada"), "k", "1").await;
    let (file, _) = taken(&from, &SnapshotOptions::default()).await;
    let text = String::from_utf8(file).unwrap();
    let hostile = resealed(&text.replace("CREATE TABLE t (a)", "ATTACH 'x.db' AS x"));
    let to = store().await;
    let done = restored(&to, hostile.as_bytes(), &RestoreOptions::default()).await.unwrap();
    assert!(!done.is_complete(), "{done:?}");
    assert_eq!(content(&to, &scope("ada")).await.0.len(), 1, "its entries are there");
    assert_eq!(content(&to, &scope("ada")).await.1.len(), 2, "its database is not");
    assert!(!std::path::Path::new("x.db").exists());
}

/// The same file with recomputed digests.
fn resealed(text: &str) -> String {
    use sha2::{Digest as _, Sha256};
    let hex = |text: &str| {
        Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect::<String>()
    };
    let (mut file, mut scope, mut dump) = (String::new(), String::new(), String::new());
    for line in text.split_inclusive('\n') {
        let mut document: serde_json::Value = serde_json::from_str(line).unwrap();
        let mut made = line.to_owned();
        let mut part = |name: &str, change: &dyn Fn(&mut serde_json::Value)| {
            if let Some(member) = document.get_mut(name) {
                change(member);
                made = format!("{document}\n");
            }
        };
        part("sql_end", &|end| {
            end["sha256"] = hex(&dump).into();
            end["content"] = hex(&dump).into();
        });
        part("scope_end", &|end| {
            end["bytes"] = scope.len().into();
            end["sha256"] = hex(&scope).into();
        });
        part("end", &|end| {
            end["bytes"] = file.len().into();
            end["sha256"] = hex(&file).into();
        });
        if let Some(dumped) = line.strip_prefix("{\"sql\":") {
            dump.push_str(dumped.strip_suffix("}\n").unwrap());
            dump.push('\n');
        }
        if line.starts_with("{\"scope\":") {
            scope.clear();
        }
        scope.push_str(&made);
        file.push_str(&made);
    }
    file
}
