//! The names of a scope's speakers, and questions that name them.

use std::collections::{HashMap, HashSet};

use unicode_normalization::UnicodeNormalization as _;

use super::text::{base, words};
use super::words::is_form;
use super::{NONE, number, place};

/// Names that chats give to unnamed speakers.
const NO_NAMES: [&str; 8] = ["user", "human", "assistant", "ai", "bot", "model", "system", "tool"];

/// Every named speaker, and how many turns each has.
#[derive(Debug, Default)]
pub(super) struct Speakers {
    numbers: HashMap<Box<str>, u32>,
    /// By number: the words of the name, and the turns.
    known: Vec<Speaker>,
}

#[derive(Debug)]
struct Speaker {
    words: Vec<String>,
    turns: usize,
}

/// How a word of a question names a speaker.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Match {
    /// The name is a part of it.
    Within,
    Short,
    Whole,
}

impl Speakers {
    /// Counts a turn. Returns the speaker's number, [`NONE`] without a name.
    pub(super) fn add(&mut self, name: Option<&str>) -> u32 {
        let Some(name) = name.filter(|name| !NO_NAMES.contains(&name.trim().to_lowercase().as_str())) else {
            return NONE;
        };
        if let Some(known) = self.numbers.get(name) {
            let known = *known;
            if let Some(speaker) = self.known.get_mut(place(known)) {
                speaker.turns += 1;
            }
            return known;
        }
        let new = number(self.known.len());
        let words = words(name).map(folded).filter(|word| word.chars().count() > 1).collect();
        self.known.push(Speaker { words, turns: 1 });
        self.numbers.insert(name.into(), new);
        new
    }

    /// Takes back a turn.
    pub(super) fn remove(&mut self, speaker: u32) {
        let Some(speaker) = self.known.get_mut(place(speaker)) else { return };
        speaker.turns -= 1;
        if speaker.turns == 0 {
            speaker.words.clear();
            let gone = |number: u32| self.known.get(place(number)).is_none_or(|speaker| speaker.turns == 0);
            self.numbers.retain(|_, number| !gone(*number));
        }
    }

    /// The numbers of the speakers that a question names, in the order of their first mention.
    pub(super) fn named(&self, text: &str) -> Vec<u32> {
        let cased = text.chars().any(char::is_uppercase);
        let mut words_seen = HashSet::new();
        let new_words = words(text).map(base).filter(|word| words_seen.insert(*word));
        let found: Vec<_> = new_words.map(|word| self.matching(word, cased)).collect();
        let mut said: HashMap<u32, usize> = HashMap::new();
        found.iter().flatten().for_each(|(speaker, _)| *said.entry(*speaker).or_default() += 1);
        // `Ada Lovelace` is not `Ada`; `Ada` more likely means the one without another name.
        let words_named = |speaker: u32| {
            let said = said.get(&speaker).copied().unwrap_or_default();
            let known = self.known.get(place(speaker)).map_or(0, |speaker| speaker.words.len());
            (said, said >= known)
        };
        let (mut named, mut listed) = (Vec::new(), HashSet::new());
        for of_word in &found {
            let most = of_word.iter().map(|(speaker, _)| words_named(*speaker)).max();
            for (speaker, _) in of_word {
                if Some(words_named(*speaker)) == most && listed.insert(*speaker) {
                    named.push(*speaker);
                }
            }
        }
        named
    }

    /// The text without the speakers' names.
    pub(super) fn masked(&self, text: &str) -> String {
        let cased = text.chars().any(char::is_uppercase);
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        let mut stays = HashMap::new();
        for word in words(text) {
            // The word is a slice of the text, so their distance gives its position.
            let Some((before, after)) = rest.split_once(word) else { continue };
            masked.push_str(before);
            // A word that contains more than the name stays.
            let is_more = || self.matching(base(word), cased).iter().all(|(_, how)| *how == Match::Within);
            if *stays.entry(word).or_insert_with(is_more) {
                masked.push_str(word);
            }
            rest = after;
        }
        masked.push_str(rest);
        let masked = masked.split_whitespace().collect::<Vec<_>>().join(" ");
        if masked.chars().any(char::is_alphanumeric) { masked } else { text.to_owned() }
    }

    /// The speakers whose name matches a word: a whole word of it, or else the start of one (`Deb` of `Deborah`) or a
    /// form of one (`Ивану` of `Иван`). In scripts without capitals, where words run together, a name inside it matches
    /// too.
    fn matching(&self, word: &str, cased: bool) -> Vec<(u32, Match)> {
        // `Will` may be a speaker, `will` is a word.
        if cased && !word.starts_with(char::is_uppercase) && word.is_ascii() {
            return Vec::new();
        }
        let word = folded(word);
        let how = |known: &String| {
            let runs_on = !known.contains(|c: char| c.is_ascii() || c.is_lowercase());
            let begins = cased && word.chars().count() >= 3 && known.starts_with(&word);
            if *known == word {
                Some(Match::Whole)
            } else if begins || !known.is_ascii() && !runs_on && is_form(known, &word) {
                Some(Match::Short)
            } else {
                (runs_on && word.contains(known.as_str())).then_some(Match::Within)
            }
        };
        let mut found: Vec<(u32, Match)> = (0..)
            .zip(&self.known)
            .filter_map(|(number, speaker)| Some((number, speaker.words.iter().filter_map(how).max()?)))
            .collect();
        if found.iter().any(|(_, how)| *how == Match::Whole) {
            found.retain(|(_, how)| *how == Match::Whole);
        }
        found
    }

    pub(super) fn bytes(&self) -> usize {
        self.numbers.capacity() * 8 / 7 * (size_of::<(Box<str>, u32)>() + 1)
            + self.numbers.keys().map(|name| name.len()).sum::<usize>()
            + self.known.capacity() * size_of::<Speaker>()
            + self.known.iter().flat_map(|speaker| &speaker.words).map(|word| 24 + word.len()).sum::<usize>()
    }
}

/// In lower case and without accents, which people leave out.
fn folded(word: &str) -> String {
    if word.is_ascii() {
        return word.to_ascii_lowercase();
    }
    word.nfd().filter(|c| !('\u{300}'..='\u{36f}').contains(c)).flat_map(char::to_lowercase).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn speakers(names: &[&str]) -> Speakers {
        let mut speakers = Speakers::default();
        for name in names {
            speakers.add(Some(name));
        }
        speakers
    }

    #[test]
    fn a_question_names_speakers_by_a_word_of_their_name_or_its_beginning() {
        let speakers = speakers(&["Deborah Smith", "Will", "user", "Ann"]);
        assert_eq!(speakers.named("What did Deb's sister tell Ann?"), [0, 2]);
        assert_eq!(speakers.named("What will Smith do?"), [0]);
        assert_eq!(speakers.named("what does deborah do?"), [0]);
        assert!(speakers.named("Which user was it?").is_empty());
    }

    #[test]
    fn a_longer_name_is_not_the_shorter_one() {
        let speakers = speakers(&["Ada", "Ada Lovelace", "Ann Smith", "Bob Smith"]);
        assert_eq!(speakers.named("What does Ada Lovelace do?"), [1]);
        assert_eq!(speakers.named("What does Ada do?"), [0]);
        assert_eq!(speakers.named("What does Ann Smith do?"), [2]);
        assert_eq!(speakers.named("What do the two named Smith do?"), [2, 3]);
        assert_eq!(speakers.named("Ada, what does Ada do?"), [0], "a word said twice is one of the name");
    }

    #[test]
    fn a_long_question_that_names_everybody_is_answered() {
        let names: Vec<String> = (0..1_000).map(|n| format!("Ann Smith{n}")).collect();
        let speakers = speakers(&names.iter().map(String::as_str).collect::<Vec<_>>());
        let question = "Ann ".repeat(10_000);
        assert_eq!(speakers.named(&question).len(), 1_000);
        assert_eq!(speakers.masked(&question), question);
        assert_eq!(speakers.named(&format!("{question} Smith7")), [7]);
    }

    #[test]
    fn names_are_known_without_accents_in_their_forms_and_in_scripts_without_spaces() {
        let speakers = speakers(&["María José", "ÉMILE", "Иван", "小明", "민수", "ليلى"]);
        for (question, named) in [
            ("what does Maria like", 0),
            ("Where does Emile live?", 1),
            ("where does émile live", 1),
            ("Что нравится Ивану?", 2),
            ("小明喜欢吃什么", 3),
            ("민수는 무엇을 먹었어?", 4),
            ("ماذا قالت ليلى؟", 5),
        ] {
            assert_eq!(speakers.named(question), [named], "{question}");
        }
        assert_eq!(speakers.masked("小明喜欢吃什么"), "小明喜欢吃什么");
    }

    #[test]
    fn names_are_masked_and_nothing_else() {
        let speakers = speakers(&["Ann", "Will"]);
        assert_eq!(
            speakers.masked("When did Ann's dog run, and will Anna?"),
            "When did dog run, and will Anna?"
        );
        assert_eq!(speakers.masked("Ann?"), "Ann?");
    }

    #[test]
    fn a_speaker_without_turns_is_not_known() {
        let mut speakers = speakers(&["Ann", "Ann"]);
        speakers.remove(0);
        assert_eq!(speakers.named("Ann"), [0]);
        speakers.remove(0);
        assert!(speakers.named("Ann").is_empty());
        assert_eq!(speakers.add(Some("Ann")), 1);
    }
}
