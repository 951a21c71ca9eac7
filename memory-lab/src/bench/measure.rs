//! Interleaved rounds: floor, product, product, floor, …; figures are medians over the rounds.

use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use memory_core::{Error, Result};

use super::machine::{cpu_time, goes_on};

/// The measurement of one time slice.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sample {
    pub(super) operations: u64,
    pub(super) elapsed: Duration,
    pub(super) cpu: Option<Duration>,
}

impl Sample {
    /// Runs `work`, which returns how many operations it did.
    pub(super) fn of(work: impl FnOnce() -> Result<u64>) -> Result<Self> {
        let cpu = cpu_time();
        let started = Instant::now();
        let operations = work()?;
        let elapsed = started.elapsed();
        let cpu = cpu_time().zip(cpu).map(|(after, before)| after.saturating_sub(before));
        if operations == 0 {
            return Err(Error::internal("no operation finished within a time slice; give more --seconds"));
        }
        Ok(Self { operations, elapsed, cpu })
    }

    fn micros(&self, time: Duration) -> f64 {
        time.as_secs_f64() * 1e6 / operations(self.operations)
    }

    /// Microseconds of wall time per operation.
    pub(super) fn micros_per_operation(&self) -> f64 {
        self.micros(self.elapsed)
    }

    pub(super) fn operations_per_second(&self) -> f64 {
        operations(self.operations) / self.elapsed.as_secs_f64()
    }

    /// Microseconds of processor time per operation.
    pub(super) fn cpu_micros_per_operation(&self) -> Option<f64> {
        self.cpu.map(|cpu| self.micros(cpu))
    }
}

#[allow(clippy::cast_precision_loss, reason = "counts of operations are far below 2^53")]
fn operations(count: u64) -> f64 {
    count as f64
}

/// When a slice ends, and whether the user has stopped the run.
#[derive(Clone, Copy)]
pub(super) struct Slice<'a> {
    ends: Instant,
    stop: &'a AtomicBool,
}

impl<'a> Slice<'a> {
    pub(super) fn lasting(duration: Duration, stop: &'a AtomicBool) -> Self {
        Self { ends: Instant::now() + duration, stop }
    }

    /// Whether to continue after so many operations: at least one is done, however busy the machine is.
    ///
    /// # Errors
    /// `unavailable` once the user has stopped the run.
    pub(super) fn goes_on(&self, done: u64) -> Result<bool> {
        goes_on(self.stop)?;
        Ok(done == 0 || Instant::now() < self.ends)
    }
}

/// Samples of both sides, round by round.
#[derive(Debug, Default)]
pub(super) struct Rounds {
    pub(super) ours: Vec<Sample>,
    pub(super) floor: Vec<Sample>,
}

/// Runs both sides, `rounds` times after one discarded round. The side that goes first alternates, so that neither always
/// follows the other.
pub(super) fn interleave(
    rounds: u32,
    mut ours: impl FnMut() -> Result<Sample>,
    mut floor: impl FnMut() -> Result<Sample>,
) -> Result<Rounds> {
    let mut samples = Rounds::default();
    for round in 0..=rounds {
        let (a, b) = if round % 2 == 0 {
            let floor = floor()?;
            (ours()?, floor)
        } else {
            (ours()?, floor()?)
        };
        if round > 0 {
            samples.ours.push(a);
            samples.floor.push(b);
        }
    }
    Ok(samples)
}

/// The median: the mean of the two middle values if their number is even; 0 if there are none.
pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    let at = |place: usize| values.get(place).copied().unwrap_or_default();
    match values.len() {
        0 => 0.0,
        even if even % 2 == 0 => f64::midpoint(at(middle - 1), at(middle)),
        _ => at(middle),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::sync::atomic::Ordering;

    #[test]
    fn sides_alternate_and_the_first_round_is_thrown_away() {
        let order = RefCell::new(String::new());
        let sample = |name: char, operations: u64| {
            order.borrow_mut().push(name);
            Ok(Sample { operations, elapsed: Duration::from_secs(1), cpu: None })
        };
        let rounds = interleave(3, || sample('o', 7), || sample('f', 9)).unwrap();
        assert_eq!(order.into_inner(), "fooffoof");
        assert_eq!((rounds.ours.len(), rounds.floor.len()), (3, 3));
        assert!((rounds.ours[0].operations_per_second() - 7.0).abs() < 1e-9);
    }

    #[test]
    fn medians_do_not_follow_an_outlier() {
        assert!((median(vec![3.0, 1.0, 1_000.0]) - 3.0).abs() < 1e-9);
        assert!((median(vec![4.0, 2.0]) - 3.0).abs() < 1e-9);
        assert!(median(Vec::new()).abs() < 1e-9);
    }

    #[test]
    fn a_slice_ends_by_time_or_by_the_user() {
        let stop = AtomicBool::new(false);
        assert!(Slice::lasting(Duration::from_secs(3_600), &stop).goes_on(1).unwrap());
        assert!(Slice::lasting(Duration::ZERO, &stop).goes_on(0).unwrap());
        assert!(!Slice::lasting(Duration::ZERO, &stop).goes_on(1).unwrap());
        stop.store(true, Ordering::Relaxed);
        assert!(Slice::lasting(Duration::ZERO, &stop).goes_on(0).is_err());
    }

    #[test]
    fn figures_are_per_operation() {
        let sample = Sample {
            operations: 4,
            elapsed: Duration::from_micros(10),
            cpu: Some(Duration::from_micros(20)),
        };
        assert!((sample.micros_per_operation() - 2.5).abs() < 1e-9);
        assert!((sample.cpu_micros_per_operation().unwrap() - 5.0).abs() < 1e-9);
        assert!((sample.operations_per_second() - 400_000.0).abs() < 1e-3);
    }
}
