//! Counts of tests, read from what test binaries print.

/// Counts from the output of test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    failed: u64,
    skipped: u64,
    pub(crate) names_failed: Vec<String>,
    /// Failed, and passed when tried again.
    pub(crate) names_unstable: Vec<String>,
}

impl Tally {
    /// Reads one line of libtest or libtest-mimic; ignores any other.
    pub(crate) fn read(&mut self, line: &str) {
        let line = line.trim();
        if let Some(counts) = line.strip_prefix("test result: ") {
            // `ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s`
            let counts = counts.split_once(". ").map_or(counts, |(_, counts)| counts);
            self.count(counts.split("; "));
        } else if let Some(name) =
            line.strip_prefix("test ").and_then(|rest| rest.strip_suffix(" ... FAILED"))
        {
            self.names_failed.push(name.to_owned());
        }
    }

    fn count<'a>(&mut self, parts: impl Iterator<Item = &'a str>) {
        for part in parts {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => self.passed += number,
                Some("failed") => self.failed += number,
                Some("ignored") => self.skipped += number,
                _ => {}
            }
        }
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
        self.names_failed.extend(other.names_failed);
        self.names_unstable.extend(other.names_unstable);
    }

    /// Counts those failed tests as passed that pass now.
    pub(crate) fn reconsider(&mut self, passes: impl Fn(&str) -> bool) {
        let (unstable, failed) =
            std::mem::take(&mut self.names_failed).into_iter().partition(|name| passes(name));
        self.names_failed = failed;
        let count = u64::try_from(Vec::len(&unstable)).unwrap_or_default();
        self.passed += count;
        self.failed = self.failed.saturating_sub(count);
        self.names_unstable.extend(unstable);
    }

    /// Whether all that failed passes now. A binary that broke off names no failed test.
    pub(crate) fn is_settled(&self) -> bool {
        self.failed == 0 && !self.names_unstable.is_empty()
    }

    pub(crate) fn line(&self) -> String {
        format!("{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally_of(output: &str) -> Tally {
        let mut tally = Tally::default();
        output.lines().for_each(|line| tally.read(line));
        tally
    }

    #[test]
    fn libtest_results_add_up_over_test_binaries() {
        let tally = tally_of(
            "running 4 tests\n\
             test kv::gets ... ok\n\
             test kv::sets ... FAILED\n\
             test result: FAILED. 2 passed; 1 failed; 1 ignored; 0 measured; 7 filtered out; finished in 0.10s\n\
             test result: ok. 30 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 1.00s\n",
        );
        assert_eq!(tally.line(), "32 passed, 1 failed, 1 skipped");
        assert_eq!(tally.names_failed, ["kv::sets"]);
    }

    #[test]
    fn a_test_that_passes_when_tried_again_is_unstable() {
        let output = "test a ... FAILED\ntest b ... FAILED\n\
                      test result: FAILED. 2 passed; 2 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s\n";
        let mut tally = tally_of(output);
        tally.reconsider(|name| name == "a");
        assert_eq!((tally.line().as_str(), tally.is_settled()), ("3 passed, 1 failed, 0 skipped", false));
        tally.reconsider(|_| true);
        assert_eq!((tally.line().as_str(), tally.is_settled()), ("4 passed, 0 failed, 0 skipped", true));
        assert_eq!(tally.names_unstable, ["a", "b"]);
        // One that broke off.
        assert!(!tally_of("test a ... ok\n").is_settled());
    }

    #[test]
    fn what_a_test_prints_is_not_counted() {
        assert_eq!(tally_of("3 passed, 4 failed\nthe test result: 9 passed\n"), Tally::default());
    }
}
