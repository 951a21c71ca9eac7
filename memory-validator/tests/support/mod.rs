//! Reads the corpora of statements, and generates statements of every shape.
#![allow(
    dead_code,
    unreachable_pub,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "helpers of tests"
)]

pub mod shapes;

use std::io::Read as _;
use std::path::PathBuf;

use memory_validator::Mode;
use serde_json::Value;

/// One line of a corpus.
pub struct Line {
    pub id: String,
    pub category: String,
    pub mode: Mode,
    pub sql: String,
    pub expect: String,
    pub optional: bool,
}

/// The lines of a corpus; none if the shared data is absent.
pub fn corpus(file: &str) -> Option<Vec<Line>> {
    let shared = std::env::var_os("MEMORY_SHARED")
        .map_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../shared"), PathBuf::from);
    let path = shared.join("corpus/sql").join(file);
    let Ok(bytes) = std::fs::read(&path) else {
        println!("skipped: no corpus/sql/{file} under MEMORY_SHARED");
        return None;
    };
    let mut text = String::new();
    if file.ends_with(".gz") {
        flate2::read::GzDecoder::new(bytes.as_slice()).read_to_string(&mut text).expect("gzip");
    } else {
        text = String::from_utf8(bytes).expect("UTF-8");
    }
    Some(lines(&text))
}

/// The statements below the heading `== name`, one per line; `\n` in one is a line feed.
pub fn section(text: &str, name: &str) -> Vec<String> {
    let found = text.split("== ").find_map(|section| section.strip_prefix(name)?.strip_prefix('\n'));
    found.expect(name).lines().map(|line| line.replace("\\n", "\n")).collect()
}

/// The lines of a text.
pub fn lines(text: &str) -> Vec<Line> {
    text.lines().filter(|line| !line.trim().is_empty()).map(line).collect()
}

fn line(text: &str) -> Line {
    let value: Value = serde_json::from_str(text).expect("JSON");
    let string = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    let sql = match value.get("sql").and_then(Value::as_str) {
        Some(sql) => sql.to_owned(),
        None => value["sql_parts"]
            .as_array()
            .expect("sql or sql_parts")
            .iter()
            .map(|part| {
                let times = usize::try_from(part[1].as_u64().expect("times")).expect("times");
                part[0].as_str().expect("text").repeat(times)
            })
            .collect(),
    };
    Line {
        id: string("id"),
        category: string("category"),
        mode: if string("op") == "query" { Mode::Query } else { Mode::Exec },
        sql,
        expect: string("expect"),
        optional: string("policy") == "optional",
    }
}
