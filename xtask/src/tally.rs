//! Counts of tests, read from what test binaries print.

/// Counts from the output of test binaries.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally {
    pub(crate) passed: u64,
    failed: u64,
    skipped: u64,
    pub(crate) names_failed: Vec<String>,
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
    fn what_a_test_prints_is_not_counted() {
        assert_eq!(tally_of("3 passed, 4 failed\nthe test result: 9 passed\n"), Tally::default());
    }
}
