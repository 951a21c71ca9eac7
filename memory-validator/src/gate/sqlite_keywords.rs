//! SQLite's keywords.

use super::token::Role;

/// Every keyword, sorted, with its role in the shape of a statement. Soft ones fall back to identifiers in SQLite's
/// grammar.
const WORDS: &[(&str, Role)] = &[
    ("abort", Role::Soft),
    ("action", Role::Soft),
    ("add", Role::Hard),
    ("after", Role::Soft),
    ("all", Role::Hard),
    ("alter", Role::Hard),
    ("always", Role::Soft),
    ("analyze", Role::Soft),
    ("and", Role::Operator),
    ("as", Role::Hard),
    ("asc", Role::Soft),
    ("attach", Role::Soft),
    ("autoincrement", Role::Hard),
    ("before", Role::Soft),
    ("begin", Role::Soft),
    ("between", Role::Operator),
    ("by", Role::Soft),
    ("cascade", Role::Soft),
    ("case", Role::Case),
    ("cast", Role::Soft),
    ("check", Role::Hard),
    ("collate", Role::Operator),
    ("column", Role::Soft),
    ("commit", Role::Hard),
    ("conflict", Role::Soft),
    ("constraint", Role::Hard),
    ("create", Role::Hard),
    ("cross", Role::Soft),
    ("current", Role::Soft),
    ("current_date", Role::Soft),
    ("current_time", Role::Soft),
    ("current_timestamp", Role::Soft),
    ("database", Role::Soft),
    ("default", Role::Hard),
    ("deferrable", Role::Hard),
    ("deferred", Role::Soft),
    ("delete", Role::Hard),
    ("desc", Role::Soft),
    ("detach", Role::Soft),
    ("distinct", Role::Hard),
    ("do", Role::Soft),
    ("drop", Role::Hard),
    ("each", Role::Soft),
    ("else", Role::Clause),
    ("end", Role::End),
    ("escape", Role::Operator),
    ("except", Role::Compound),
    ("exclude", Role::Soft),
    ("exclusive", Role::Soft),
    ("exists", Role::Hard),
    ("explain", Role::Soft),
    ("fail", Role::Soft),
    ("filter", Role::Soft),
    ("first", Role::Soft),
    ("following", Role::Soft),
    ("for", Role::Soft),
    ("foreign", Role::Hard),
    ("from", Role::Clause),
    ("full", Role::Soft),
    ("generated", Role::Soft),
    ("glob", Role::SoftOperator),
    ("group", Role::Clause),
    ("groups", Role::Soft),
    ("having", Role::Clause),
    ("if", Role::Soft),
    ("ignore", Role::Soft),
    ("immediate", Role::Soft),
    ("in", Role::Operator),
    ("index", Role::Hard),
    ("indexed", Role::Soft),
    ("initially", Role::Soft),
    ("inner", Role::Soft),
    ("insert", Role::Hard),
    ("instead", Role::Soft),
    ("intersect", Role::Compound),
    ("into", Role::Hard),
    ("is", Role::Operator),
    ("isnull", Role::Operator),
    ("join", Role::Compound),
    ("key", Role::Soft),
    ("last", Role::Soft),
    ("left", Role::Soft),
    ("like", Role::SoftOperator),
    ("limit", Role::Clause),
    ("match", Role::SoftOperator),
    ("materialized", Role::Soft),
    ("natural", Role::Soft),
    ("no", Role::Soft),
    ("not", Role::Operator),
    ("nothing", Role::Hard),
    ("notnull", Role::Operator),
    ("null", Role::Hard),
    ("nulls", Role::Soft),
    ("of", Role::Soft),
    ("offset", Role::Soft),
    ("on", Role::Clause),
    ("or", Role::Operator),
    ("order", Role::Clause),
    ("others", Role::Soft),
    ("outer", Role::Soft),
    ("over", Role::Soft),
    ("partition", Role::Soft),
    ("plan", Role::Soft),
    ("pragma", Role::Soft),
    ("preceding", Role::Soft),
    ("primary", Role::Hard),
    ("query", Role::Soft),
    ("raise", Role::Soft),
    ("range", Role::Soft),
    ("recursive", Role::Soft),
    ("references", Role::Hard),
    ("regexp", Role::SoftOperator),
    ("reindex", Role::Soft),
    ("release", Role::Soft),
    ("rename", Role::Soft),
    ("replace", Role::Soft),
    ("restrict", Role::Soft),
    ("returning", Role::Clause),
    ("right", Role::Soft),
    ("rollback", Role::Soft),
    ("row", Role::Soft),
    ("rows", Role::Soft),
    ("savepoint", Role::Soft),
    ("select", Role::Clause),
    ("set", Role::Clause),
    ("table", Role::Hard),
    ("temp", Role::Soft),
    ("temporary", Role::Soft),
    ("then", Role::Clause),
    ("ties", Role::Soft),
    ("to", Role::Hard),
    ("transaction", Role::Hard),
    ("trigger", Role::Soft),
    ("unbounded", Role::Soft),
    ("union", Role::Compound),
    ("unique", Role::Hard),
    ("update", Role::Hard),
    ("using", Role::Hard),
    ("vacuum", Role::Soft),
    ("values", Role::Clause),
    ("view", Role::Soft),
    ("virtual", Role::Soft),
    ("when", Role::Clause),
    ("where", Role::Clause),
    ("window", Role::Soft),
    ("with", Role::Soft),
    ("without", Role::Soft),
];

/// The longest keyword.
const LONGEST: usize = 17;

/// Slots of the table below, several per word so that most other words hit an empty one.
const SLOTS: usize = 1_024;
/// An empty slot.
const NONE: u8 = u8::MAX;

/// Where a keyword is in [`WORDS`], by a hash of its letters.
static TABLE: [u8; SLOTS] = table();

/// A hash of a word in lower case.
const fn hash(word: &[u8]) -> usize {
    let mut hash = word.len();
    let mut at = 0;
    while at < word.len() {
        // Within the length, which the loop checked.
        #[allow(clippy::indexing_slicing)]
        let byte = word[at];
        hash = hash.wrapping_mul(31).wrapping_add(byte as usize);
        at += 1;
    }
    (hash ^ (hash >> 10)) % SLOTS
}

#[allow(
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "done by the compiler, which checks"
)]
const fn table() -> [u8; SLOTS] {
    let mut table = [NONE; SLOTS];
    let mut at = 0;
    while at < WORDS.len() {
        let mut slot = hash(WORDS[at].0.as_bytes());
        while table[slot] != NONE {
            slot = (slot + 1) % SLOTS;
        }
        table[slot] = at as u8;
        at += 1;
    }
    table
}

/// What a bare word means.
pub(crate) fn role(word: &[u8]) -> Role {
    let mut folded = [0u8; LONGEST];
    let Some(folded) = folded.get_mut(..word.len()) else { return Role::None };
    folded.copy_from_slice(word);
    folded.make_ascii_lowercase();
    let mut slot = hash(folded);
    while let Some((keyword, role)) = TABLE.get(slot).and_then(|at| WORDS.get(usize::from(*at))) {
        if keyword.as_bytes() == folded {
            return *role;
        }
        slot = (slot + 1) % SLOTS;
    }
    Role::None
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, WORDS, role};
    use crate::gate::token::Role;

    #[test]
    fn the_words_are_sorted_and_found_in_any_case() {
        assert!(WORDS.windows(2).all(|pair| pair[0].0 < pair[1].0));
        assert_eq!(WORDS.iter().map(|(word, _)| word.len()).max(), Some(LONGEST));
        for (word, meaning) in WORDS {
            assert_eq!(role(word.as_bytes()), *meaning);
            assert_eq!(role(word.to_uppercase().as_bytes()), *meaning);
        }
        assert_eq!(role(b"selects"), Role::None);
        assert_eq!(role("数据".as_bytes()), Role::None);
    }

    #[cfg(feature = "sqlite-grammar")]
    #[test]
    fn every_keyword_of_the_grammar_is_known() {
        for (word, _) in WORDS {
            assert!(
                sqlite3_parser::dialect::keyword_token(word.as_bytes()).is_some(),
                "{word} is not a keyword"
            );
        }
    }
}
