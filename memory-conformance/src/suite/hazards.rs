//! Runs the hazards of shared state: each case on a store, and each mutant of its sentence against that very case.

use std::ops::ControlFlow;
use std::sync::Arc;

use crate::cases;
use crate::governed::{HAZARDS, Hazard};
use crate::harness::Harness;
use crate::mutants::{self, MutantHarness, MutantOutcome};
use crate::suite::options::Options;
use crate::suite::parallel::in_parallel;
use crate::suite::runner::{Verdict, run_case};

/// A hazard on one store.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct HazardOutcome {
    /// The hazard.
    pub hazard: Hazard,
    /// How its case ended.
    pub verdict: Verdict,
    /// The mutants that break its sentence, and why the case failed on each; none were run unless the case passed.
    pub mutants: Vec<MutantOutcome>,
}

impl HazardOutcome {
    /// Whether the store passes, and the case notices every mutant.
    #[must_use]
    pub fn is_sound(&self) -> bool {
        let is_caught = |mutant: &MutantOutcome| mutant.caught.is_some();
        match self.verdict {
            Verdict::Passed => !self.mutants.is_empty() && self.mutants.iter().all(is_caught),
            Verdict::Refused(_) | Verdict::Skipped(_) => true,
            Verdict::Failed(_) => false,
        }
    }
}

/// Runs every hazard on the harness's provider. The flag says whether `progress` cancelled.
pub fn run_hazards(
    harness: &Arc<dyn Harness>,
    options: &Options,
    progress: impl FnMut(&HazardOutcome) -> ControlFlow<()>,
) -> (Vec<HazardOutcome>, bool) {
    let (cases, mutants) = (cases::all(), mutants::of_sql());
    let run = |hazard: &Hazard| {
        let Some(case) = cases.iter().find(|case| case.id == hazard.case) else {
            let verdict = Verdict::Failed(format!("there is no case `{}`", hazard.case));
            return HazardOutcome { hazard: *hazard, verdict, mutants: Vec::new() };
        };
        let verdict = run_case(harness, case, options.timeout).verdict;
        let breaking = mutants.iter().filter(|mutant| mutant.breaks.contains(&hazard.sentence));
        let tried = breaking.filter(|_| verdict == Verdict::Passed).map(|mutant| {
            let broken: Arc<dyn Harness> = Arc::new(MutantHarness::around(*mutant, Arc::clone(harness)));
            let caught = match run_case(&broken, case, options.timeout).verdict {
                Verdict::Failed(why) => Some((case.id, why)),
                _ => None,
            };
            MutantOutcome { mutant: *mutant, caught }
        });
        let mutants = tried.collect();
        HazardOutcome { hazard: *hazard, verdict, mutants }
    };
    in_parallel(HAZARDS, options.threads, run, progress)
}
