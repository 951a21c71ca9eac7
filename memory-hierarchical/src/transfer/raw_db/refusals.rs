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
    /// It is an edge that ends at a memory which is not there, or not of the right kind.
    Orphan,
    /// It is an edge, and another of its kind joins the same two memories.
    Repeated,
    /// It is an edge of a circle of memories that supersede each other.
    Circle,
    /// Its id is that of another memory or entry, which says something else: in the file before it, or in the store.
    Taken,
    /// One of its values is not what its column holds.
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

    /// The command says that as many are named in JSON; they were twenty.
    #[test]
    fn a_thousand_rows_are_named_and_all_are_counted() {
        let mut refusals = Refusals::default();
        (0..1_001).for_each(|row| refusals.add("sessions", Why::Orphan, || row.to_string()));
        let [refusal] = refusals.list() else { panic!("one kind of them") };
        assert_eq!((refusal.count, refusal.first.len()), (1_001, 1_000));
    }
}
