//! Whether a concurrent history is explained by one register with sequential operations.
//!
//! The search of Wing and Gong (JPDC 1993) with the cache of Lowe (2017): operations are tried in every order that
//! respects real time, and a set of operations that failed in some state of the register is not tried again.

use std::collections::{BTreeSet, HashSet};

/// What one operation did, as seen by its caller.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    /// Read this value; `None` if absent.
    Read(Option<i64>),
    /// Wrote this value unconditionally.
    Write(i64),
    /// Wrote `to` after finding `from`.
    Swap {
        /// The expected value; `None` if absent.
        from: Option<i64>,
        /// What was written.
        to: i64,
    },
    /// Did not write, because it did not find `from`.
    SwapRefused {
        /// The expected value; `None` if absent.
        from: Option<i64>,
    },
    /// Added `by`, with absent counting as 0, and got `to`.
    Add {
        /// What was added.
        by: i64,
        /// The sum.
        to: i64,
    },
    /// May have written this value: the reply was lost.
    MaybeWrite(i64),
}

impl Step {
    /// The possible registers after the step; empty if it cannot have happened.
    fn after(self, register: Option<i64>) -> Vec<Option<i64>> {
        let happened = |holds: bool, after: Option<i64>| if holds { vec![after] } else { Vec::new() };
        match self {
            Self::Read(seen) => happened(seen == register, register),
            Self::Write(value) => vec![Some(value)],
            Self::Swap { from, to } => happened(from == register, Some(to)),
            Self::SwapRefused { from } => happened(from != register, register),
            Self::Add { by, to } => happened(register.unwrap_or(0).checked_add(by) == Some(to), Some(to)),
            Self::MaybeWrite(value) => vec![Some(value), register],
        }
    }
}

/// One operation of a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Operation {
    /// The time before the call.
    pub called: u64,
    /// The time after the return; later than `called`.
    pub returned: u64,
    /// What it did.
    pub step: Step,
}

/// Whether the operations have an order that respects real time (an operation that returned before another was called
/// comes first) and explains every step, starting with `register`.
///
/// Exponential in the number of overlapping operations, not in their total.
#[must_use]
pub fn is_linearizable(register: Option<i64>, history: &[Operation]) -> bool {
    let mut history = history.to_vec();
    history.sort_by_key(|operation| operation.called);
    // Visited states: the finished operations, and the register.
    let mut seen: HashSet<(Done, Option<i64>)> = HashSet::new();
    let mut open = vec![(Done::default(), register)];
    while let Some((done, register)) = open.pop() {
        if done.all_before == history.len() {
            return true;
        }
        let rest = || history.iter().enumerate().skip(done.all_before).filter(|(index, _)| !done.has(*index));
        // Any operation called before the first of the rest returned may come next.
        let first_return = rest().map(|(_, operation)| operation.returned).min().unwrap_or(0);
        for (index, operation) in rest().take_while(|(_, operation)| operation.called <= first_return) {
            for after in operation.step.after(register) {
                let state = (done.with(index), after);
                if seen.insert(state.clone()) {
                    open.push(state);
                }
            }
        }
    }
    false
}

/// Which operations are done: all before an index, and some after it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
struct Done {
    all_before: usize,
    beyond: BTreeSet<usize>,
}

impl Done {
    fn has(&self, index: usize) -> bool {
        index < self.all_before || self.beyond.contains(&index)
    }

    fn with(&self, index: usize) -> Self {
        let mut done = self.clone();
        done.beyond.insert(index);
        while done.beyond.remove(&done.all_before) {
            done.all_before += 1;
        }
        done
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Operations as `(called, returned, step)`.
    fn holds(history: &[(u64, u64, Step)]) -> bool {
        let history: Vec<Operation> =
            history.iter().map(|&(called, returned, step)| Operation { called, returned, step }).collect();
        is_linearizable(None, &history)
    }

    use Step::{Add, MaybeWrite, Read, Swap, SwapRefused, Write};

    #[test]
    fn sequential_histories_are_checked_in_order() {
        assert!(holds(&[]));
        assert!(holds(&[(0, 1, Read(None)), (2, 3, Write(1)), (4, 5, Read(Some(1)))]));
        assert!(!holds(&[(0, 1, Write(1)), (2, 3, Read(None))]));
        assert!(!holds(&[(0, 1, Write(1)), (2, 3, Write(2)), (4, 5, Read(Some(1)))]));
    }

    #[test]
    fn overlapping_operations_may_have_either_order() {
        assert!(holds(&[(0, 3, Write(1)), (1, 2, Read(None))]));
        assert!(holds(&[(0, 3, Write(1)), (1, 2, Read(Some(1)))]));
        assert!(holds(&[(0, 9, Write(1)), (1, 8, Write(2)), (10, 11, Read(Some(1)))]));
        // The classic violation: one reader sees the new value, a later one the old.
        assert!(!holds(&[(0, 9, Write(1)), (1, 2, Read(Some(1))), (3, 4, Read(None))]));
    }

    #[test]
    fn only_one_of_two_swaps_from_the_same_value_succeeds() {
        let swap = |to| Swap { from: None, to };
        assert!(!holds(&[(0, 9, swap(1)), (1, 8, swap(2))]));
        assert!(holds(&[(0, 9, swap(1)), (1, 8, SwapRefused { from: None })]));
        assert!(!holds(&[(0, 1, SwapRefused { from: None }), (2, 3, swap(1))]));
    }

    #[test]
    fn increments_add_up_one_by_one() {
        let add = |to| Add { by: 1, to };
        assert!(holds(&[(0, 9, add(2)), (1, 8, add(1)), (2, 7, add(3))]));
        assert!(!holds(&[(0, 9, add(1)), (1, 8, add(1))]), "a lost update");
        assert!(!holds(&[(0, 1, add(2)), (2, 3, add(1))]), "against real time");
    }

    #[test]
    fn a_lost_reply_may_have_written_or_not() {
        assert!(holds(&[(0, 1, MaybeWrite(1)), (2, 3, Read(None))]));
        assert!(holds(&[(0, 1, MaybeWrite(1)), (2, 3, Read(Some(1)))]));
        assert!(!holds(&[(0, 1, MaybeWrite(1)), (2, 3, Read(Some(1))), (4, 5, Read(None))]));
    }

    #[test]
    fn long_histories_with_little_overlap_are_decided_quickly() {
        let mut history = Vec::new();
        for round in 0..300_u64 {
            let value = i64::try_from(round).unwrap();
            history.push((10 * round, 10 * round + 8, Write(value)));
            history.push((10 * round + 1, 10 * round + 9, Read(Some(value))));
        }
        assert!(holds(&history));
        history.push((5_000, 5_001, Read(Some(0))));
        assert!(!holds(&history));
    }
}
