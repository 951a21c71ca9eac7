//! The example, as a reader runs it.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

fn run(url: &[&str], folder: &std::path::Path) -> (bool, String) {
    let program = env!("CARGO_BIN_EXE_prime-stream");
    let ran = Command::new(program).args(url).current_dir(folder).output().unwrap();
    (ran.status.success(), String::from_utf8(ran.stdout).unwrap())
}

#[test]
fn five_hundred_primes_are_stored_checked_and_hidden_from_another_user() {
    let folder = tempfile::tempdir().unwrap();
    // In memory, in a fresh file, and again over what the run before left.
    for url in [&[][..], &["sqlite:primes.db"], &["sqlite:primes.db"]] {
        let (succeeded, told) = run(url, folder.path());
        assert!(succeeded && told.ends_with("500 primes checked, 0 invalid\n"), "{told}");
        assert!(told.contains("the largest is 3571"), "{told}");
    }
}

#[test]
fn a_backend_that_is_none_ends_it_with_a_failure() {
    let folder = tempfile::tempdir().unwrap();
    let (succeeded, told) = run(&["nosuch:x"], folder.path());
    assert!(!succeeded && told.contains("FAILED"), "{told}");
}
