//! The keywords of both dialects, by their role in the shape of a statement.

use super::token::Role;

/// Every keyword of SQLite. Soft ones fall back to identifiers in its grammar.
const SQLITE_WORDS: &[(Role, &str)] = &[
    (
        Role::Hard,
        "add all alter as autoincrement check commit constraint create default deferrable delete distinct \
         drop exists foreign index insert into nothing null primary references table to transaction \
         unique update using",
    ),
    (
        Role::Soft,
        "abort action after always analyze asc attach before begin by cascade cast column conflict cross \
         current current_date current_time current_timestamp database deferred desc detach do each \
         exclude exclusive explain fail filter first following for full generated groups if ignore \
         immediate indexed initially inner instead key last left materialized natural no nulls of offset \
         others outer over partition plan pragma preceding query raise range recursive reindex release \
         rename replace restrict right rollback row rows savepoint temp temporary ties trigger unbounded \
         vacuum view virtual window with without",
    ),
    (Role::Operator, "and between collate escape in is isnull not notnull or"),
    (Role::SoftOperator, "glob like match regexp"),
    (Role::Compound, "except intersect join union"),
    (Role::Clause, "else from group having limit on order returning select set then values when where"),
    (Role::Case, "case"),
    (Role::End, "end"),
];

/// PostgreSQL's keywords that matter for the shape, and those that are never names. Other words may be names.
const POSTGRES_WORDS: &[(Role, &str)] = &[
    (
        Role::Hard,
        "all analyse analyze any array as asc asymmetric both cast check column constraint create default \
         deferrable desc distinct do for foreign grant initially into lateral leading null only placing \
         primary references some symmetric table to trailing unique user using variadic with",
    ),
    (Role::Operator, "and collate ilike in is isnull like not notnull or overlaps similar"),
    (Role::SoftOperator, "at between escape operator"),
    (Role::Compound, "except intersect join union"),
    (
        Role::Clause,
        "else fetch from group having limit offset on order returning select set then values when where \
         window",
    ),
    (Role::Case, "case"),
    (Role::End, "end"),
];

pub(super) static SQLITE: Keywords = Keywords::of(SQLITE_WORDS);
pub(super) static POSTGRES: Keywords = Keywords::of(POSTGRES_WORDS);

/// Room for the words of a dialect.
const MOST: usize = 160;
/// The longest keyword.
const LONGEST: usize = 17;
/// Slots of a table, several per word so that most other words hit an empty one.
const SLOTS: usize = 1_024;
/// An empty slot.
const NONE: u8 = u8::MAX;

/// Keywords, found by a hash of their letters.
pub(super) struct Keywords {
    words: [(&'static [u8], Role); MOST],
    slots: [u8; SLOTS],
}

impl Keywords {
    #[allow(
        clippy::indexing_slicing,
        clippy::cast_possible_truncation,
        reason = "done by the compiler, which checks"
    )]
    const fn of(groups: &[(Role, &'static str)]) -> Self {
        let mut keywords = Self { words: [(&[], Role::None); MOST], slots: [NONE; SLOTS] };
        let (mut count, mut group) = (0, 0);
        while group < groups.len() {
            let (role, list) = groups[group];
            let mut rest = list.as_bytes();
            while !rest.is_empty() {
                let mut end = 0;
                while end < rest.len() && rest[end] != b' ' {
                    end += 1;
                }
                let (word, after) = rest.split_at(end);
                let mut slot = hash(word);
                while keywords.slots[slot] != NONE {
                    slot = (slot + 1) % SLOTS;
                }
                keywords.words[count] = (word, role);
                keywords.slots[slot] = count as u8;
                count += 1;
                rest = if let [_, next @ ..] = after { next } else { after };
            }
            group += 1;
        }
        keywords
    }

    /// What a bare word means.
    pub(super) fn role(&self, word: &[u8]) -> Role {
        let mut folded = [0u8; LONGEST];
        let Some(folded) = folded.get_mut(..word.len()) else { return Role::None };
        folded.copy_from_slice(word);
        folded.make_ascii_lowercase();
        let mut slot = hash(folded);
        while let Some((keyword, role)) = self.slots.get(slot).and_then(|at| self.words.get(usize::from(*at)))
        {
            if *keyword == folded {
                return *role;
            }
            slot = (slot + 1) % SLOTS;
        }
        Role::None
    }
}

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

#[cfg(test)]
mod tests {
    use super::{LONGEST, POSTGRES, POSTGRES_WORDS, Role, SQLITE, SQLITE_WORDS};

    #[test]
    fn every_word_is_found_in_any_case_with_its_only_role() {
        for (keywords, groups) in [(&SQLITE, SQLITE_WORDS), (&POSTGRES, POSTGRES_WORDS)] {
            for (meaning, word) in
                groups.iter().flat_map(|(role, list)| list.split(' ').map(move |word| (role, word)))
            {
                assert!(!word.is_empty() && word.len() <= LONGEST, "{word}");
                assert_eq!(keywords.role(word.as_bytes()), *meaning, "{word}");
                assert_eq!(keywords.role(word.to_uppercase().as_bytes()), *meaning, "{word}");
            }
            for other in ["selects", "", "数据", "current_timestamps"] {
                assert_eq!(keywords.role(other.as_bytes()), Role::None, "{other}");
            }
        }
    }

    #[cfg(feature = "sqlite-grammar")]
    #[test]
    fn every_keyword_of_sqlite_is_one_of_its_grammar() {
        for word in SQLITE_WORDS.iter().flat_map(|(_, list)| list.split(' ')) {
            assert!(
                sqlite3_parser::dialect::keyword_token(word.as_bytes()).is_some(),
                "{word} is not a keyword"
            );
        }
    }
}
