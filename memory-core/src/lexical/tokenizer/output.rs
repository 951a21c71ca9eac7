//! Where tokens go: bounded in number, stemmed.

use crate::lexical::stem::{Stem, is_function_word, stem};

/// Longest token, in characters. A longer run of letters is split into pieces of this length (so it is still
/// found whole, by all its pieces); the joined form of a longer compound is left out (its parts are tokens
/// anyway).
pub const MAX_TOKEN_CHARS: usize = 64;

/// Most tokens taken from one text (about 1.3 MB of English). What follows is not searchable.
pub const MAX_TOKENS: usize = 1 << 18;

/// Where tokens go: stems them, counts them.
pub(super) struct Output<'a, F> {
    pub(super) token: &'a mut F,
    pub(super) left: usize,
    pub(super) scratch: &'a mut String,
    pub(super) stemming: bool,
    pub(super) content_only: bool,
}

impl<F: FnMut(&str)> Output<'_, F> {
    pub(super) fn emit(&mut self, token: &str) {
        if token.is_empty() || self.left == 0 {
            return;
        }
        self.left -= 1;
        if self.content_only && is_function_word(token) {
            return;
        }
        match if self.stemming { stem(token) } else { Stem::Same } {
            Stem::Same => (self.token)(token),
            Stem::Cut(kept) => (self.token)(kept),
            Stem::Replaced(kept, ending) => {
                self.scratch.clear();
                self.scratch.push_str(kept);
                self.scratch.push_str(ending);
                (self.token)(self.scratch);
            }
        }
    }
}
