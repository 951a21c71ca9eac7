//! The example, as a reader runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn a_vague_note_waits_and_is_bound_once_a_later_one_names_the_row() {
    let folder = tempfile::tempdir().unwrap();
    for url in [&[][..], &["sqlite:shared.db"]] {
        let program = env!("CARGO_BIN_EXE_shared-state");
        let ran = Command::new(program).args(url).current_dir(folder.path()).output().unwrap();
        let told = String::from_utf8(ran.stdout).unwrap();
        assert!(ran.status.success(), "{told}");
        let waits = told.find("-> waits: its words do not tell which row is meant").unwrap();
        let named = told.find("is also called").unwrap();
        let bound = told.rfind("issues redis_timeout").unwrap();
        assert!(waits < named && named < bound, "{told}");
        assert!(told.contains("0 issues are open; redis_timeout was closed by worker-1"), "{told}");
        assert!(told.ends_with("6 events hold, and give the same tables again\n"), "{told}");
    }
}
