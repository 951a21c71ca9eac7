//! The suite as tests of libtest: one for every case, with names, filters and `--list`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use libtest_mimic::{Arguments, Failed, Trial};

use crate::case::Case;
use crate::cases;
use crate::harness::Harness;
use crate::suite::expected::ExpectedFailures;
use crate::suite::runner::{DEFAULT_TIMEOUT, run_case};

/// Makes the `main` of a test with `harness = false`: one test for each case.
///
/// ```no_run
/// # use memory_conformance::{Fixture, Harness, async_trait};
/// # use memory_core::{Provider, Result};
/// # struct Shelves;
/// # #[async_trait]
/// # impl Harness for Shelves {
/// #     fn name(&self) -> &str {
/// #         "shelf"
/// #     }
/// #     async fn open(&self, fixture: Fixture) -> Result<Box<dyn Provider>> {
/// #         Ok(Box::new(memory_conformance::Reference::new(fixture.clock)))
/// #     }
/// # }
/// memory_conformance::conformance_tests!(Shelves);
/// ```
///
/// If there is an `expected-failures.toml` next to the crate's `Cargo.toml`, it is read. To use another file, write
/// `conformance_tests!(MyHarness::new(), expected_failures = "tests/known.toml")`, relative to the crate. Every other
/// setting of the test is libtest's: a filter, `--exact`, `--list`, `--test-threads`, `--skip`.
///
/// A provider that can be opened in several ways is tested in all of them by one binary. A test's name then starts with
/// the name of its configuration (`in-memory::kv.get.never-set`):
///
/// ```no_run
/// use memory_conformance::ReferenceHarness;
///
/// memory_conformance::conformance_tests! {
///     "plain" => ReferenceHarness::new();
///     "vectors" => ReferenceHarness::with_vectors(), expected_failures = "tests/vectors.toml";
/// }
/// ```
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
    ($($name:literal => $harness:expr $(, expected_failures = $path:expr)?);+ $(;)?) => {
        fn main() -> ::std::process::ExitCode {
            let crate_dir = ::std::path::Path::new(::std::env!("CARGO_MANIFEST_DIR"));
            let configurations = ::std::vec![$(
                $crate::trials::Configuration::new($name, ::std::sync::Arc::new($harness))
                    .with_expected_failures(crate_dir.join("expected-failures.toml"))
                    $(.with_expected_failures(crate_dir.join($path)))?
            ),+];
            $crate::trials::main_of(&configurations)
        }
    };
}

/// One of several ways in which a test binary opens its provider.
#[derive(Clone)]
pub struct Configuration {
    name: String,
    harness: Arc<dyn Harness>,
    expected_failures: Option<PathBuf>,
    timeout: Duration,
}

impl std::fmt::Debug for Configuration {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Configuration").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Configuration {
    /// A configuration without expected failures.
    #[must_use]
    pub fn new(name: impl Into<String>, harness: Arc<dyn Harness>) -> Self {
        Self { name: name.into(), harness, expected_failures: None, timeout: DEFAULT_TIMEOUT }
    }

    /// Sets the file that lists expected failures; an absent file is an empty list.
    #[must_use]
    pub fn with_expected_failures(mut self, path: PathBuf) -> Self {
        self.expected_failures = Some(path);
        self
    }

    /// Sets how long one case may take.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    /// A trial for each of these cases, and one for the list of expected failures itself. Every name starts with the
    /// name of the configuration.
    #[must_use]
    pub fn trials_of(&self, cases: Vec<Case>) -> Vec<Trial> {
        let expected = match &self.expected_failures {
            Some(path) => ExpectedFailures::read(path),
            None => Ok(ExpectedFailures::default()),
        };
        trials_named(&format!("{}::", self.name), &self.harness, expected, self.timeout, cases)
    }

    /// As [`Configuration::trials_of`], for every case.
    #[must_use]
    pub fn trials(&self) -> Vec<Trial> {
        self.trials_of(cases::all())
    }
}

/// What [`conformance_tests!`] runs for one harness.
#[must_use]
pub fn main(harness: Arc<dyn Harness>, expected_failures: &Path) -> ExitCode {
    run(trials(&harness, ExpectedFailures::read(expected_failures), DEFAULT_TIMEOUT))
}

/// What [`conformance_tests!`] runs for several configurations.
#[must_use]
pub fn main_of(configurations: &[Configuration]) -> ExitCode {
    run(configurations.iter().flat_map(Configuration::trials).collect())
}

/// Runs these trials as the command line says.
#[must_use]
pub fn run(trials: Vec<Trial>) -> ExitCode {
    libtest_mimic::run(&Arguments::from_args(), trials).exit_code()
}

/// One trial for each case, and one for the list of expected failures itself.
#[must_use]
pub fn trials(
    harness: &Arc<dyn Harness>,
    expected: Result<ExpectedFailures, String>,
    timeout: Duration,
) -> Vec<Trial> {
    trials_named("", harness, expected, timeout, cases::all())
}

fn trials_named(
    prefix: &str,
    harness: &Arc<dyn Harness>,
    expected: Result<ExpectedFailures, String>,
    timeout: Duration,
    cases: Vec<Case>,
) -> Vec<Trial> {
    let unknown = match &expected {
        Err(why) => Err(why.clone()),
        Ok(expected) => match expected.unknown(&cases::all()) {
            unknown if unknown.is_empty() => Ok(()),
            unknown => Err(format!("no case has these ids: {}", unknown.join(", "))),
        },
    };
    let list = Trial::test(format!("{prefix}expected-failures"), move || unknown.map_err(Failed::from));
    let expected = Arc::new(expected.unwrap_or_default());
    let mut trials: Vec<Trial> = cases
        .into_iter()
        .map(|case| {
            let (harness, expected) = (Arc::clone(harness), Arc::clone(&expected));
            let name = format!("{prefix}{}", case.id);
            Trial::test(name.clone(), move || {
                let outcome = run_case(&harness, &case, timeout);
                expected.judge(case.id, &outcome.verdict).map_err(|why| {
                    Failed::from(format!(
                        "{why}\n\nThis case proves {} of {}.\nRun it alone: {}",
                        case.proves.join(", "),
                        case.page(),
                        alone(&name)
                    ))
                })
            })
        })
        .collect();
    trials.push(list);
    trials
}

/// The command that runs this test of this binary and no other.
fn alone(name: &str) -> String {
    let binary = std::env::current_exe().unwrap_or_default();
    let stem = binary.file_stem().unwrap_or_default().to_string_lossy();
    // Cargo calls the binary `NAME-HASH`.
    let test = stem.rsplit_once('-').map_or(&*stem, |(test, _)| test);
    let package = std::env::var("CARGO_PKG_NAME").map(|package| format!("-p {package} ")).unwrap_or_default();
    format!("cargo test {package}--test {test} -- --exact {name}")
}
