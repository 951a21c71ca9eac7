//! Tests of the suite itself: mutants, reports, and the pages that describe it.

mod mutants;
mod pages;
mod report;
