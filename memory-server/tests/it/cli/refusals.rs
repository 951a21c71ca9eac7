//! Wrong command lines and hostile stores: a typed error that says what to do, never a panic.

use crate::support::user::User;

#[test]
fn a_wrong_command_line_exits_with_usage() {
    let user = User::new();
    for wrong in [&[][..], &["frobnicate"], &["get"], &["get", "a", "b"], &["set", "k", "1", "--ttl", "soon"]]
    {
        let ran = user.run(wrong);
        assert_eq!((ran.code, ran.stdout.as_str()), (Some(2), ""), "{ran:?}");
        assert!(ran.stderr.contains("--help") || ran.stderr.contains("Usage"), "{ran:?}");
    }
    let error = user.refused(&["set", "k", "1", "--ttl", "soon"], 2, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("10m"), "{error}");
}

#[test]
fn a_number_that_is_none_is_answered_with_what_is_expected() {
    let user = User::new();
    for (wrong, needed) in [
        (&["incr", "k", "abc"][..], "give an integer from -2^63 to 2^63-1"),
        (&["incr", "k", "9223372036854775808"], "give an integer from -2^63 to 2^63-1"),
        (&["set", "k", "1", "--if-version", "abc"], "'abc' for '--if-version <N>': give a whole number"),
        (&["list", "--limit", "99999999999999999999"], "the number is too large"),
        (&["search", "x", "--threshold", "high"], "give a number, such as 0.5"),
    ] {
        let error = user.refused(wrong, 2, "invalid_argument");
        assert!(error["message"].as_str().unwrap().contains(needed), "{error}");
    }
}

#[test]
fn a_session_is_not_forgotten_as_a_whole_and_the_refusal_says_how() {
    let user = User::new();
    let error = user.refused(&["forget", "--session", "s"], 2, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("memory facts --session ID"), "{error}");
}

#[test]
fn keys_and_values_over_their_limits_are_refused() {
    let user = User::new();
    user.refused(&["get", ""], 3, "invalid_argument");
    user.refused(&["get", &"k".repeat(1_025)], 3, "too_large");
    user.ok(&["set", &"k".repeat(1_024), "1"]);
    let value = |length: usize| format!("\"{}\"", "x".repeat(length - 2));
    assert_eq!(user.run_with(&["set", "at", "-"], value(1 << 20).as_bytes()).code, Some(0));
    let over = user.run_with(&["set", "over", "-", "--json"], value((1 << 20) + 1).as_bytes());
    assert_eq!(over.code, Some(3));
    assert!(over.stderr.contains("too_large"), "{over:?}");
    assert_eq!(user.run_with(&["set", "deep", "-"], "[".repeat(100_000).as_bytes()).code, Some(3));
    assert_eq!(user.run_with(&["set", "lone", "-"], br#""\ud800""#).code, Some(3));
    let many = user.run_with(&["set", "many", "-"], &vec![b' '; (64 << 20) + 1]);
    assert_eq!(many.code, Some(3), "{many:?}");
}

#[test]
fn a_store_that_cannot_be_opened_says_why() {
    let user = User::new();
    let error = user.refused(&["get", "k", "--url", "redis://localhost"], 3, "invalid_argument");
    assert!(error["message"].as_str().unwrap().contains("sqlite"), "{error}");
    user.refused(&["get", "k", "--url", "nonsense"], 3, "invalid_argument");
    let file = user.file("foreign.db", "this is no database, whatever its name says it is\n".repeat(100));
    let before = std::fs::read(&file).unwrap();
    user.refused(&["get", "k", "--url", &format!("sqlite:{}", file.display())], 6, "corrupt");
    assert_eq!(std::fs::read(&file).unwrap(), before, "a foreign file is never touched");
}

#[test]
fn no_secret_of_a_url_is_shown() {
    let user = User::new();
    for arguments in [&["describe"][..], &["config"], &["get", "k"]] {
        let url = "postgres://app:s3cret@db.example/memory?wait_timeout_ms=100&connect_timeout_ms=1000";
        let ran = user.run(&[arguments, &["--url", url]].concat());
        assert!(!format!("{ran:?}").contains("s3cret"), "{ran:?}");
    }
}

#[test]
fn commands_of_the_laboratory_say_where_they_are_now() {
    let user = User::new();
    for (arguments, now) in [
        (&["conformance", "--mutants"][..], "memory-lab conformance"),
        (&["bench", "kv"], "memory-lab bench"),
        (&["eval", "locomo", "locomo10.json"], "memory-lab eval"),
        (&["sql", "--corpus", "corpus.jsonl", "--base", "base.sql"], "memory-lab corpus FILE"),
    ] {
        let ran = user.run(arguments);
        assert_eq!((ran.code, ran.stderr.lines().count()), (Some(2), 1), "{ran:?}");
        assert!(ran.stderr.contains(now), "{ran:?}");
        let error = user.refused(arguments, 2, "invalid_argument");
        assert!(error["message"].as_str().unwrap().contains(now), "{error}");
    }
}
