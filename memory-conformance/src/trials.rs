//! The first door: one test for every case, with names, filters and `--list`.

use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Conclusion, Failed, Trial};

use crate::cases;
use crate::expected::ExpectedFailures;
use crate::harness::Harness;
use crate::runner::{DEFAULT_TIMEOUT, run_case};

/// Makes the `main` of a test with `harness = false`: one test for each case.
///
/// ```no_run
/// memory_conformance::conformance_tests!(memory_conformance::ReferenceHarness::new());
/// ```
///
/// An `expected-failures.toml` beside the crate's `Cargo.toml` is read where there is one; another
/// place is given as `conformance_tests!(MyHarness::new(), expected_failures = "tests/known.toml")`,
/// relative to the crate. Every other setting of the test is libtest's: a filter, `--exact`, `--list`,
/// `--test-threads`, `--skip`.
#[macro_export]
macro_rules! conformance_tests {
    ($harness:expr $(,)?) => {
        $crate::conformance_tests!($harness, expected_failures = "expected-failures.toml");
    };
    ($harness:expr, expected_failures = $path:expr $(,)?) => {
        fn main() -> ::std::process::ExitCode {
            let crate_dir = ::std::path::Path::new(::std::env!("CARGO_MANIFEST_DIR"));
            $crate::trials::main(::std::sync::Arc::new($harness), &crate_dir.join($path))
        }
    };
}

/// What [`conformance_tests!`] runs.
#[must_use]
pub fn main(harness: Arc<dyn Harness>, expected_failures: &Path) -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = trials(&harness, ExpectedFailures::read(expected_failures), DEFAULT_TIMEOUT);
    let conclusion: Conclusion = libtest_mimic::run(&arguments, trials);
    conclusion.exit_code()
}

/// One trial for each case, and one for the list of expected failures itself.
#[must_use]
pub fn trials(
    harness: &Arc<dyn Harness>,
    expected: Result<ExpectedFailures, String>,
    timeout: Duration,
) -> Vec<Trial> {
    let cases = cases::all();
    let unknown = match &expected {
        Err(why) => Err(why.clone()),
        Ok(expected) => match expected.unknown(&cases) {
            unknown if unknown.is_empty() => Ok(()),
            unknown => Err(format!("no case has these ids: {}", unknown.join(", "))),
        },
    };
    let list = Trial::test("expected-failures", move || unknown.map_err(Failed::from));
    let expected = Arc::new(expected.unwrap_or_default());
    let mut trials: Vec<Trial> = cases
        .into_iter()
        .map(|case| {
            let (harness, expected) = (Arc::clone(harness), Arc::clone(&expected));
            Trial::test(case.id, move || {
                let outcome = run_case(&harness, &case, timeout);
                expected.judge(case.id, &outcome.verdict).map_err(|why| {
                    Failed::from(format!("{why}\n\nproves {} of {}", case.proves.join(", "), case.page()))
                })
            })
        })
        .collect();
    trials.push(list);
    trials
}
