//! What an evaluation says.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use memory_core::{EmbeddingModel, SearchMode};
use serde::Serialize;

use crate::bootstrap::{Interval, mean_interval};
use crate::locomo::{Dialogue, Evidence};
use crate::metrics::mean;

/// Means over questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Measures {
    /// How many questions.
    pub questions: usize,
    /// Recall among the first 5 hits.
    pub recall_at_5: f64,
    /// Recall among the first 10 hits.
    pub recall_at_10: f64,
    /// nDCG of the first 10 hits.
    pub ndcg_at_10: f64,
}

/// The questions of one LoCoMo category.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Category {
    /// Its number in the data.
    pub category: u32,
    /// What the number means.
    pub name: &'static str,
    /// Means over its questions.
    #[serde(flatten)]
    pub measures: Measures,
}

/// Times, by the monotonic clock of the caller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Timing {
    /// All writing, in seconds.
    pub store_seconds: f64,
    /// Median search, in milliseconds.
    pub search_p50_ms: f64,
    /// 99th percentile, in milliseconds.
    pub search_p99_ms: f64,
}

/// The answer of [`evaluate`](crate::evaluate()). Everything but `timing` is the same in every run.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Means over all judged questions.
    #[serde(flatten)]
    pub overall: Measures,
    /// The 95 % bootstrap interval of `recall_at_10`.
    pub recall_at_10_interval: Interval,
    /// How candidates were looked for.
    pub mode: SearchMode,
    /// The model of the vectors, where the mode needs them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<EmbeddingModel>,
    /// Dialogues read.
    pub dialogues: usize,
    /// Turns stored.
    pub turns: usize,
    /// Evidence named by the judged questions, each question's as a set.
    pub evidence: usize,
    /// Evidence among it that names no turn of its dialogue, and so can never be found.
    pub evidence_unmatched: usize,
    /// By category, in the order of their numbers.
    pub categories: Vec<Category>,
    /// How long it took.
    pub timing: Timing,
    /// Recall among the first 10 hits, question by question in the file's order.
    #[serde(skip)]
    recalls: Vec<f64>,
}

/// How one search does on each question, against another on the same questions.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Paired {
    /// Mean difference of recall among the first 10 hits; over 0 where the first is better.
    pub difference: f64,
    /// Its 95 % bootstrap interval over questions.
    pub interval: Interval,
    /// Questions on which the first recalls more.
    pub better: usize,
    /// Questions on which it recalls less.
    pub worse: usize,
}

impl Report {
    /// This search against `other` on the same questions, paired question by question, so that what makes
    /// questions hard for both cancels out. `None` where the two did not answer the same number.
    #[must_use]
    pub fn against(&self, other: &Self) -> Option<Paired> {
        if self.recalls.len() != other.recalls.len() {
            return None;
        }
        let differences: Vec<f64> = self.recalls.iter().zip(&other.recalls).map(|(a, b)| a - b).collect();
        Some(Paired {
            difference: mean(&differences),
            interval: mean_interval(&differences),
            better: differences.iter().filter(|difference| **difference > 0.0).count(),
            worse: differences.iter().filter(|difference| **difference < 0.0).count(),
        })
    }
}

/// Gathers what [`Report`] sums up.
pub(crate) struct Judged {
    mode: SearchMode,
    model: Option<EmbeddingModel>,
    recalls: Vec<f64>,
    /// Per category, per question: recall@5, recall@10, nDCG@10.
    by_category: BTreeMap<u32, Vec<[f64; 3]>>,
    store: Duration,
    searches: Vec<Duration>,
}

impl Judged {
    pub(crate) fn new(mode: SearchMode) -> Self {
        Self {
            mode,
            model: None,
            recalls: Vec::new(),
            by_category: BTreeMap::new(),
            store: Duration::ZERO,
            searches: Vec::new(),
        }
    }

    pub(crate) fn embedded_by(&mut self, model: EmbeddingModel) {
        self.model = Some(model);
    }

    pub(crate) fn stored(&mut self, took: Duration) {
        self.store += took;
    }

    pub(crate) fn answered(&mut self, category: u32, measures: [f64; 3], took: Duration) {
        let [_, recall_at_10, _] = measures;
        self.recalls.push(recall_at_10);
        self.by_category.entry(category).or_default().push(measures);
        self.searches.push(took);
    }

    pub(crate) fn questions(&self) -> usize {
        self.searches.len()
    }

    pub(crate) fn finish(mut self, dialogues: &[Dialogue]) -> Report {
        let all: Vec<[f64; 3]> = self.by_category.values().flatten().copied().collect();
        let (evidence, evidence_unmatched) = evidence(dialogues);
        self.searches.sort();
        Report {
            overall: measures(&all),
            recall_at_10_interval: mean_interval(
                &all.iter().map(|[_, recall, _]| *recall).collect::<Vec<_>>(),
            ),
            mode: self.mode,
            model: self.model,
            dialogues: dialogues.len(),
            turns: dialogues.iter().map(|dialogue| dialogue.turns.len()).sum(),
            evidence,
            evidence_unmatched,
            categories: self
                .by_category
                .iter()
                .map(|(&category, judged)| Category {
                    category,
                    name: category_name(category),
                    measures: measures(judged),
                })
                .collect(),
            timing: Timing {
                store_seconds: self.store.as_secs_f64(),
                search_p50_ms: percentile_ms(&self.searches, 50),
                search_p99_ms: percentile_ms(&self.searches, 99),
            },
            recalls: self.recalls,
        }
    }
}

fn measures(judged: &[[f64; 3]]) -> Measures {
    let column = |pick: fn(&[f64; 3]) -> f64| mean(&judged.iter().map(pick).collect::<Vec<_>>());
    Measures {
        questions: judged.len(),
        recall_at_5: column(|[recall, _, _]| *recall),
        recall_at_10: column(|[_, recall, _]| *recall),
        ndcg_at_10: column(|[_, _, ndcg]| *ndcg),
    }
}

/// Evidence of the judged questions, and how much of it names no turn.
fn evidence(dialogues: &[Dialogue]) -> (usize, usize) {
    let (mut named, mut unmatched) = (0, 0);
    for dialogue in dialogues {
        let turns: BTreeSet<_> = dialogue.turns.iter().map(|turn| turn.id).collect();
        for evidence in dialogue.questions.iter().filter(|q| q.is_judged()).flat_map(|q| &q.evidence) {
            named += 1;
            unmatched += usize::from(!matches!(evidence, Evidence::Turn(id) if turns.contains(id)));
        }
    }
    (named, unmatched)
}

fn category_name(category: u32) -> &'static str {
    match category {
        1 => "multi-hop",
        2 => "temporal",
        3 => "open-domain",
        4 => "single-hop",
        _ => "other",
    }
}

/// Nearest rank over sorted values.
fn percentile_ms(sorted: &[Duration], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(rank).map_or(0.0, |took| took.as_secs_f64() * 1e3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_four_measures_stand_at_the_top_of_the_json_under_their_names() {
        let mut judged = Judged::new(SearchMode::Lexical);
        judged.answered(4, [0.0, 1.0, 0.5], Duration::from_millis(2));
        judged.answered(1, [1.0, 1.0, 1.0], Duration::from_millis(4));
        let json = serde_json::to_value(judged.finish(&[])).unwrap();
        assert_eq!(json["questions"], 2);
        assert_eq!(json["recall_at_5"], 0.5);
        assert_eq!(json["recall_at_10"], 1.0);
        assert_eq!(json["ndcg_at_10"], 0.75);
        assert_eq!(json["mode"], "lexical");
        assert_eq!(json["categories"][0]["name"], "multi-hop");
        assert_eq!(json["categories"][1]["recall_at_5"], 0.0);
        assert_eq!(json["timing"]["search_p50_ms"], 2.0);
    }

    #[test]
    fn a_comparison_pairs_questions_and_counts_who_wins() {
        let report = |recalls: &[f64]| {
            let mut judged = Judged::new(SearchMode::Hybrid);
            for recall in recalls {
                judged.answered(4, [0.0, *recall, 0.0], Duration::ZERO);
            }
            judged.finish(&[])
        };
        let words = report(&[0.0, 1.0, 0.5, 0.5]);
        let both = report(&[1.0, 0.5, 1.0, 0.5]);
        let paired = both.against(&words).unwrap();
        assert!((paired.difference - 0.25).abs() < 1e-12, "{paired:?}");
        assert!(paired.interval.low <= paired.difference && paired.difference <= paired.interval.high);
        assert_eq!((paired.better, paired.worse), (2, 1));
        assert_eq!(both.against(&both).map(|paired| paired.interval.high), Some(0.0));
        assert_eq!(both.against(&report(&[1.0])), None);
    }

    #[test]
    fn percentiles_are_by_nearest_rank() {
        let sorted: Vec<Duration> = (1..=200).map(Duration::from_millis).collect();
        assert!((percentile_ms(&sorted, 50) - 100.0).abs() < 1e-9);
        assert!((percentile_ms(&sorted, 99) - 198.0).abs() < 1e-9);
        assert!(percentile_ms(&[], 50).abs() < 1e-9);
    }
}
