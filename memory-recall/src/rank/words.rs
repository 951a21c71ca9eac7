//! Which turns contain which words.

use std::collections::HashMap;
use std::mem::size_of;

use memory_core::lexical::Analyzer;

use super::place;

/// Terms with the slots of the turns that contain them. Slots are only ever appended.
#[derive(Debug, Default)]
pub(super) struct Words {
    terms: HashMap<Box<str>, u32>,
    lists: Vec<List>,
    /// Bytes of the keys of `terms`.
    term_bytes: usize,
    analyzer: Analyzer,
    scratch: Vec<u32>,
}

/// For each turn, the distance from the previous slot and the term's frequency, as variable-length numbers.
#[derive(Debug, Default)]
struct List {
    bytes: Vec<u8>,
    next: u32,
}

impl List {
    fn push(&mut self, slot: u32, frequency: u32) {
        // Most terms occur once in a turn, which the lowest bit says.
        let distance = u64::from(slot.saturating_sub(self.next)) << 1;
        if frequency == 1 {
            write(&mut self.bytes, distance);
        } else {
            write(&mut self.bytes, distance | 1);
            write(&mut self.bytes, u64::from(frequency));
        }
        self.next = slot.saturating_add(1);
    }

    fn entries(&self) -> impl Iterator<Item = (u32, u32)> {
        let (mut bytes, mut next) = (self.bytes.iter(), 0_u32);
        std::iter::from_fn(move || {
            let head = read(&mut bytes)?;
            let slot = next.saturating_add(u32::try_from(head >> 1).ok()?);
            next = slot.saturating_add(1);
            let frequency = if head & 1 == 0 { 1 } else { u32::try_from(read(&mut bytes)?).ok()? };
            Some((slot, frequency))
        })
    }
}

/// Whether a term is a word that may have endings: three letters or more, none of them Latin. Scripts without spaces have
/// shorter terms.
fn is_inflected(term: &str) -> bool {
    !term.starts_with(|c: char| c.is_ascii()) && term.chars().count() >= 3 && !term.contains(char::is_numeric)
}

/// A word without the Arabic article.
fn bare(word: &str) -> &str {
    word.strip_prefix("ال").unwrap_or(word)
}

/// Three letters: all forms of a word share them.
fn beginning(word: &str) -> &str {
    let word = bare(word);
    word.char_indices().nth(3).map_or(word, |(end, _)| word.get(..end).unwrap_or(word))
}

/// Whether two words start the same and their endings are comparatively short: one letter after three, two after four,
/// three after more.
pub(super) fn is_form(a: &str, b: &str) -> bool {
    let (a, b) = (bare(a), bare(b));
    let same = a.chars().zip(b.chars()).take_while(|(a, b)| a == b).count();
    let most = same.saturating_sub(2).min(3);
    same >= 3 && a.chars().count() - same <= most && b.chars().count() - same <= most
}

fn write(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push((number & 0x7F) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7F) as u8);
}

fn read(bytes: &mut std::slice::Iter<'_, u8>) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = *bytes.next()?;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

impl Words {
    /// Adds the text of a slot beyond all others. Returns how many tokens it has.
    pub(super) fn push(&mut self, slot: u32, text: &str) -> u32 {
        let Self { terms, lists, term_bytes, analyzer, scratch } = self;
        scratch.clear();
        analyzer.analyze(text, &mut |token| {
            let term = terms.get(token).copied().unwrap_or_else(|| {
                let term = u32::try_from(lists.len()).unwrap_or(u32::MAX);
                terms.insert(token.into(), term);
                *term_bytes += token.len();
                lists.push(List::default());
                term
            });
            scratch.push(term);
        });
        let tokens = u32::try_from(scratch.len()).unwrap_or(u32::MAX);
        scratch.sort_unstable();
        for same in scratch.chunk_by(|a, b| a == b) {
            if let Some(list) = same.first().and_then(|term| lists.get_mut(place(*term))) {
                list.push(slot, u32::try_from(same.len()).unwrap_or(u32::MAX));
            }
        }
        // One huge turn must not keep its buffer allocated forever.
        scratch.shrink_to(4096);
        tokens
    }

    /// The slots that contain a term, in their order, and how often; includes removed ones.
    pub(super) fn containing(&self, term: &str) -> impl Iterator<Item = (u32, u32)> {
        let list = self.terms.get(term).and_then(|term| self.lists.get(place(*term)));
        list.into_iter().flat_map(List::entries)
    }

    /// The terms in which each of `terms` may occur: itself, and for a word of another alphabet than the Latin one, which the
    /// analyzer does not stem, those with the same beginning.
    pub(super) fn forms<'a>(&'a self, terms: &'a [String]) -> Vec<Vec<&'a str>> {
        let mut forms: Vec<Vec<&str>> = terms.iter().map(|term| vec![term.as_str()]).collect();
        let mut inflected: HashMap<&str, Vec<usize>> = HashMap::new();
        for (at, term) in terms.iter().enumerate().filter(|(_, term)| is_inflected(term)) {
            inflected.entry(beginning(term)).or_default().push(at);
        }
        if inflected.is_empty() {
            return forms;
        }
        for known in self.terms.keys().map(AsRef::as_ref).filter(|known| is_inflected(known)) {
            for at in inflected.get(beginning(known)).into_iter().flatten() {
                if let (Some(term), Some(forms)) = (terms.get(*at), forms.get_mut(*at))
                    && known != term
                    && is_form(known, term)
                {
                    forms.push(known);
                }
            }
        }
        forms
    }

    /// Keeps the slots that `moved` gives a new position, in the same order, and their terms.
    pub(super) fn keep(&mut self, moved: impl Fn(u32) -> Option<u32>) {
        let mut kept = Words::default();
        for (term, number) in self.terms.drain() {
            let Some(old) = self.lists.get(place(number)) else { continue };
            let mut list = List::default();
            for (slot, frequency) in old.entries() {
                if let Some(slot) = moved(slot) {
                    list.push(slot, frequency);
                }
            }
            if list.bytes.is_empty() {
                continue;
            }
            list.bytes.shrink_to_fit();
            kept.term_bytes += term.len();
            kept.terms.insert(term, u32::try_from(kept.lists.len()).unwrap_or(u32::MAX));
            kept.lists.push(list);
        }
        *self = kept;
    }

    pub(super) fn bytes(&self) -> usize {
        // A hash table stores one byte per slot, and keeps an eighth of the slots free.
        self.terms.capacity() * 8 / 7 * (size_of::<(Box<str>, u32)>() + 1)
            + self.term_bytes
            + self.lists.capacity() * size_of::<List>()
            + self.lists.iter().map(|list| list.bytes.capacity()).sum::<usize>()
            + self.scratch.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_gives_back_what_was_pushed() {
        let mut list = List::default();
        let pushed = [(0, 1), (1, 7), (200, 1), (40_000, 300), (u32::MAX - 1, 1)];
        for (slot, frequency) in pushed {
            list.push(slot, frequency);
        }
        assert_eq!(list.entries().collect::<Vec<_>>(), pushed);
    }

    #[test]
    fn words_of_other_alphabets_are_found_in_their_forms() {
        for (a, b) in [
            ("рыбалка", "рыбалку"),
            ("олег", "олегом"),
            ("дом", "дома"),
            ("работать", "работал"),
            ("تفاح", "تفاحا"),
            ("السوق", "سوق"),
            ("γιαγια", "γιαγιας"),
        ] {
            assert!(is_form(a, b) && is_form(b, a), "{a} {b}");
        }
        for (a, b) in [("кот", "который"), ("перевод", "перебор"), ("два", "дверь"), ("сто", "стол-книга")]
        {
            assert!(!is_form(a, b) && !is_form(b, a), "{a} {b}");
        }
        let mut words = Words::default();
        words.push(0, "ездили на рыбалку и на рынок, fished");
        let terms = ["рыбалка".to_owned(), "fishery".to_owned(), "京都".to_owned()];
        assert_eq!(words.forms(&terms), [vec!["рыбалка", "рыбалку"], vec!["fishery"], vec!["京都"]]);
    }

    #[test]
    fn what_is_not_kept_leaves_no_term() {
        let mut words = Words::default();
        assert_eq!(words.push(0, "a red kite"), 3);
        assert_eq!(words.push(1, "a blue kite, a kite"), 5);
        words.keep(|slot| slot.checked_sub(1));
        assert_eq!(words.containing("red").count(), 0);
        assert!(!words.terms.contains_key("red"));
        assert_eq!(words.containing("kit").collect::<Vec<_>>(), [(0, 2)]);
    }
}
