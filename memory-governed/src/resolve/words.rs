//! Words of notes and rows, for comparison.

use unicode_normalization::UnicodeNormalization as _;

/// Words that say nothing about which row is meant.
const STOP: &str = " a about above after again against all already also am an and any are as at be because been before being below between both but by can could did do does doing down during each either else etc ever few for from further get gets got had has have having he her here hers him his how however i if in into is it its itself just let like may me might more most much must my no nor not now of off on once one only onto or other our out over own per rather same she should since so some still such than that the their theirs them then there these they this those through to too under until up upon us use used uses using very via was we well were what when where whether which while who whom why will with within without would you your ";
/// Stems of words that belong to tracking work, not to one row of it: they weigh less.
const CHORES: &str = " add all bead bug chang clos commit complet creat don epic featur fix implement issu land merg need new now pass pr resolv review support task test ticket updat verifi verify work done remov improv refactor includ cover build ";
/// Longest word kept, in bytes.
const MAX_WORD: usize = 64;

/// One word of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Word {
    /// Stands for its stem.
    pub(super) id: u64,
    /// Stands for the stem's first five characters; the stem itself if it is shorter.
    pub(super) prefix: u64,
    /// Whether it belongs to tracking work.
    pub(super) chore: bool,
    /// Whether it is a number.
    pub(super) number: bool,
}

/// Stands for a text: FNV-1a with 64 bits.
pub(super) fn hash(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

/// The text in one form: compatibility-composed, lower case, white space as single spaces.
pub(crate) fn folded(text: &str) -> String {
    let normal: String = text.nfkc().flat_map(char::to_lowercase).collect();
    normal.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The words of `text` in order: split at everything that is not alphanumeric and inside camelCase, in lower case,
/// without stop words and single letters, stemmed.
pub(super) fn words(text: &str) -> Vec<Word> {
    stems(text).iter().map(|stem| word(stem)).collect()
}

fn word(stem: &str) -> Word {
    let first: String = stem.chars().take(5).collect();
    Word {
        id: hash(stem),
        prefix: hash(&first),
        chore: listed(CHORES, stem),
        number: stem.bytes().all(|byte| byte.is_ascii_digit()),
    }
}

/// As [`words`], spelled out.
pub(crate) fn stems(text: &str) -> Vec<String> {
    let normal: Vec<char> = text.nfkc().collect();
    let mut found = Vec::new();
    let mut current = String::new();
    let mut before: Option<char> = None;
    let mut rest = normal.iter().copied().peekable();
    while let Some(c) = rest.next() {
        let next_is_lower = rest.peek().is_some_and(|next| next.is_lowercase());
        let breaks = !c.is_alphanumeric()
            || (c.is_uppercase()
                && before.is_some_and(|last| last.is_lowercase() || (last.is_uppercase() && next_is_lower)));
        if breaks {
            keep(&mut found, &current);
            current.clear();
        }
        if c.is_alphanumeric() && current.len() < MAX_WORD {
            current.extend(c.to_lowercase());
        }
        before = Some(c);
    }
    keep(&mut found, &current);
    found
}

fn keep(found: &mut Vec<String>, word: &str) {
    let letters = word.chars().count();
    let single = letters < 2 && !word.bytes().all(|byte| byte.is_ascii_digit());
    if letters > 0 && !single && !listed(STOP, word) {
        found.push(stem(word));
    }
}

fn listed(list: &str, word: &str) -> bool {
    list.match_indices(word).any(|(at, _)| {
        list.get(..at).is_some_and(|before| before.ends_with(' '))
            && list.get(at + word.len()..).is_some_and(|after| after.starts_with(' '))
    })
}

/// Endings that are removed, and how many letters must remain.
const ENDINGS: [(&str, usize); 22] = [
    ("ations", 3),
    ("ation", 3),
    ("ators", 3),
    ("ator", 3),
    ("ating", 4),
    ("ated", 4),
    ("ates", 4),
    ("ate", 4),
    ("ings", 3),
    ("ing", 3),
    ("ions", 3),
    ("ion", 3),
    ("ments", 4),
    ("ment", 4),
    ("ers", 4),
    ("er", 4),
    ("ed", 3),
    ("es", 3),
    ("ly", 4),
    ("s", 3),
    ("e", 3),
    ("'", 3),
];

/// A light stem of English: good enough that "validated", "validates" and "validation" are one word.
fn stem(word: &str) -> String {
    if !word.is_ascii() || word.bytes().any(|byte| byte.is_ascii_digit()) {
        return word.to_owned();
    }
    if let Some(short) = word.strip_suffix("ies").or_else(|| word.strip_suffix("ied"))
        && short.len() >= 2
    {
        return format!("{short}y");
    }
    // Not "docu": "documented" is the same word.
    if word.ends_with("ss") || word == "document" {
        return word.to_owned();
    }
    let short = ENDINGS
        .iter()
        .find_map(|(ending, least)| word.strip_suffix(ending).filter(|short| short.len() >= *least));
    let Some(short) = short else { return word.to_owned() };
    let mut letters = short.chars().rev();
    match (letters.next(), letters.next()) {
        // "planned", but not "added".
        (Some(last), Some(before)) if last == before && short.len() > 3 && !"aeiousl".contains(last) => {
            short.get(..short.len() - 1).unwrap_or(short).to_owned()
        }
        _ => short.to_owned(),
    }
}

/// Names in a text: snake_case, paths, dotted, camelCase, letters with digits, capitals, back-ticked. Lower case, sorted.
pub(super) fn names(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text.split_whitespace().filter_map(name).collect();
    found.sort();
    found.dedup();
    found
}

fn name(token: &str) -> Option<String> {
    let ticked = token.contains('`');
    let bare = token.trim_matches(|c: char| !c.is_alphanumeric() && c != '_');
    let inner = bare.strip_suffix("()").unwrap_or(bare);
    let letters = inner.chars().count();
    if !(2..=MAX_WORD).contains(&letters) || !inner.chars().any(char::is_alphabetic) {
        return None;
    }
    let has = |test: fn(char) -> bool| inner.chars().any(test);
    let joined = inner.contains(['_', '/', '.', ':', '-'])
        && (inner.contains(['_', '/', '.']) || inner.contains("::"));
    let mixed = has(char::is_numeric) && has(char::is_alphabetic);
    let capitals = letters >= 2 && inner.chars().all(|c| c.is_uppercase() || c.is_numeric());
    let humps = inner.chars().zip(inner.chars().skip(1)).any(|(a, b)| a.is_lowercase() && b.is_uppercase());
    (ticked || joined || mixed || capitals || humps).then(|| inner.to_lowercase())
}

/// Words that number their kind: "Phase 3".
const LABELS: &str = " phase step part stage task wave sprint milestone level tier batch round week day section chapter story item pr version gate slice option pass ";

/// Numbered labels of a text: the word, and its number.
pub(super) fn labels(folded: &str) -> Vec<(u64, u64)> {
    let tokens: Vec<&str> = folded
        .split(|c: char| c.is_whitespace() || c == '#' || c == '-')
        .map(|token| token.trim_matches(|c: char| !c.is_alphanumeric()))
        .filter(|token| !token.is_empty())
        .collect();
    let pairs = tokens.iter().zip(tokens.iter().skip(1));
    let spaced = pairs.filter(|(word, number)| {
        listed(LABELS, word) && number.len() <= 6 && number.chars().any(|c| c.is_ascii_digit())
    });
    // "p2", "e4": a letter or two with a number.
    let short = tokens.iter().filter_map(|token| {
        let digits = token.find(|c: char| c.is_ascii_digit())?;
        let (word, number) = token.split_at_checked(digits)?;
        let plain = (1..=2).contains(&digits)
            && word.bytes().all(|byte| byte.is_ascii_lowercase())
            && number.len() <= 4
            && number.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
        plain.then(|| (hash(word), hash(number)))
    });
    spaced.map(|(word, number)| (hash(word), hash(number))).chain(short).collect()
}

/// Each word once, sorted.
pub(super) fn set(words: &[Word]) -> Vec<Word> {
    let mut set = words.to_vec();
    set.sort_unstable();
    set.dedup_by_key(|word| word.id);
    set
}

/// Pairs of adjacent words.
pub(super) fn neighbours(words: &[Word]) -> impl Iterator<Item = (u64, u64)> {
    words.iter().zip(words.iter().skip(1)).map(|(a, b)| (a.id, b.id))
}

/// What a piece of work does, by the stems that say so.
const ACTS: [&str; 10] = [
    " add implement creat introduc build support integrat enabl ship land wir expos provid includ scaffold bootstrap port generat new ",
    " fix resolv correct repair handl prevent avoid bug ",
    " remov delet drop eliminat clean cleanup purg strip prun retir deprecat ",
    " renam mov migrat convert replac switch relocat ",
    " refactor extract split simplif simplify consolidat decompos unify restructur dedup ",
    " document doc readm writ ",
    " test tests cover verify verif valid validat audit prov benchmark ",
    " review research investigat evaluat analyz design plan decid spik explor asses triag ",
    " updat bump upgrad align adjust refin improv enhanc expand extend polish tun optimiz ",
    " merg releas publish deploy cut tag ",
];
/// Where a title's label may end and its sentence start.
const AFTER_LABEL: [&str; 4] = [": ", " - ", " — ", " – "];

/// The acts of a text's first words, one bit each.
pub(super) fn acts(text: &str, words: usize) -> u16 {
    let is = |list: &str, stem: &String| listed(list, stem);
    let bits =
        |stem: &String| (0..).zip(ACTS).fold(0, |bits, (at, list)| bits | (u16::from(is(list, stem)) << at));
    stems(text).iter().take(words).map(bits).fold(0, |all, bits| all | bits)
}

/// As [`acts`], of a title: its first words, and the first ones after its label.
pub(super) fn title_acts(title: &str) -> u16 {
    let label = AFTER_LABEL.iter().find_map(|end| title.find(end));
    acts(title, 3) | label.and_then(|at| title.get(at..)).map_or(0, |rest| acts(rest, 2))
}

/// Every run of four characters of the folded text's letters and digits, sorted.
pub(super) fn grams(folded: &str) -> Vec<u64> {
    let letters: Vec<char> = folded.chars().map(|c| if c.is_alphanumeric() { c } else { ' ' }).collect();
    let plain: String = letters.into_iter().collect();
    let plain: Vec<char> = plain.split_whitespace().collect::<Vec<_>>().join(" ").chars().collect();
    let mut grams: Vec<u64> =
        plain.windows(4).map(|window| hash(&window.iter().collect::<String>())).collect();
    grams.sort_unstable();
    grams.dedup();
    grams
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn forms_of_a_word_are_one_word() {
        for forms in [
            &["validate", "validates", "validated", "validation", "validating"][..],
            &["handle", "handles", "handled", "handling", "handler", "handlers"],
            &["run", "runs", "running"],
            &["query", "queries"],
            &["parse", "parses", "parser"],
        ] {
            let stems: std::collections::BTreeSet<String> = forms.iter().map(|form| stem(form)).collect();
            assert_eq!(stems.len(), 1, "{stems:?}");
        }
        assert_ne!(stem("class"), stem("clas"));
    }

    #[test]
    fn names_are_split_where_their_parts_meet() {
        assert_eq!(stems("renderAgentDetails() of HTTPServer"), ["rend", "agent", "detail", "http", "serv"]);
        assert_eq!(stems("parse_markdown.go 404"), ["pars", "markdown", "go", "404"]);
    }

    #[test]
    fn acts_are_read_where_a_text_or_its_sentence_begins() {
        assert_eq!(acts("Implemented the parser", 3), acts("Add a lexer", 3));
        assert_eq!(acts("Removed dead code", 3) & acts("Add dead code", 3), 0);
        assert_eq!(acts("The old parser of the server is tested", 3), 0);
        assert_eq!(title_acts("Parser of the server: remove dead code"), acts("delete", 1));
    }

    #[test]
    fn names_and_labels_are_found() {
        assert_eq!(
            names("Fixed `plan` in cmd/bd/main.go, parse_it() and openDb(); see PR"),
            ["cmd/bd/main.go", "opendb", "parse_it", "plan", "pr"]
        );
        assert_eq!(labels("phase 3 and e4 done"), [(hash("phase"), hash("3")), (hash("e"), hash("4"))]);
    }
}
