//! `expected-failures.toml`: what a provider does not do yet, enforced strictly.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;

use crate::case::Case;
use crate::suite::runner::Verdict;

/// Cases known to fail, each with its reason.
///
/// The list is strict both ways: a failure that is not listed fails, and so does a listed case that
/// no longer fails, or does not exist.
///
/// ```toml
/// [[case]]
/// id = "list.cursor.survives-deletes"
/// why = "cursors name a row, https://example.org/issues/12"
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExpectedFailures(BTreeMap<String, String>);

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    case: Vec<Line>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    id: String,
    why: String,
}

impl ExpectedFailures {
    /// Reads the text of a list.
    ///
    /// # Errors
    /// What is malformed, listed twice, or listed without a reason.
    pub fn parse(text: &str) -> Result<Self, String> {
        let file: File = toml::from_str(text).map_err(|error| error.to_string())?;
        let mut cases = BTreeMap::new();
        for Line { id, why } in file.case {
            if why.trim().is_empty() {
                return Err(format!("`{id}` is listed without a reason; say why it fails"));
            }
            if cases.insert(id.clone(), why).is_some() {
                return Err(format!("`{id}` is listed twice"));
            }
        }
        Ok(Self(cases))
    }

    /// Reads a file; a missing one is an empty list.
    ///
    /// # Errors
    /// As [`ExpectedFailures::parse`], or if the file exists but cannot be read.
    pub fn read(path: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::parse(&text).map_err(|why| format!("{}: {why}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("{}: {error}", path.display())),
        }
    }

    /// Listed ids without a case.
    #[must_use]
    pub fn unknown(&self, cases: &[Case]) -> Vec<&str> {
        self.0.keys().map(String::as_str).filter(|id| !cases.iter().any(|case| case.id == *id)).collect()
    }

    /// What a verdict means given the list; `Err` with the reason to fail.
    ///
    /// # Errors
    /// An unlisted failure, or a listed case that did not fail.
    pub fn judge(&self, id: &str, verdict: &Verdict) -> Result<(), String> {
        match (self.0.get(id), verdict.failure()) {
            (None, None) | (Some(_), Some(_)) => Ok(()),
            (None, Some(why)) => Err(why.to_owned()),
            (Some(why), None) => Err(format!(
                "is listed as an expected failure ({why}) but does not fail; remove it from the list"
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIST: &str = "[[case]]\nid = \"kv.get.never-set\"\nwhy = \"slow\"\n";

    #[test]
    fn an_unlisted_failure_and_a_listed_success_both_fail() {
        let list = ExpectedFailures::parse(LIST).unwrap();
        let failed = Verdict::Failed("x".into());
        assert!(list.judge("kv.get.never-set", &failed).is_ok());
        assert!(list.judge("kv.get.never-set", &Verdict::Passed).unwrap_err().contains("remove it"));
        assert_eq!(list.judge("kv.set.other", &failed), Err("x".to_owned()));
        assert!(list.judge("kv.set.other", &Verdict::Passed).is_ok());
    }

    #[test]
    fn an_incomplete_or_unknown_field_in_the_list_is_refused() {
        for bad in [
            "[[case]]\nid = \"a\"\n",
            "[[case]]\nid = \"a\"\nwhy = \" \"\n",
            "[[case]]\nid = \"a\"\nwhy = \"b\"\nuntil = 3\n",
            &format!("{LIST}{LIST}"),
            "case = 1",
        ] {
            assert!(ExpectedFailures::parse(bad).is_err(), "{bad}");
        }
        assert_eq!(ExpectedFailures::parse("").unwrap(), ExpectedFailures::default());
    }

    #[test]
    fn a_listed_id_without_a_case_is_found() {
        let list = ExpectedFailures::parse("[[case]]\nid = \"kv.gone\"\nwhy = \"x\"").unwrap();
        assert_eq!(list.unknown(&crate::cases::all()), ["kv.gone"]);
    }
}
