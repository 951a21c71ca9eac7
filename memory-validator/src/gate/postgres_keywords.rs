//! PostgreSQL's keywords that matter for the shape of a statement.

use super::token::Role;

/// Keywords that matter for the shape, and those that are never names, sorted. Other words may be names.
const WORDS: &[(&str, Role)] = &[
    ("all", Role::Hard),
    ("analyse", Role::Hard),
    ("analyze", Role::Hard),
    ("and", Role::Operator),
    ("any", Role::Hard),
    ("array", Role::Hard),
    ("as", Role::Hard),
    ("asc", Role::Hard),
    ("asymmetric", Role::Hard),
    ("at", Role::SoftOperator),
    ("between", Role::SoftOperator),
    ("both", Role::Hard),
    ("case", Role::Case),
    ("cast", Role::Hard),
    ("check", Role::Hard),
    ("collate", Role::Operator),
    ("column", Role::Hard),
    ("constraint", Role::Hard),
    ("create", Role::Hard),
    ("default", Role::Hard),
    ("deferrable", Role::Hard),
    ("desc", Role::Hard),
    ("distinct", Role::Hard),
    ("do", Role::Hard),
    ("else", Role::Clause),
    ("end", Role::End),
    ("escape", Role::SoftOperator),
    ("except", Role::Compound),
    ("fetch", Role::Clause),
    ("for", Role::Hard),
    ("foreign", Role::Hard),
    ("from", Role::Clause),
    ("grant", Role::Hard),
    ("group", Role::Clause),
    ("having", Role::Clause),
    ("ilike", Role::Operator),
    ("in", Role::Operator),
    ("initially", Role::Hard),
    ("intersect", Role::Compound),
    ("into", Role::Hard),
    ("is", Role::Operator),
    ("isnull", Role::Operator),
    ("join", Role::Compound),
    ("lateral", Role::Hard),
    ("leading", Role::Hard),
    ("like", Role::Operator),
    ("limit", Role::Clause),
    ("not", Role::Operator),
    ("notnull", Role::Operator),
    ("null", Role::Hard),
    ("offset", Role::Clause),
    ("on", Role::Clause),
    ("only", Role::Hard),
    ("operator", Role::SoftOperator),
    ("or", Role::Operator),
    ("order", Role::Clause),
    ("overlaps", Role::Operator),
    ("placing", Role::Hard),
    ("primary", Role::Hard),
    ("references", Role::Hard),
    ("returning", Role::Clause),
    ("select", Role::Clause),
    ("set", Role::Clause),
    ("similar", Role::Operator),
    ("some", Role::Hard),
    ("symmetric", Role::Hard),
    ("table", Role::Hard),
    ("then", Role::Clause),
    ("to", Role::Hard),
    ("trailing", Role::Hard),
    ("union", Role::Compound),
    ("unique", Role::Hard),
    ("user", Role::Hard),
    ("using", Role::Hard),
    ("values", Role::Clause),
    ("variadic", Role::Hard),
    ("when", Role::Clause),
    ("where", Role::Clause),
    ("window", Role::Clause),
    ("with", Role::Hard),
];

/// The longest of them.
const LONGEST: usize = 10;

/// What a bare word means.
pub(crate) fn role(word: &[u8]) -> Role {
    let mut folded = [0u8; LONGEST];
    let Some(folded) = folded.get_mut(..word.len()) else { return Role::None };
    folded.copy_from_slice(word);
    folded.make_ascii_lowercase();
    let folded: &[u8] = folded;
    WORDS
        .binary_search_by(|(word, _)| word.as_bytes().cmp(folded))
        .ok()
        .and_then(|at| WORDS.get(at))
        .map_or(Role::None, |(_, role)| *role)
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
    }
}
