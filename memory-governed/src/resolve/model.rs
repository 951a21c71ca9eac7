//! The weights: which row is likeliest, and whether that is certain enough. `data/resolver.json` holds them, with the
//! data that produced them; `make/README.md` explains how.

use std::collections::HashMap;
use std::sync::LazyLock;

use memory_core::{Error, Result};
use serde::Deserialize;

use super::measure::{Background, Measures, NAMES, best_two, count};
use super::weigh::{OFFER, SCENE, SHORT_LIST, Weighed};
use super::words::hash;

static FILE: &str = include_str!("../../data/resolver.json");
static BUILT_IN: LazyLock<std::result::Result<Model, String>> =
    LazyLock::new(|| Model::from_json(FILE).map_err(|error| error.to_string()));

/// Measures that also count by their lead over the best of the other rows.
const GAPS: [&str; 11] =
    ["covg", "evt", "ev", "fevt", "bm25", "ch4", "softcov", "lcs", "big", "covf", "simple"];
/// Inputs of the second stage that are neither measures nor of the scene.
const MARGINS: [&str; 7] = ["s1", "gap", "logp1", "near", "twin", "endedlead", "gap6"];
/// A row to which the words give this share of the probability is offered, whatever speaks for others.
const LIKELY: f64 = 0.25;
/// The name of the words' score among the weights of offers.
const WORDS: &str = "words";
/// Greater leads count as this much.
const MOST_GAP: f64 = 12.0;
const MOST_GAP6: f64 = 6.0;
/// A row with at least this share of the first row's probability is a near rival.
const NEAR: f64 = 0.05;

/// A table of weights.
#[derive(Clone, Debug)]
pub struct Model {
    background: HashMap<u64, f64>,
    /// Weights of [`NAMES`], then of [`GAPS`].
    rank: Vec<f64>,
    /// What the words' score and each of [`OFFER`] count where nothing is bound.
    offer: (f64, Vec<f64>),
    intercept: f64,
    terms: Vec<Term>,
    threshold: f64,
    least_share: f64,
}

/// A weight, and the inputs whose product it weighs: each by its place, and whether one minus it is meant.
#[derive(Clone, Debug)]
struct Term {
    weight: f64,
    factors: Vec<(usize, bool)>,
}

#[derive(Deserialize)]
struct File {
    background: HashMap<String, f64>,
    rank: HashMap<String, f64>,
    /// A table without them offers what it ranks first.
    #[serde(default)]
    offer: HashMap<String, f64>,
    intercept: f64,
    bind: HashMap<String, f64>,
    threshold: f64,
    /// The first row's least share of the probability: with twins, neither is bound.
    least_share: f64,
}

/// Rows by likelihood, and how certain the first is.
#[derive(Clone, Debug)]
pub(super) struct Ranking {
    /// Places in the short list, likeliest first, each with its probability among them.
    pub(super) order: Vec<(usize, f64)>,
    /// The same of all rows, for offering them where nothing is bound.
    pub(super) offers: Vec<(usize, f64)>,
    /// The log odds that the first is meant; minus infinity where nothing may be bound by words.
    pub(super) certainty: f64,
}

impl Model {
    /// The table of this crate. `None` only if its file was damaged before it was compiled: then nothing binds by words.
    pub(super) fn built_in() -> Option<&'static Self> {
        BUILT_IN.as_ref().ok()
    }

    /// Reads a table.
    ///
    /// # Errors
    /// `invalid_argument` for anything but such a table, or for an unknown input name.
    pub fn from_json(text: &str) -> Result<Self> {
        let file: File = serde_json::from_str(text)
            .map_err(|error| Error::invalid(format!("not a table of weights: {error}")))?;
        let unknown =
            |name: &str| Error::invalid(format!("a table of weights names the unknown input `{name}`"));
        let rank_names: Vec<String> = rank_names().collect();
        let mut rank = vec![0.0; rank_names.len()];
        for (name, weight) in &file.rank {
            let at = rank_names.iter().position(|known| known == name).ok_or_else(|| unknown(name))?;
            if let Some(place) = rank.get_mut(at) {
                *place = *weight;
            }
        }
        let known = |name: &String| name == WORDS || OFFER.contains(&name.as_str());
        if let Some(name) = file.offer.keys().find(|name| !known(name)) {
            return Err(unknown(name));
        }
        let weight = |name: &str| file.offer.get(name).copied();
        let offer = (
            weight(WORDS).unwrap_or(1.0),
            OFFER.iter().map(|name| weight(name).unwrap_or_default()).collect(),
        );
        let inputs: Vec<String> = input_names().collect();
        let mut terms = Vec::new();
        // By name: sums of floating-point numbers depend on their order.
        let mut bind: Vec<(&String, &f64)> = file.bind.iter().collect();
        bind.sort_by_key(|(name, _)| *name);
        for (name, weight) in bind {
            let factors = name.split('*').map(|factor| {
                let plain = factor.strip_prefix('-').unwrap_or(factor);
                let at = inputs.iter().position(|known| known == plain).ok_or_else(|| unknown(name))?;
                Ok((at, factor.starts_with('-')))
            });
            terms.push(Term { weight: *weight, factors: factors.collect::<Result<_>>()? });
        }
        Ok(Self {
            background: file.background.iter().map(|(stem, share)| (hash(stem), *share)).collect(),
            rank,
            offer,
            intercept: file.intercept,
            terms,
            threshold: file.threshold,
            least_share: file.least_share,
        })
    }

    /// The log odds from which a row is bound.
    #[must_use]
    pub const fn threshold(&self) -> f64 {
        self.threshold
    }

    /// The same table, which binds the first row however unlikely it is.
    #[cfg(feature = "lab")]
    #[must_use]
    pub fn at_any_odds(&self) -> Self {
        Self { threshold: f64::MIN, ..self.clone() }
    }

    /// Ranks what was weighed.
    pub(super) fn rank(&self, weighed: &Weighed<'_>) -> Ranking {
        let gaps = gaps(&weighed.measures);
        let scores: Vec<f64> = weighed
            .measures
            .iter()
            .zip(&gaps)
            .map(|(measures, gaps)| {
                measures.iter().chain(gaps).zip(&self.rank).map(|(x, weight)| x * weight).sum()
            })
            .collect();
        let (order, total) = ordered(weighed, scores.get(..SHORT_LIST).unwrap_or(&scores));
        let offers = self.offers(weighed, &scores, &order);
        let inputs = inputs(weighed, &scores, &order, total);
        let term = |term: &Term| {
            let product: f64 = term
                .factors
                .iter()
                .map(|(at, inverse)| {
                    let x = inputs.get(*at).copied().unwrap_or_default();
                    if *inverse { 1.0 - x } else { x }
                })
                .product();
            term.weight * product
        };
        let share = order.first().map_or(0.0, |(_, share)| *share);
        let certainty = if inputs.is_empty()
            || share < self.least_share
            || (weighed.small && !is_restated(weighed, &order))
        {
            f64::NEG_INFINITY
        } else {
            self.intercept + self.terms.iter().map(term).sum::<f64>()
        };
        Ranking { order, offers, certainty }
    }

    /// The order in which rows are offered: first what the words make likely, then the rest.
    fn offers(&self, weighed: &Weighed<'_>, scores: &[f64], order: &[(usize, f64)]) -> Vec<(usize, f64)> {
        let (words, weights) = &self.offer;
        let scores: Vec<f64> = scores
            .iter()
            .zip(&weighed.offers)
            .map(|(score, offer)| {
                words * score + offer.iter().zip(weights).map(|(x, weight)| x * weight).sum::<f64>()
            })
            .collect();
        let likely = |at: &usize| order.iter().any(|(other, share)| other == at && *share >= LIKELY);
        let (first, rest): (Vec<_>, Vec<_>) =
            ordered(weighed, &scores).0.into_iter().partition(|(at, _)| likely(at));
        [first, rest].concat()
    }
}

impl Background for Model {
    fn share(&self, word: u64) -> f64 {
        self.background.get(&word).copied().unwrap_or_default()
    }
}

/// Places of rows, likeliest first, each with its probability; and the sum of their odds against the first.
fn ordered(weighed: &Weighed<'_>, scores: &[f64]) -> (Vec<(usize, f64)>, f64) {
    let best = scores.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = scores.iter().map(|score| (score - best).exp()).sum();
    let mut order: Vec<(usize, f64)> =
        scores.iter().map(|score| (score - best).exp() / total).enumerate().collect();
    let id = |at: usize| weighed.rows.get(at).map(|row| row.row.id.as_str());
    order.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| id(a.0).cmp(&id(b.0))));
    (order, total)
}

/// Whether the note contains every word of the first row's title, apart from words of tracking work, and these are at
/// least two.
fn is_restated(weighed: &Weighed<'_>, order: &[(usize, f64)]) -> bool {
    let Some((at, _)) = order.first() else { return false };
    let covered = NAMES.iter().position(|name| *name == "covg");
    let covered = covered.and_then(|place| weighed.measures.get(*at)?.get(place));
    let specific = weighed.rows.get(*at).map(|row| row.title_set.iter().filter(|word| !word.chore).count());
    covered.is_some_and(|share| *share > 0.999) && specific.is_some_and(|words| words >= 2)
}

fn rank_names() -> impl Iterator<Item = String> {
    NAMES.iter().map(|name| (*name).to_owned()).chain(GAPS.iter().map(|name| format!("gap_{name}")))
}

/// What the second stage reads: margins, the first row's measures, their lead over the second's, the scene.
pub(super) fn input_names() -> impl Iterator<Item = String> {
    MARGINS
        .iter()
        .chain(&NAMES)
        .map(|name| (*name).to_owned())
        .chain(NAMES.iter().map(|name| format!("d_{name}")))
        .chain(SCENE.iter().map(|name| (*name).to_owned()))
}

fn inputs(weighed: &Weighed<'_>, scores: &[f64], order: &[(usize, f64)], total: f64) -> Vec<f64> {
    let Some(((first, share), measures, score)) = order
        .first()
        .and_then(|(at, share)| Some(((*at, *share), weighed.measures.get(*at)?, scores.get(*at)?)))
    else {
        return Vec::new();
    };
    let second = order.get(1).and_then(|(at, _)| Some((weighed.measures.get(*at)?, scores.get(*at)?)));
    let gap = second.map_or(MOST_GAP, |(_, other)| (score - other).min(MOST_GAP));
    let near = order.iter().skip(1).filter(|(_, other)| *other > NEAR * share).count();
    let at = |name: &str| {
        NAMES
            .iter()
            .position(|known| *known == name)
            .and_then(|at| measures.get(at))
            .copied()
            .unwrap_or_default()
    };
    let ended = SCENE.iter().position(|name| *name == "ended").and_then(|at| weighed.scene.get(at));
    let margins = [
        *score,
        gap,
        -total.ln(),
        count(near).ln_1p(),
        weighed.twins.get(first).copied().unwrap_or_default(),
        ended.copied().unwrap_or_default() - at("simple"),
        gap.min(MOST_GAP6) / MOST_GAP6,
    ];
    let none: Measures = [0.0; NAMES.len()];
    let other = second.map_or(&none, |(measures, _)| measures);
    margins
        .into_iter()
        .chain(measures.iter().copied())
        .chain(measures.iter().zip(other).map(|(x, y)| x - y))
        .chain(weighed.scene)
        .collect()
}

/// For each row, the lead of each of [`GAPS`] over the best of the others on the short list.
fn gaps(all: &[Measures]) -> Vec<Vec<f64>> {
    let places: Vec<usize> =
        GAPS.iter().filter_map(|name| NAMES.iter().position(|known| known == name)).collect();
    let value = |measures: &Measures, at: usize| measures.get(at).copied().unwrap_or_default();
    let best_two: Vec<(f64, f64)> = places
        .iter()
        .map(|at| {
            all.iter()
                .take(SHORT_LIST)
                .map(|measures| value(measures, *at))
                .fold((0.0_f64, 0.0_f64), |(first, second), x| best_two(first, second, x))
        })
        .collect();
    all.iter()
        .map(|measures| {
            places
                .iter()
                .zip(&best_two)
                .map(|(at, (first, second))| {
                    let x = value(measures, *at);
                    x - if x >= *first { second } else { first }
                })
                .collect()
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_the_crate_is_whole() {
        let model = Model::from_json(FILE).unwrap();
        assert!(model.background.len() > 100 && model.terms.len() > 20 && model.threshold > 1.0);
        assert!(Model::built_in().is_some());
    }

    #[test]
    fn tables_with_unknown_names_are_refused() {
        let table = |bind: &str| {
            format!(
                r#"{{"background": {{}}, "rank": {{"cov": 1}}, "intercept": 0, "bind": {{"{bind}": 1}}, "threshold": 1, "least_share": 0.5}}"#
            )
        };
        assert!(Model::from_json(&table("s1*-cov")).is_ok());
        assert!(Model::from_json(&table("s1*nothing")).is_err());
        let offering = |name: &str| {
            table("s1").replace("\"intercept\"", &format!(r#""offer": {{"{name}": 1}}, "intercept""#))
        };
        assert!(Model::from_json(&offering("beside")).is_ok());
        assert!(Model::from_json(&offering("nothing")).is_err());
        assert!(Model::from_json("{}").is_err());
    }

    #[test]
    fn a_lead_is_over_the_best_of_the_others() {
        let mut one: Measures = [0.0; NAMES.len()];
        one[NAMES.iter().position(|name| *name == "covg").unwrap()] = 0.75;
        assert_eq!(
            gaps(&[one, [0.0; NAMES.len()]]).iter().map(|gaps| gaps[0]).collect::<Vec<_>>(),
            [0.75, -0.75]
        );
        assert_eq!(gaps(&[one, one])[0][0], 0.0);
        assert_eq!(gaps(&[one])[0][0], 0.75);
    }
}
