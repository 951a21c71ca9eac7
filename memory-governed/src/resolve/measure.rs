//! What speaks for a row: numbers from the words of the note and of the row.

use memory_core::Timestamp;

use super::note_words::NoteWords;
use super::row::{Prepared, Space};
use super::words::{Word, hash, neighbours};

/// The names of [`Measures`], in order.
pub(super) const NAMES: [&str; 60] = [
    "cov",
    "covg",
    "covf",
    "softcov",
    "evt",
    "ev",
    "evd",
    "fevt",
    "fev",
    "big",
    "lcs",
    "lead",
    "rare",
    "rare1",
    "ch4",
    "bm25",
    "dcov",
    "idT",
    "idTcov",
    "idD",
    "idNmiss",
    "labhit",
    "labmiss",
    "numT",
    "numconf",
    "missmax",
    "missmean",
    "missf",
    "missn",
    "mass",
    "massf",
    "massall",
    "allcov",
    "quote",
    "tlen",
    "evlead",
    "choremiss",
    "chorehead",
    "epic",
    "kids",
    "age",
    "recent",
    "missmax2",
    "misshead",
    "idTmiss",
    "simple",
    "pairrare",
    "pairn",
    "actsame",
    "actdiff",
    "gramhead",
    "ch4head",
    "idrare",
    "headd",
    "edge",
    "edgeend",
    "foreign",
    "foreignhead",
    "titlen",
    "opening",
];
/// What speaks for one row. Shares of words are weighted by their rarity (IDF).
pub(super) type Measures = [f64; NAMES.len()];

/// How much a word of tracking work counts.
const CHORE: f64 = 0.4;
/// How many documents the words of other spaces count for.
const PRIOR: f64 = 50.0;
/// How many of a description's rarest words are looked for.
const RAREST: usize = 12;
/// A name in at most this many rows distinguishes them from others.
const RARE_NAME: u32 = 2;
/// How many of the note's first words are looked for.
const OPENING: usize = 6;
const K1: f64 = 1.2;
const B: f64 = 0.75;

/// How common words are elsewhere: the share of documents with each word.
pub(super) trait Background {
    fn share(&self, word: u64) -> f64;
}

/// A word of the note: its rarity, and the numbers of live titles and live rows that contain it.
type Known = (Word, f64, usize, usize);

/// How much of the note's weight other rows explain.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rivals {
    best: f64,
    second: f64,
    ended: f64,
}

impl Rivals {
    /// From how much each live row and each ended row explains.
    pub(super) fn new(live: impl Iterator<Item = f64>, ended: impl Iterator<Item = f64>) -> Self {
        let (best, second) = live.fold((0.0, 0.0), |(best, second), x| best_two(best, second, x));
        Self { best, second, ended: ended.fold(0.0, f64::max) }
    }

    /// What the best other row explains, compared with one that explains `own`.
    fn beside(&self, own: f64) -> f64 {
        if own >= self.best { self.second } else { self.best }
    }
}

/// The two highest of three numbers.
pub(super) fn best_two(best: f64, second: f64, x: f64) -> (f64, f64) {
    if x > best { (x, best) } else { (best, second.max(x)) }
}

/// A note among the rows it may mean.
pub(super) struct Scene<'a> {
    space: &'a Space,
    background: &'a dyn Background,
    note: &'a NoteWords,
    rows: usize,
    average_length: f64,
    observed_at: Timestamp,
    opened: Vec<Timestamp>,
    epic: u64,
    known: Vec<Known>,
}

impl<'a> Scene<'a> {
    pub(super) fn new(
        space: &'a Space,
        background: &'a dyn Background,
        note: &'a NoteWords,
        live: &[&Prepared],
        observed_at: Timestamp,
    ) -> Self {
        let mut scene = Self {
            space,
            background,
            note,
            rows: live.len(),
            average_length: (live.iter().map(|row| row.length).sum::<f64>() / count(live.len()).max(1.0))
                .max(1.0),
            observed_at,
            opened: live.iter().map(|row| row.row.opened_at).collect(),
            epic: hash("epic"),
            known: Vec::new(),
        };
        let known = note.set.iter().map(|word| {
            let titles = live.iter().filter(|row| holds(&row.title_set, word)).count();
            let rows = live.iter().filter(|row| row.all.binary_search(&word.id).is_ok()).count();
            (*word, scene.rarity(word), titles, rows)
        });
        scene.known = known.collect();
        scene
    }

    /// ln((n + 51) / (df + 50·background + .5)), less for words of tracking work.
    pub(super) fn rarity(&self, word: &Word) -> f64 {
        let plain = self.plain_rarity(word.id);
        if word.chore { plain * CHORE } else { plain }
    }

    fn plain_rarity(&self, word: u64) -> f64 {
        ((count(self.space.len()) + PRIOR + 1.0)
            / (f64::from(self.space.occurrences(word)) + PRIOR * self.background.share(word) + 0.5))
            .ln()
            .max(0.05)
    }

    /// The cosine of the note's words and those of the row, each by its rarity.
    pub(super) fn alike(&self, row: &Prepared) -> f64 {
        let square = |word: u64| self.plain_rarity(word).powi(2);
        let noted: f64 = self.note.set.iter().map(|word| square(word.id)).sum();
        let shared = self.note.set.iter().filter(|word| row.whole.binary_search(&word.id).is_ok());
        let own: f64 = row.whole.iter().map(|word| square(*word)).sum();
        ratio(shared.map(|word| square(word.id)).sum(), (noted * own).sqrt())
    }

    fn weight<'w>(&self, words: impl IntoIterator<Item = &'w Word>) -> f64 {
        words.into_iter().map(|word| self.rarity(word)).sum()
    }

    fn heaviest<'w>(&self, words: impl IntoIterator<Item = &'w Word>) -> f64 {
        words.into_iter().map(|word| self.rarity(word)).fold(0.0, f64::max)
    }

    /// The share of the note's weight in words that occur in no row.
    pub(super) fn unknown(&self) -> f64 {
        let unknown = self.known.iter().filter(|(word, ..)| self.space.occurrences(word.id) == 0);
        ratio(
            unknown.map(|(_, rarity, ..)| rarity).sum(),
            self.known.iter().map(|(_, rarity, ..)| rarity).sum(),
        )
    }

    /// The weight of the note's words that a row has.
    pub(super) fn explained(&self, row: &Prepared) -> f64 {
        let known = self.known.iter().filter(|(word, ..)| row.all.binary_search(&word.id).is_ok());
        known.map(|(_, rarity, ..)| rarity).sum()
    }

    /// A plain score of a row that explains this much: title covered .45, note explained .25, by the title .15, pairs
    /// of words .15.
    pub(super) fn simple(&self, row: &Prepared, explained: f64) -> f64 {
        let shared = self.weight(row.title_set.iter().filter(|word| holds(&self.note.set, word)));
        let noted: f64 = self.known.iter().map(|(_, rarity, ..)| rarity).sum();
        0.45 * ratio(shared, self.weight(&row.title_set))
            + 0.25 * ratio(explained, noted)
            + 0.15 * ratio(shared, noted)
            + 0.15 * self.pairs(row)
    }

    /// The share of the title's adjacent words that are also adjacent in the note.
    fn pairs(&self, row: &Prepared) -> f64 {
        let found = neighbours(&row.title).filter(|pair| self.note.pairs.binary_search(pair).is_ok()).count();
        ratio(count(found), count(row.title.len().saturating_sub(1)))
    }

    /// Okapi BM25 of the note's words, the title's occurrences double.
    fn bm25(&self, row: &Prepared) -> f64 {
        let norm = K1 * (1.0 - B + B * row.length / self.average_length);
        self.known
            .iter()
            .filter_map(|(word, rarity, ..)| {
                let at = row.counts.binary_search_by_key(&word.id, |(id, _)| *id).ok()?;
                let (_, times) = row.counts.get(at)?;
                Some(rarity * times * (K1 + 1.0) / (times + norm))
            })
            .sum()
    }

    /// What speaks for `row`. Here `bm25` is the bare score: [`relative`] puts it in proportion to the best.
    pub(super) fn measure(&self, row: &Prepared, rivals: &Rivals) -> Measures {
        let note = self.note;
        let in_note = |word: &&Word| holds(&note.set, word);
        let in_head = |word: &&Word| holds(&note.head, word);
        let specific = |word: &&Word| !word.chore;
        let in_title = |word: &Word| holds(&row.title_set, word);
        let in_row = |word: &Word| row.all.binary_search(&word.id).is_ok();
        let title = &row.title_set;
        let title_weight = self.weight(title);
        let title_specific = self.weight(title.iter().filter(specific));
        let shared = self.weight(title.iter().filter(in_note));
        let shared_specific = self.weight(title.iter().filter(in_note).filter(specific));
        let shared_head = self.weight(title.iter().filter(in_head));
        let soft = self.weight(
            title.iter().filter(specific).filter(|word| note.prefixes.binary_search(&word.prefix).is_ok()),
        );
        let noted: f64 = self.known.iter().map(|(_, rarity, ..)| rarity).sum();
        let head_weight = self.weight(&note.head);
        let sum = |test: &dyn Fn(&Known) -> bool| -> f64 {
            self.known.iter().filter(|known| test(known)).map(|(_, rarity, ..)| rarity).sum()
        };
        let explained = self.explained(row);
        let rare_limit = (self.rows / 20).max(1);
        let rare = self.known.iter().filter(|(word, _, titles, _)| *titles <= rare_limit && in_title(word));
        let rare1 = self.known.iter().filter(|(word, _, titles, _)| *titles == 1 && in_title(word));
        let missing: Vec<&Word> = title.iter().filter(|word| !in_note(word)).collect();
        let first: Vec<Word> = row.title.iter().take(3).copied().collect();
        let opening: Vec<Word> = note.words.iter().filter(|word| !word.chore).take(4).copied().collect();
        let numbers: Vec<&Word> = title.iter().filter(|word| word.number).collect();
        let numbers_shared = numbers.iter().filter(|word| holds(&note.set, word)).count();
        let note_has_numbers = note.set.iter().any(|word| word.number);
        let names_shared = common(&row.title_names, &note.names);
        let names_described = common(&row.description_names, &note.names);
        let names_lacking = note
            .names
            .iter()
            .filter(|name| {
                row.title_names.binary_search(name).is_err()
                    && row.description_names.binary_search(name).is_err()
            })
            .count();
        let label_hits = row.labels.iter().filter(|label| note.labels.contains(label)).count();
        let label_misses = row
            .labels
            .iter()
            .filter(|(kind, _)| note.labels.iter().any(|(noted, _)| noted == kind))
            .filter(|label| !note.labels.contains(label))
            .count();
        let grams_shared = row.grams.iter().filter(|gram| note.grams.binary_search(gram).is_ok()).count();
        let foreign_head = self.heaviest(
            note.head
                .iter()
                .filter(|word| !word.chore && self.space.occurrences(word.id) > 0 && !in_row(word)),
        );
        let foreign = self.heaviest(
            note.set
                .iter()
                .filter(|word| !word.chore && self.space.occurrences(word.id) > 0 && !in_row(word)),
        );
        let is_epic = row.title.iter().any(|word| word.id == self.epic);
        let mut rarities: Vec<f64> = missing.iter().map(|word| self.rarity(word)).collect();
        rarities.sort_by(|a, b| b.total_cmp(a));
        let second = rarities.get(1).copied().unwrap_or_default();
        let rarest_noted = self.heaviest(&note.set);
        let mut all = [
            ratio(shared, title_weight),
            ratio(shared_specific, title_specific),
            ratio(shared_head, title_weight),
            ratio(soft, title_specific),
            ratio(sum(&|(word, ..)| in_title(word)), noted),
            ratio(explained, noted),
            ratio(explained, sum(&|(_, _, _, rows)| *rows > 0)),
            ratio(self.weight(note.head.iter().filter(|word| in_title(word))), head_weight),
            ratio(self.weight(note.head.iter().filter(|word| in_row(word))), head_weight),
            self.pairs(row),
            ratio(count(longest_common(&row.title, &note.words)), count(row.title.len())),
            ratio(self.weight(first.iter().filter(in_note)), self.weight(&first)),
            count(rare.count().min(4)) / 4.0,
            count(rare1.count().min(4)) / 4.0,
            ratio(count(grams_shared), count(row.grams.len())),
            self.bm25(row),
            self.described(row),
            count(names_shared.min(3)) / 3.0,
            ratio(count(names_shared), count(row.title_names.len())),
            ratio(count(names_described), count(note.names.len())),
            ratio(count(names_lacking), count(note.names.len())),
            count(label_hits.min(1)),
            if label_hits == 0 { count(label_misses.min(1)) } else { 0.0 },
            ratio(count(numbers_shared), count(numbers.len())),
            if numbers_shared == 0 && note_has_numbers && !numbers.is_empty() { 1.0 } else { 0.0 },
            ratio(self.heaviest(missing.iter().copied()), self.heaviest(title)),
            ratio(
                ratio(self.weight(missing.iter().copied()), count(missing.len())),
                ratio(title_weight, count(title.len())),
            ),
            ratio(foreign_head, rarest_noted),
            ratio(foreign, rarest_noted),
            (shared / 20.0).min(2.0),
            (shared_head / 20.0).min(2.0),
            (explained / 40.0).min(2.0),
            if missing.is_empty() && title.len() > 1 { 1.0 } else { 0.0 },
            if row.title.len() > 1 && note.folded.contains(&row.folded_title) { 1.0 } else { 0.0 },
            count(row.title.len()).ln_1p() / 3.0,
            ratio(self.weight(opening.iter().filter(|word| in_row(word))), self.weight(&opening)),
            ratio(
                count(title.iter().filter(|word| word.chore && !in_note(word)).count()),
                count(title.iter().filter(|word| word.chore).count()),
            ),
            ratio(
                count(note.head.iter().filter(|word| word.chore && !in_title(word)).count()),
                count(note.head.iter().filter(|word| word.chore).count()),
            ),
            flag(is_epic),
            flag(is_epic && note.children),
            self.observed_at
                .saturating_since(row.row.opened_at)
                .as_secs_f64()
                .max(0.0)
                .mul_add(1.0 / 3600.0, 1.0)
                .ln()
                / 8.0,
            ratio(count(self.opened.iter().filter(|at| **at > row.row.opened_at).count()), count(self.rows)),
            ratio(second, self.heaviest(title)),
            ratio(self.heaviest(title.iter().filter(|word| !in_head(word))), self.heaviest(title)),
            ratio(count(row.title_names.len() - names_shared), count(row.title_names.len())),
            self.simple(row, explained),
        ]
        .into_iter()
        .chain(self.apart(row, explained, rivals));
        std::array::from_fn(|_| all.next().unwrap_or_default())
    }

    /// What distinguishes a row from others with the same words.
    fn apart(&self, row: &Prepared, explained: f64, rivals: &Rivals) -> [f64; 14] {
        let note = self.note;
        let in_row = |word: &Word| row.all.binary_search(&word.id).is_ok();
        let found = || neighbours(&row.title).filter(|pair| note.pairs.binary_search(pair).is_ok());
        let alone = found().filter(|pair| self.space.pair_occurrences(pair) <= 1);
        let both = row.acts != 0 && note.acts != 0;
        let grams = row.grams.iter().filter(|gram| note.head_grams.binary_search(gram).is_ok()).count();
        let names = row.names();
        let telling = note
            .names
            .iter()
            .filter(|name| names.contains(name) && self.space.name_occurrences(name) <= RARE_NAME);
        let elsewhere = |word: &&Word| !word.chore && !in_row(word) && self.space.occurrences(word.id) > 0;
        let described = |word: &&Word| row.description.binary_search(&word.id).is_ok();
        let opening: Vec<&Word> = note.head_words.iter().filter(|word| !word.chore).take(OPENING).collect();
        [
            count(alone.count().min(3)) / 3.0,
            count(found().count().min(4)) / 4.0,
            flag(both && row.acts & note.acts != 0),
            flag(both && row.acts & note.acts == 0),
            ratio(count(grams), count(note.head_grams.len())),
            ratio(count(grams), count(row.grams.len())),
            count(telling.count().min(3)) / 3.0,
            ratio(self.weight(note.head.iter().filter(described)), self.weight(&note.head)),
            (explained - rivals.beside(explained)) / 40.0,
            (explained - rivals.ended) / 40.0,
            ratio(self.weight(note.set.iter().filter(elsewhere)), self.weight(&note.set)),
            self.weight(note.head.iter().filter(elsewhere)) / 20.0,
            count(row.title_set.len()) / 10.0,
            ratio(
                self.weight(opening.iter().copied().filter(|word| in_row(word))),
                self.weight(opening.iter().copied()),
            ),
        ]
    }

    /// The share of the description's rarest words that are in the note.
    fn described(&self, row: &Prepared) -> f64 {
        let mut rarest: Vec<(f64, u64)> = row
            .description
            .iter()
            .map(|id| (self.rarity(&Word { id: *id, prefix: 0, chore: false, number: false }), *id))
            .collect();
        rarest.sort_by(|a, b| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1)));
        rarest.truncate(RAREST);
        let has = |id: &u64| self.note.set.binary_search_by_key(id, |word| word.id).is_ok();
        ratio(
            rarest.iter().filter(|(_, id)| has(id)).map(|(rarity, _)| rarity).sum(),
            rarest.iter().map(|(rarity, _)| rarity).sum(),
        )
    }
}

/// Puts `bm25` of every row in proportion to the best of the first `short`.
pub(super) fn relative(all: &mut [Measures], short: usize) {
    let Some(at) = NAMES.iter().position(|name| *name == "bm25") else { return };
    let best = all.iter().take(short).filter_map(|measures| measures.get(at).copied()).fold(0.0, f64::max);
    for measures in all {
        if let Some(bm25) = measures.get_mut(at) {
            *bm25 = ratio(*bm25, best);
        }
    }
}

/// How alike two titles are: shared words ÷ words of either (Jaccard).
pub(super) fn likeness(one: &Prepared, other: &Prepared) -> f64 {
    let shared = one.title_set.iter().filter(|word| holds(&other.title_set, word)).count();
    ratio(count(shared), count(one.title_set.len() + other.title_set.len() - shared))
}

pub(super) fn holds(set: &[Word], word: &Word) -> bool {
    set.binary_search_by_key(&word.id, |held| held.id).is_ok()
}

fn flag(yes: bool) -> f64 {
    f64::from(u8::from(yes))
}

fn common(one: &[String], other: &[String]) -> usize {
    one.iter().filter(|name| other.binary_search(name).is_ok()).count()
}

/// The length of the longest common subsequence.
fn longest_common(title: &[Word], note: &[Word]) -> usize {
    let mut row = vec![0_usize; title.len() + 1];
    for word in note {
        let mut diagonal = 0;
        let mut left = 0;
        for (held, cell) in title.iter().zip(row.iter_mut().skip(1)) {
            let above = *cell;
            *cell = if held.id == word.id { diagonal + 1 } else { above.max(left) };
            diagonal = above;
            left = *cell;
        }
    }
    row.last().copied().unwrap_or_default()
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[allow(clippy::cast_precision_loss, reason = "counts of words and rows are far below 2^53")]
pub(super) fn count(n: usize) -> f64 {
    n as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_row_is_compared_with_the_second() {
        let rivals = Rivals::new([3.0, 7.0, 5.0].into_iter(), [1.0, 2.0].into_iter());
        assert_eq!((rivals.beside(7.0), rivals.beside(5.0), rivals.ended), (5.0, 7.0, 2.0));
        assert_eq!(Rivals::new([7.0, 7.0].into_iter(), std::iter::empty()).beside(7.0), 7.0);
        assert_eq!(Rivals::new(std::iter::once(7.0), std::iter::empty()).beside(7.0), 0.0);
    }
}
