//! The output of the tokenizer: stemmed, and limited in number.

use crate::lexical::stem::{Stem, is_function_word, stem};

/// Longest token, in characters. A longer run of letters is split into pieces of this length (and found by all of
/// them); the joined form of a longer compound is left out (its parts are tokens anyway).
pub const MAX_TOKEN_CHARS: usize = 64;

/// Most tokens of one text (about 1.3 MB of English). The rest is not searchable.
pub const MAX_TOKENS: usize = 1 << 18;

/// Stems and counts tokens, and passes them on.
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
