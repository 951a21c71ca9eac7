//! The suite and the pages agree: every sentence is proved, and the code that pages show really runs.

#![allow(clippy::panic, clippy::print_stderr, reason = "helpers of tests")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use memory_conformance::{ExpectedFailures, cases, mutants};

/// A page of the repository; `None`, after printing a note, if the crate stands alone.
fn page(path: &str) -> Option<String> {
    let path = repository().join(path);
    let text = std::fs::read_to_string(&path).ok();
    if text.is_none() {
        eprintln!("not checked: {} is not there (a published crate has no pages)", path.display());
    }
    text
}

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The numbered sentences by id, and whether each is marked as not proved.
fn sentences(page: &str) -> BTreeMap<String, bool> {
    page.lines()
        .filter_map(|line| line.strip_prefix("- **")?.split_once("** "))
        .map(|(id, text)| (id.to_owned(), text.contains("*(not proved)*")))
        .collect()
}

const PAGES: [(&str, usize); 8] = [
    ("docs/spec/backend.md", 100),
    ("docs/spec/sql.md", 80),
    ("docs/spec/layer.md", 40),
    ("docs/spec/drift.md", 30),
    ("docs/spec/governed.md", 41),
    ("docs/spec/hierarchical.md", 20),
    ("docs/spec/lifecycle.md", 20),
    ("docs/spec/forget.md", 20),
];

#[test]
fn every_sentence_is_proved_by_a_case_or_marked() {
    let proved: BTreeSet<&str> = cases::all().iter().flat_map(|case| case.proves).copied().collect();
    let mut known = BTreeSet::new();
    for (path, least) in PAGES {
        let Some(page) = page(path) else { return };
        let sentences = sentences(&page);
        assert!(
            sentences.len() > least,
            "the form of {path} has changed: {} sentences found",
            sentences.len()
        );
        for (id, marked) in sentences {
            let is_proved = proved.contains(id.as_str());
            assert!(is_proved || marked, "{id}: no case proves it; write one or mark it *(not proved)*");
            assert!(!is_proved || !marked, "{id}: is marked *(not proved)*, yet a case proves it");
            assert!(known.insert(id.clone()), "{id} is on two pages");
        }
    }
    for case in cases::all() {
        for sentence in case.proves {
            assert!(known.contains(*sentence), "`{}` proves {sentence}, which does not exist", case.id);
        }
    }
    for mutant in mutants::all() {
        for sentence in mutant.breaks {
            assert!(known.contains(*sentence), "`{}` breaks {sentence}, which does not exist", mutant.id);
        }
    }
}

#[test]
fn case_ids_are_unique_and_well_formed() {
    let mut seen = BTreeSet::new();
    for case in cases::all() {
        assert!(seen.insert(case.id), "`{}` twice", case.id);
        let part = |part: &str| {
            !part.is_empty()
                && part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-')
        };
        assert!(case.id.split('.').count() == 3 && case.id.split('.').all(part), "`{}`", case.id);
    }
    assert!(seen.len() >= 120, "{} cases", seen.len());
}

#[test]
fn the_page_says_how_many_cases_and_mutants_there_are() {
    let Some(page) = page("docs/conformance.md") else { return };
    let said = format!("There are {} cases and {} mutants.", cases::all().len(), mutants::all().len());
    assert!(page.contains(&said), "the page does not say: {said}");
}

/// The Rust blocks of a page, from a heading on to the next of its level.
fn rust_blocks(page: &str, heading: &str) -> Vec<String> {
    let (_, section) = page.split_once(heading).unwrap_or_else(|| panic!("no heading `{heading}`"));
    let section = section.split("\n## ").next().unwrap_or_default();
    section
        .split("```rust\n")
        .skip(1)
        .filter_map(|block| block.split_once("```").map(|(code, _)| code.to_owned()))
        .collect()
}

/// Code for comparison: without indentation and blank lines.
fn flat(code: &str) -> String {
    code.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join("\n")
}

/// The line that makes tests of a harness. The macro's documentation compiles it, since a binary has only one `main`.
const MAKES_TESTS: &str = "memory_conformance::conformance_tests!(Shelves);";

fn is_shown_as_it_runs(blocks: &[String], running: &str) {
    assert!(!blocks.is_empty(), "the section shows no code");
    assert!(include_str!("../../src/suite/trials.rs").contains(MAKES_TESTS));
    for block in blocks {
        let shown = flat(block);
        let shown = shown.strip_suffix(MAKES_TESTS).unwrap_or(&shown);
        assert!(flat(running).contains(shown), "this is shown but not run:\n{block}");
    }
}

#[test]
fn the_backend_of_thirty_minutes_is_shown_as_it_runs() {
    let Some(page) = page("CONTRIBUTING.md") else { return };
    let running = include_str!("../suite/thirty_minutes.rs");
    is_shown_as_it_runs(&rust_blocks(&page, "## Write a backend in 30 minutes"), running);
}

#[test]
fn the_walk_through_shows_code_that_runs() {
    let Some(page) = page("docs/conformance.md") else { return };
    let running = [include_str!("../suite/thirty_minutes.rs"), include_str!("report.rs")].concat();
    for heading in ["## Set it up", "## Run it"] {
        is_shown_as_it_runs(&rust_blocks(&page, heading), &running);
    }
}

#[test]
fn the_list_of_expected_failures_that_is_shown_is_one() {
    let Some(page) = page("docs/conformance.md") else { return };
    let lists: Vec<&str> = page
        .split("```toml\n")
        .skip(1)
        .filter_map(|block| block.split_once("```").map(|(list, _)| list))
        .filter(|list| list.contains("[[case]]"))
        .collect();
    assert!(!lists.is_empty());
    for list in lists {
        let list = ExpectedFailures::parse(list).unwrap_or_else(|why| panic!("{why}"));
        assert_eq!(list.unknown(&cases::all()), [""; 0]);
    }
}
