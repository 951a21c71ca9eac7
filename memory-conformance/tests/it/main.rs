//! The suite about itself: mutants, reports, and the pages that describe it.

mod mutants;
mod pages;
mod report;
