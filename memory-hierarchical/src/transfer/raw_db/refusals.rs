//! Rows that were not taken, and why.

use serde::Serialize;

use crate::transfer::import::NAMED;

/// Why a row was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum Why {
    /// It belongs to another agent.
    Foreign,
    /// An edge to a memory that does not exist, or is of the wrong kind.
    Orphan,
    /// It is an edge, and another of its kind joins the same two memories.
    Repeated,
    /// It is an edge in a circle of memories that supersede each other.
    Circle,
    /// Its id belongs to another memory or entry with different content, earlier in the file or in the store.
    Taken,
    /// One of its values does not fit its column.
    Malformed,
}

/// Rows of a table that were not taken for one reason.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// Their table in the file.
    pub table: &'static str,
    /// Why.
    pub why: Why,
    /// How many.
    pub count: u64,
    /// The first thousand.
    pub first: Vec<String>,
}

/// All of them.
#[derive(Debug, Default)]
pub(crate) struct Refusals(Vec<Refusal>);

impl Refusals {
    pub(crate) fn add(&mut self, table: &'static str, why: Why, what: impl FnOnce() -> String) {
        let found = self.0.iter_mut().find(|refusal| refusal.table == table && refusal.why == why);
        if let Some(refusal) = found {
            refusal.count += 1;
            if refusal.first.len() < NAMED {
                refusal.first.push(what());
            }
        } else {
            self.0.push(Refusal { table, why, count: 1, first: vec![what()] });
        }
    }

    pub(crate) fn of(&self, table: &str) -> u64 {
        self.0.iter().filter(|refusal| refusal.table == table).map(|refusal| refusal.count).sum()
    }

    pub(crate) fn all(self) -> Vec<Refusal> {
        self.0
    }

    pub(crate) fn list(&self) -> &[Refusal] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The command says that JSON names this many. Regression: it named twenty.
    #[test]
    fn a_thousand_rows_are_named_and_all_are_counted() {
        let mut refusals = Refusals::default();
        (0..1_001).for_each(|row| refusals.add("sessions", Why::Orphan, || row.to_string()));
        let [refusal] = refusals.list() else { panic!("one kind of them") };
        assert_eq!((refusal.count, refusal.first.len()), (1_001, 1_000));
    }
}
