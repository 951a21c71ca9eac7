//! What the words of a turn or question reveal apart from their topic.

/// Features of a turn's text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Shape {
    /// It ends in a question.
    pub(super) asks: bool,
    /// It says when: `yesterday`, `last week`, `in May`, `2019`.
    pub(super) says_when: bool,
    /// It has a number.
    pub(super) says_number: bool,
    /// Its words, at most `u16::MAX`.
    pub(super) words: u16,
}

const WHEN: [&str; 47] = [
    "ago",
    "april",
    "april's",
    "august",
    "autumn",
    "christmas",
    "december",
    "easter",
    "february",
    "friday",
    "halloween",
    "january",
    "july",
    "june",
    "lately",
    "monday",
    "month",
    "months",
    "morning",
    "november",
    "october",
    "recently",
    "saturday",
    "september",
    "spring",
    "summer",
    "sunday",
    "thanksgiving",
    "thursday",
    "today",
    "tomorrow",
    "tonight",
    "tuesday",
    "wednesday",
    "week",
    "weekend",
    "weekends",
    "weeks",
    "winter",
    "year",
    "years",
    "yesterday",
    "yrs",
    "yesterday's",
    "week's",
    "today's",
    "month's",
];
const NUMBERS: [&str; 22] = [
    "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve", "dozen",
    "hundred", "thousand", "million", "twice", "thrice", "couple", "half", "double", "several", "few",
];

impl Shape {
    pub(super) fn of(text: &str) -> Self {
        let mut shape = Self { asks: text.trim_end().ends_with('?'), ..Self::default() };
        for word in words(text) {
            shape.words = shape.words.saturating_add(1);
            let starts_with_digit = word.starts_with(|c: char| c.is_ascii_digit());
            let lower = word.to_ascii_lowercase();
            shape.says_when |= WHEN.contains(&lower.as_str()) || is_year(word) || word == "May";
            shape.says_number |= starts_with_digit || NUMBERS.contains(&lower.as_str());
        }
        shape
    }

    /// How many words it has: 0 for none, 1 for two hundred or more.
    pub(super) fn length(self) -> f32 {
        (f32::from(self.words).ln_1p() / 200.0_f32.ln()).min(1.0)
    }
}

fn is_year(word: &str) -> bool {
    word.len() == 4 && word.parse().is_ok_and(|year: u16| (1_900..=2_100).contains(&year))
}

/// Letters and digits with the apostrophes among them.
pub(super) fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !(c.is_alphanumeric() || matches!(c, '\'' | '’')))
        .map(|word| word.trim_matches(['\'', '’']))
        .filter(|word| !word.is_empty())
}

/// A word without the possessive.
pub(super) fn base(word: &str) -> &str {
    word.strip_suffix("'s").or_else(|| word.strip_suffix("’s")).unwrap_or(word)
}

/// What a question wants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Wants {
    /// A time.
    pub(super) when: bool,
    /// A number.
    pub(super) number: bool,
    /// It asks for what the assistant said, not the user.
    pub(super) assistant: bool,
}

impl Wants {
    pub(super) fn of(text: &str) -> Self {
        // One space between words and at both ends, so that phrases match whole words.
        let mut plain = String::from(" ");
        for word in words(text) {
            plain.push_str(&word.to_lowercase().replace('’', "'"));
            plain.push(' ');
        }
        let any = |phrases: &[&str]| phrases.iter().any(|phrase| plain.contains(phrase));
        Self {
            when: any(&[
                " when ",
                " what date ",
                " which date ",
                " what day ",
                " which day ",
                " what month ",
                " which month ",
                " what year ",
                " which year ",
                " what time ",
                " how long ",
                " how many days ",
                " how many weeks ",
                " how many months ",
                " how many years ",
                " how recently ",
                " first ",
                " last ",
            ]),
            number: any(&[
                " how many ",
                " how much ",
                " how old ",
                " how often ",
                " how long ",
                " how far ",
                " how tall ",
                " what percentage ",
                " what time ",
                " what size ",
                " what age ",
                " what amount ",
                " total ",
            ]),
            assistant: ASSISTANT_SAID.iter().any(|verb| plain.contains(&format!(" you {verb} ")))
                || any(&[
                    " your suggestion ",
                    " your suggestions ",
                    " your recommendation ",
                    " your recommendations ",
                    " your answer ",
                    " your reply ",
                    " your advice ",
                    " your response ",
                    " your list ",
                    " remind me ",
                    " did you say ",
                    " did you recommend ",
                    " did you suggest ",
                    " did you mention ",
                    " did you tell ",
                    " previous conversation ",
                    " previous chat ",
                    " earlier conversation ",
                    " earlier chat ",
                    " last conversation ",
                    " last chat ",
                ]),
        }
    }
}

/// In the past tense: somebody who asks the assistant to suggest something asks about themselves.
const ASSISTANT_SAID: [&str; 20] = [
    "said",
    "told",
    "mentioned",
    "recommended",
    "suggested",
    "gave",
    "provided",
    "wrote",
    "listed",
    "described",
    "explained",
    "advised",
    "shared",
    "proposed",
    "showed",
    "created",
    "generated",
    "made",
    "named",
    "answered",
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turns_shape() {
        let shape = Shape::of("I've moved here in 2019. Did you know?");
        assert_eq!(shape, Shape { asks: true, says_when: true, says_number: true, words: 8 });
        assert_eq!(Shape::of("may be"), Shape { words: 2, ..Shape::default() });
        assert_eq!(Shape::of(""), Shape::default());
    }

    #[test]
    fn a_wish_for_advice_is_not_a_question_about_advice() {
        assert!(Wants::of("Can you remind me which café you recommended?").assistant);
        assert!(!Wants::of("Can you recommend a café?").assistant);
        assert!(Wants::of("WHEN was it, and how  many came?").when);
        assert!(Wants::of("WHEN was it, and how  many came?").number);
        assert!(!Wants::of("Whenever").when);
    }
}
