//! Problems of an import: all are counted, and the first few keep their details.

use serde::Serialize;

use super::readers::Place;

/// How many problems keep their details.
pub(crate) const SHOWN: usize = 20;

/// One problem.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Problem {
    /// The file, as named on the command line.
    pub(crate) file: String,
    /// The place in the file.
    #[serde(flatten)]
    pub(crate) place: Place,
    /// The reason.
    pub(crate) why: String,
}

/// Problems of an import.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Problems {
    /// Their number.
    pub(crate) count: u64,
    /// The first few.
    pub(crate) first: Vec<Problem>,
}

impl Problems {
    pub(crate) fn add(&mut self, file: &str, place: Place, why: impl Into<String>) {
        self.count += 1;
        if self.first.len() < SHOWN {
            self.first.push(Problem { file: file.to_owned(), place, why: why.into() });
        }
    }

    pub(crate) fn extend(&mut self, more: Self) {
        self.count += more.count;
        let room = SHOWN.saturating_sub(self.first.len());
        self.first.extend(more.first.into_iter().take(room));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_are_shown_and_all_are_counted() {
        let mut problems = Problems::default();
        for line in 1..=50 {
            problems.add("chat.jsonl", Place::Line(line), "broken");
        }
        assert_eq!((problems.count, problems.first.len()), (50, SHOWN));
        assert_eq!(
            serde_json::to_string(&problems.first[1]).unwrap(),
            r#"{"file":"chat.jsonl","line":2,"why":"broken"}"#
        );
    }
}
