//! Splits text into tokens: the single definition of a "word", for documents and queries alike.

mod character;
mod compound;
mod output;
mod run;
mod spaceless;

pub use output::{MAX_TOKEN_CHARS, MAX_TOKENS};

use character::{Class, ascii_class, class, is_plain, normalized};
use compound::Compound;
use output::Output;
use spaceless::Spaceless;

/// Version of the token stream. It changes whenever some text would get other tokens, so that a backend that stores
/// tokens (or anything derived from them) knows when to rebuild them.
pub const ANALYZER_VERSION: u32 = 1;

/// Turns text into tokens.
///
/// # Behavior
/// - Width, ligatures and other compatibility variants fold (NFKC), case folds (`Straße` = `STRASSE`),
///   diacritics fold (`café` = `cafe`, `Łódź` = `lodz`), also Arabic and Hebrew vowel points; marks that
///   spell (Devanagari, Thai, kana voicing) stay. Decimal digits of every script become ASCII digits.
/// - A run of letters and digits is a token. Runs joined by `-`, `_`, `.` or `/ : @ # & = + ~ ? \ %` are one
///   compound: every part is a token, and so is the compound with its joiners dropped, at both levels:
///   `e-mail` gives `e`, `mail`, `email`; `bob@example.com` gives `bob`, `example`, `com`, `examplecom`,
///   `bobexamplecom`. A joiner between two digits is kept (`v1.2.3`, `2023-05-08`, `10:30`), so that numbers
///   do not run together; the comma of `1,000` is not (`1000`).
/// - A run is split where its case turns (`AuthService`, `HTTPServer`) and between letters and digits if at
///   least two letters stand on that side (`user42`, not `4o`); the pieces are tokens beside the run.
/// - `'s` and other English contractions are dropped (`Ann's` = `ann`), `don't` is `dont`, `O'Brien` is
///   `obrien`, `o`, `brien`. `C++` and `C#` give `c++` and `c#` beside `c`.
/// - Han, Hangul, kana, Thai, Lao, Khmer and Myanmar give overlapping pairs of characters (for the last four, of units:
///   a base with its marks), and also single ones (kana only if alone).
/// - An emoji is a token, without skin tone and variation selector; so is a flag; a joined sequence gives its members.
/// - Tokens of only ASCII letters are lightly stemmed as English.
/// - Time is linear in the text. At most [`MAX_TOKENS`] tokens of at most [`MAX_TOKEN_CHARS`] characters.
///
/// It holds only buffers: all analyzers agree, and one may be reused for any number of texts.
#[derive(Debug)]
pub struct Analyzer {
    compound: Compound,
    spaceless: Spaceless,
    scratch: String,
    stemming: bool,
}

impl Default for Analyzer {
    fn default() -> Self {
        Self {
            compound: Compound::default(),
            spaceless: Spaceless::default(),
            scratch: String::new(),
            stemming: true,
        }
    }
}

/// Calls `token` with each token of `text`, in order; see [`Analyzer`].
pub fn analyze(text: &str, token: &mut impl FnMut(&str)) {
    Analyzer::new().analyze(text, token);
}

/// The tokens of `text`, in order; see [`Analyzer`].
#[must_use]
pub fn tokens(text: &str) -> Vec<String> {
    let mut all = Vec::new();
    analyze(text, &mut |token| all.push(token.to_owned()));
    all
}

impl Analyzer {
    /// An analyzer with empty buffers.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Without stemming, to measure its effect.
    #[cfg(test)]
    pub(super) fn unstemmed() -> Self {
        Self { stemming: false, ..Self::default() }
    }

    /// Calls `token` with each token of `text`, in order.
    pub fn analyze(&mut self, text: &str, token: &mut impl FnMut(&str)) {
        self.scan(text, false, token);
    }

    /// Like [`analyze`](Self::analyze), without English function words.
    pub(super) fn analyze_content(&mut self, text: &str, token: &mut impl FnMut(&str)) {
        self.scan(text, true, token);
    }

    fn scan(&mut self, text: &str, content_only: bool, token: &mut impl FnMut(&str)) {
        let Self { compound, spaceless, scratch, stemming } = self;
        let mut out = Output { token, left: MAX_TOKENS, scratch, stemming: *stemming, content_only };
        if text.is_ascii() {
            for byte in text.bytes() {
                compound.push(char::from(byte), ascii_class(byte), &mut out);
                if out.left == 0 {
                    break;
                }
            }
            compound.end(&mut out);
            return;
        }
        let mut scanner = Scanner { compound, spaceless, flag: None };
        for word in text.split_ascii_whitespace() {
            if word.chars().all(is_plain) {
                for c in word.chars() {
                    scanner.push(c, &mut out);
                    if out.left == 0 {
                        break;
                    }
                }
            } else {
                let folded = normalized(word);
                for c in folded {
                    scanner.push(c, &mut out);
                    if out.left == 0 {
                        break;
                    }
                }
            }
            scanner.end(&mut out);
            if out.left == 0 {
                break;
            }
        }
    }
}

/// Passes characters to the two state machines: compounds, and scripts without spaces.
struct Scanner<'a> {
    compound: &'a mut Compound,
    spaceless: &'a mut Spaceless,
    flag: Option<char>,
}

impl Scanner<'_> {
    fn push<F: FnMut(&str)>(&mut self, c: char, out: &mut Output<'_, F>) {
        let class = class(c);
        if class == Class::Ignored {
            return;
        }
        if class != Class::Flag {
            self.flag = None;
        }
        match class {
            Class::Ideograph | Class::Kana | Class::Hangul | Class::Cluster => {
                self.compound.end(out);
                self.spaceless.push(c, class, out);
            }
            Class::Emoji => {
                self.end(out);
                out.emit(c.encode_utf8(&mut [0; 4]));
            }
            Class::Flag => {
                self.compound.end(out);
                self.spaceless.end(out);
                match self.flag.take() {
                    Some(first) => out.emit(&String::from_iter([first, c])),
                    None => self.flag = Some(c),
                }
            }
            _ => {
                self.spaceless.end(out);
                self.compound.push(c, class, out);
            }
        }
    }

    fn end<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
        self.flag = None;
        self.compound.end(out);
        self.spaceless.end(out);
    }
}
