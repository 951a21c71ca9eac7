//! Text to tokens: the one definition of what a "word" is, for documents and for queries alike.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

use super::stem::{Stem, is_function_word, stem};

/// Version of the token stream. It grows with every change that gives some text other tokens, so that a
/// backend which stores tokens (or anything computed from them) knows when to build them anew.
pub const ANALYZER_VERSION: u32 = 1;

/// Longest token, in characters. A longer run of letters is split into pieces of this length (so it is still
/// found whole, by all its pieces); the joined form of a longer compound is left out (its parts are tokens
/// anyway).
pub const MAX_TOKEN_CHARS: usize = 64;

/// Most tokens taken from one text (about 1.3 MB of English). What follows is not searchable.
pub const MAX_TOKENS: usize = 1 << 18;

/// Characters of one unit (a base and its marks) in scripts written without spaces; more marks than this
/// start another unit.
const MAX_UNIT_CHARS: usize = 8;

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
/// - Han, Hangul, kana, Thai, Lao, Khmer and Myanmar give overlapping pairs of characters (units, for the
///   last four: a base with its marks), and the single ones too (kana only where it stands alone).
/// - An emoji is a token, without skin tone and variation selector; a flag is one; a joined sequence is its
///   members.
/// - Tokens of ASCII letters alone are stemmed lightly, as English.
/// - Time is linear in the text. At most [`MAX_TOKENS`] tokens of at most [`MAX_TOKEN_CHARS`] characters.
///
/// It holds buffers only: two analyzers always agree, and one may be used for any number of texts.
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

    /// Without stemming, to measure what stemming brings.
    #[cfg(test)]
    pub(super) fn unstemmed() -> Self {
        Self { stemming: false, ..Self::default() }
    }

    /// Calls `token` with each token of `text`, in order.
    pub fn analyze(&mut self, text: &str, token: &mut impl FnMut(&str)) {
        self.scan(text, false, token);
    }

    /// As [`analyze`](Self::analyze), without English function words.
    pub(super) fn analyze_content(&mut self, text: &str, token: &mut impl FnMut(&str)) {
        self.scan(text, true, token);
    }

    fn scan(&mut self, text: &str, content_only: bool, token: &mut impl FnMut(&str)) {
        let Self { compound, spaceless, scratch, stemming } = self;
        let mut out = Out { token, left: MAX_TOKENS, scratch, stemming: *stemming, content_only };
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

/// Where tokens go: stems them, counts them.
struct Out<'a, F> {
    token: &'a mut F,
    left: usize,
    scratch: &'a mut String,
    stemming: bool,
    content_only: bool,
}

impl<F: FnMut(&str)> Out<'_, F> {
    fn emit(&mut self, token: &str) {
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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Lower,
    Upper,
    Digit,
    /// A letter without case, or a mark that spells.
    Letter,
    /// Joins the parts of a name: `-`, `_`, `.`.
    Weak,
    /// Joins names: `/`, `@`, `:` and the like.
    Strong,
    Apostrophe,
    Comma,
    Break,
    /// Neither seen nor separating: soft hyphen, variation selector, joiner.
    Ignored,
    Ideograph,
    Kana,
    Hangul,
    /// Thai, Lao, Khmer, Myanmar.
    Cluster,
    Emoji,
    Flag,
}

fn ascii_class(byte: u8) -> Class {
    match byte {
        b'a'..=b'z' => Class::Lower,
        b'A'..=b'Z' => Class::Upper,
        b'0'..=b'9' => Class::Digit,
        b'-' | b'_' | b'.' => Class::Weak,
        b'/' | b':' | b'@' | b'#' | b'&' | b'=' | b'+' | b'~' | b'?' | b'\\' | b'%' => Class::Strong,
        b'\'' => Class::Apostrophe,
        b',' => Class::Comma,
        _ => Class::Break,
    }
}

fn class(c: char) -> Class {
    if let Ok(byte) = u8::try_from(c)
        && byte.is_ascii()
    {
        return ascii_class(byte);
    }
    match u32::from(c) {
        0x00AD | 0x034F | 0x061C | 0x0640 | 0x200C..=0x200F | 0x2060..=0x2064 | 0xFE00..=0xFE0F | 0xFEFF => {
            Class::Ignored
        }
        0x1F3FB..=0x1F3FF | 0xE0000..=0xE0FFF => Class::Ignored,
        0x2018 | 0x2019 | 0x02BC | 0x05F3 | 0x05F4 => Class::Apostrophe,
        0x2010 | 0x00B7 => Class::Weak,
        0x1F1E6..=0x1F1FF => Class::Flag,
        0x2300..=0x23FF | 0x2600..=0x27BF | 0x2B00..=0x2BFF | 0x1F000..=0x1FAFF => Class::Emoji,
        0x3005..=0x3007 | 0x3400..=0x4DBF | 0x4E00..=0x9FFF | 0xF900..=0xFAFF | 0x20000..=0x3FFFF => {
            Class::Ideograph
        }
        0x3041..=0x3096
        | 0x3099..=0x309F
        | 0x30A1..=0x30FA
        | 0x30FC..=0x30FF
        | 0x31F0..=0x31FF
        | 0x1B000..=0x1B16F => Class::Kana,
        0x1100..=0x11FF | 0x3131..=0x318E | 0xA960..=0xA97F | 0xAC00..=0xD7FF => Class::Hangul,
        _ if digit(c).is_some() => Class::Digit,
        0x0E01..=0x0E4E
        | 0x0E81..=0x0ECE
        | 0x0EDC..=0x0EDF
        | 0x1000..=0x109F
        | 0x1780..=0x17D3
        | 0xA9E0..=0xA9FF
        | 0xAA60..=0xAA7F
            if c != '\u{0E3F}' =>
        {
            Class::Cluster
        }
        _ if c.is_lowercase() => Class::Lower,
        _ if c.is_uppercase() => Class::Upper,
        _ if c.is_alphanumeric() || is_combining_mark(c) => Class::Letter,
        _ => Class::Break,
    }
}

/// Characters that normalisation leaves alone, unless a mark follows (none is among them): ASCII, typographic
/// dashes and quotes, Russian, kana, Han, Hangul. A word of these alone need not be normalised.
fn is_plain(c: char) -> bool {
    c.is_ascii()
        || match u32::from(c) {
            0x0419 | 0x0439 => false,
            0x0410..=0x044F
            | 0x3001
            | 0x3002
            | 0x3041..=0x3096
            | 0x30A1..=0x30FE
            | 0x4E00..=0x9FFF
            | 0xAC00..=0xD7A3 => true,
            0x2013 | 0x2014 | 0x2018 | 0x2019 | 0x201C | 0x201D => true,
            _ => false,
        }
}

/// Marks that vary a letter without spelling another word's letter: Latin, Greek and Cyrillic accents, Hebrew
/// points, Arabic vowel signs. U+034F stays: it bounds runs of marks while they are normalised.
fn is_diacritic(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x034E | 0x0350..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x05BF | 0x05C1 | 0x05C2 | 0x05C4
        | 0x05C5 | 0x05C7 | 0x0610..=0x061A | 0x064B..=0x065F | 0x0670 | 0x06D6..=0x06DC | 0x06DF..=0x06E4
        | 0x06E7 | 0x06E8 | 0x06EA..=0x06ED | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF
        | 0xFE20..=0xFE2F)
}

/// NFKC without diacritics. A run of marks is cut by U+034F every 30 of them, which bounds what normalisation
/// holds back.
fn normalized(word: &str) -> impl Iterator<Item = char> {
    word.chars().stream_safe().nfkd().filter(|&c| !is_diacritic(c)).nfc()
}

/// The ASCII form of a decimal digit (general category Nd) of the scripts in common use.
fn digit(c: char) -> Option<char> {
    const ZEROS: [u32; 19] = [
        0x0660, 0x06F0, 0x07C0, 0x0966, 0x09E6, 0x0A66, 0x0AE6, 0x0B66, 0x0BE6, 0x0C66, 0x0CE6, 0x0D66,
        0x0DE6, 0x0E50, 0x0ED0, 0x0F20, 0x1040, 0x17E0, 0x1810,
    ];
    let code = u32::from(c);
    if !(0x0660..=0x1819).contains(&code) {
        return None;
    }
    ZEROS.iter().find_map(|&zero| char::from_digit(code.checked_sub(zero).filter(|&d| d < 10)?, 10))
}

/// Appends `c` with case, digits and undecomposable Latin letters folded. `lower(upper(c))` is Unicode's full
/// case folding (ß = ss, ς = σ), and folds dotless ı with i too, as suits a search.
fn fold_into(c: char, out: &mut String) {
    if c.is_ascii() {
        out.push(c.to_ascii_lowercase());
        return;
    }
    if let Some(digit) = digit(c) {
        out.push(digit);
        return;
    }
    match c {
        'ø' | 'Ø' => out.push('o'),
        'ł' | 'Ł' => out.push('l'),
        'đ' | 'Đ' | 'ð' | 'Ð' => out.push('d'),
        'ħ' | 'Ħ' => out.push('h'),
        'æ' | 'Æ' => out.push_str("ae"),
        'œ' | 'Œ' => out.push_str("oe"),
        'þ' | 'Þ' => out.push_str("th"),
        _ => out.extend(c.to_uppercase().flat_map(char::to_lowercase)),
    }
}

/// Deals characters out to the two machines: names joined by punctuation, and scripts without spaces.
struct Scanner<'a> {
    compound: &'a mut Compound,
    spaceless: &'a mut Spaceless,
    flag: Option<char>,
}

impl Scanner<'_> {
    fn push<F: FnMut(&str)>(&mut self, c: char, out: &mut Out<'_, F>) {
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

    fn end<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        self.flag = None;
        self.compound.end(out);
        self.spaceless.end(out);
    }
}

/// A compound under way: a run of letters and digits, the parts before it, and the joiner just seen.
#[derive(Debug, Default)]
struct Compound {
    run: Run,
    /// The compound since the last strong joiner, and the whole of it.
    name: Joined,
    whole: Joined,
    joiner: Joiner,
    /// The run came after a comma between digits.
    after_comma: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Joiner {
    #[default]
    None,
    Weak(char),
    Strong(char),
    /// `++` after a run.
    Increment,
    Apostrophe,
    Comma,
}

impl Compound {
    fn push<F: FnMut(&str)>(&mut self, c: char, class: Class, out: &mut Out<'_, F>) {
        match class {
            Class::Lower | Class::Upper | Class::Digit | Class::Letter => self.push_word(c, class, out),
            _ if self.run.is_empty() => {}
            Class::Weak => match self.joiner {
                Joiner::None => self.joiner = Joiner::Weak(c),
                Joiner::Strong(_) => {}
                _ => self.end(out),
            },
            Class::Strong => {
                self.joiner = match self.joiner {
                    Joiner::Strong('+') if c == '+' => Joiner::Increment,
                    Joiner::None => Joiner::Strong(c),
                    // A second joiner: `://`, `::`, `./`. No longer a sign that belongs to the run, as in
                    // `C#`.
                    Joiner::Weak(_) | Joiner::Strong(_) => Joiner::Strong('/'),
                    _ => return self.end(out),
                }
            }
            Class::Apostrophe if self.joiner == Joiner::None => self.joiner = Joiner::Apostrophe,
            Class::Comma if self.joiner == Joiner::None && self.run.last == Some(Class::Digit) => {
                self.joiner = Joiner::Comma;
            }
            _ => self.end(out),
        }
    }

    fn push_word<F: FnMut(&str)>(&mut self, c: char, class: Class, out: &mut Out<'_, F>) {
        if self.joiner != Joiner::None {
            self.join(class, out);
        }
        // A character folds to three at most.
        let width = if c.is_ascii() { 1 } else { 3 };
        if self.run.chars + width > MAX_TOKEN_CHARS {
            self.end_run(out);
            self.name.spoiled = true;
            self.whole.spoiled = true;
        }
        self.run.push(c, class);
    }

    /// A run follows the joiner: what was the joiner worth?
    fn join<F: FnMut(&str)>(&mut self, next: Class, out: &mut Out<'_, F>) {
        let between_digits = next == Class::Digit && self.run.last == Some(Class::Digit);
        match std::mem::take(&mut self.joiner) {
            Joiner::None => {}
            Joiner::Apostrophe => self.run.mark_apostrophe(),
            Joiner::Weak(c) => {
                self.end_run(out);
                if between_digits {
                    self.name.push(c);
                    self.whole.push(c);
                }
            }
            Joiner::Strong(c) => {
                self.end_run(out);
                self.name.end(out);
                if between_digits {
                    self.whole.push(c);
                }
            }
            Joiner::Comma if between_digits => {
                self.end_run(out);
                self.after_comma = true;
            }
            Joiner::Increment | Joiner::Comma => self.end(out),
        }
    }

    fn end_run<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        self.run.trim_contraction();
        if std::mem::take(&mut self.after_comma) && self.run.chars != 3 {
            // Not a thousands separator: `1,2,3` is a list.
            self.name.spoiled = true;
            self.whole.spoiled = true;
        }
        self.run.emit(out);
        self.name.add(&self.run.text);
        self.whole.add(&self.run.text);
        self.run.clear();
    }

    fn end<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        if self.run.is_empty() {
            return;
        }
        let sign = match std::mem::take(&mut self.joiner) {
            Joiner::Increment => "++",
            Joiner::Strong('+') => "+",
            Joiner::Strong('#') => "#",
            _ => "",
        };
        if !sign.is_empty()
            && self.run.last != Some(Class::Digit)
            && self.run.chars + sign.len() <= MAX_TOKEN_CHARS
        {
            self.run.emit_signed(sign, out);
        }
        self.end_run(out);
        let levels = (self.name.parts, self.whole.parts);
        self.name.end(out);
        if levels.0 < levels.1 {
            self.whole.end(out);
        } else {
            self.whole.clear();
        }
    }
}

/// Parts of a compound, run together.
#[derive(Debug, Default)]
struct Joined {
    text: String,
    parts: usize,
    /// Too long, or not one name after all: not emitted.
    spoiled: bool,
}

impl Joined {
    fn add(&mut self, part: &str) {
        self.parts += 1;
        // At most four bytes a character: a cheap bound while it grows; the exact one is taken at the end.
        if self.text.len() + part.len() > 4 * MAX_TOKEN_CHARS {
            self.spoiled = true;
        }
        if !self.spoiled {
            self.text.push_str(part);
        }
    }

    fn push(&mut self, joiner: char) {
        if !self.spoiled {
            self.text.push(joiner);
        }
    }

    fn end<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        if self.parts > 1 && !self.spoiled && self.text.chars().nth(MAX_TOKEN_CHARS).is_none() {
            out.emit(&self.text);
        }
        self.clear();
    }

    fn clear(&mut self) {
        self.text.clear();
        self.parts = 0;
        self.spoiled = false;
    }
}

/// A run of letters and digits, folded, with the places where it may be split.
#[derive(Debug, Default)]
struct Run {
    text: String,
    chars: usize,
    splits: Vec<Split>,
    last: Option<Class>,
    /// Byte offset of the last character.
    last_start: usize,
    /// Upper-case letters at the end.
    capitals: usize,
    /// Byte offset of the first apostrophe.
    apostrophe: Option<usize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Split {
    at: usize,
    why: Why,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// `authService`, `O'Brien`.
    Word,
    /// `HTTPServer`: before the last capital.
    Acronym,
    /// Between letters and digits.
    Digit,
}

impl Run {
    fn is_empty(&self) -> bool {
        self.chars == 0
    }

    fn clear(&mut self) {
        self.text.clear();
        self.chars = 0;
        self.splits.clear();
        self.last = None;
        self.last_start = 0;
        self.capitals = 0;
        self.apostrophe = None;
    }

    fn push(&mut self, c: char, class: Class) {
        let at = self.text.len();
        if let Some(last) = self.last
            && last != class
        {
            match (last, class) {
                (Class::Digit, Class::Letter) if is_combining_mark(c) => {}
                (Class::Digit, _) | (_, Class::Digit) => self.split(at, Why::Digit),
                (_, Class::Upper) => self.split(at, Why::Word),
                (Class::Upper, Class::Lower) if self.capitals > 1 => {
                    self.split(self.last_start, Why::Acronym);
                }
                _ => {}
            }
        }
        self.capitals = if class == Class::Upper { self.capitals + 1 } else { 0 };
        self.last = Some(class);
        self.last_start = at;
        fold_into(c, &mut self.text);
        self.chars += if c.is_ascii() { 1 } else { self.text.get(at..).unwrap_or_default().chars().count() };
    }

    fn split(&mut self, at: usize, why: Why) {
        if at > 0 && self.splits.last().is_none_or(|last| last.at < at) {
            self.splits.push(Split { at, why });
        }
    }

    fn mark_apostrophe(&mut self) {
        let at = self.text.len();
        self.apostrophe.get_or_insert(at);
        self.split(at, Why::Word);
        // The capital of `O'Brien` starts a word of its own already.
        self.capitals = 0;
        self.last = None;
    }

    /// `Ann's`, `they're`: the word before the apostrophe; `don't`: one word.
    fn trim_contraction(&mut self) {
        let Some(at) = self.apostrophe.take() else { return };
        let Some(ending) = self.text.get(at..) else { return };
        match ending {
            "s" | "m" | "d" | "re" | "ve" | "ll" => {
                self.chars -= ending.len();
                self.text.truncate(at);
                self.splits.retain(|split| split.at < at);
            }
            "t" => self.splits.retain(|split| split.at < at),
            _ => {}
        }
    }

    fn emit<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        out.emit(&self.text);
        if self.splits.is_empty() {
            return;
        }
        // `URLs`: the plural of an acronym, not `UR` and `Ls`.
        if let Some(last) = self.splits.last()
            && last.why == Why::Acronym
            && self.text.get(last.at..).is_some_and(|piece| piece.len() == 2 && piece.ends_with('s'))
        {
            self.splits.pop();
        }
        if !self.digits_stand_alone() {
            self.splits.retain(|split| split.why != Why::Digit);
        }
        if self.splits.is_empty() {
            return;
        }
        let mut from = 0;
        for to in self.splits.iter().map(|split| split.at).chain([self.text.len()]) {
            out.emit(self.text.get(from..to).unwrap_or_default());
            from = to;
        }
    }

    /// Whether each piece of letters next to digits has at least two of them: `user42`, but not `4o`, `v1` or
    /// `e29b`.
    fn digits_stand_alone(&self) -> bool {
        let mut from = Split { at: 0, why: Why::Word };
        let end = Split { at: self.text.len(), why: Why::Word };
        for &to in self.splits.iter().chain([&end]) {
            let piece = self.text.get(from.at..to.at).unwrap_or_default();
            let mut chars = piece.chars();
            let lone = chars.next().is_some_and(|c| !c.is_ascii_digit()) && chars.next().is_none();
            if lone && (from.why == Why::Digit || to.why == Why::Digit) {
                return false;
            }
            from = to;
        }
        true
    }

    /// `C#`, `C++`: the run with the sign.
    fn emit_signed<F: FnMut(&str)>(&mut self, sign: &str, out: &mut Out<'_, F>) {
        let length = self.text.len();
        self.text.push_str(sign);
        out.emit(&self.text);
        self.text.truncate(length);
    }
}

/// A run of characters in a script written without spaces (or, for Hangul, with particles glued on):
/// overlapping pairs.
#[derive(Debug, Default)]
struct Spaceless {
    class: Option<Class>,
    /// The unit before, followed by the unit under way, which starts at `start`.
    pair: String,
    start: usize,
    unit_chars: usize,
    units: usize,
    /// The unit under way waits for the next character whatever it is: a vowel written before its consonant,
    /// or a sign that stacks consonants.
    open: bool,
    /// The unit under way is a token by itself.
    single: bool,
}

impl Spaceless {
    fn push<F: FnMut(&str)>(&mut self, c: char, class: Class, out: &mut Out<'_, F>) {
        // Han and kana mix in one Japanese word.
        let family = if class == Class::Kana { Class::Ideograph } else { class };
        if self.class != Some(family) {
            self.end(out);
            self.class = Some(family);
        }
        let continues = self.unit_chars > 0
            && self.unit_chars < MAX_UNIT_CHARS
            && (self.open || is_combining_mark(c) || follows(c));
        if !continues {
            self.end_unit(out);
        }
        self.single |= class != Class::Kana;
        self.pair.push(c);
        self.unit_chars += 1;
        self.open = matches!(u32::from(c), 0x0E40..=0x0E44 | 0x0EC0..=0x0EC4 | 0x17D2 | 0x1039);
    }

    fn end_unit<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        if self.unit_chars == 0 {
            return;
        }
        self.units += 1;
        if self.single {
            out.emit(self.pair.get(self.start..).unwrap_or_default());
        }
        if self.start > 0 {
            out.emit(&self.pair);
            self.pair.drain(..self.start);
        }
        self.start = self.pair.len();
        self.unit_chars = 0;
        self.open = false;
        self.single = false;
    }

    fn end<F: FnMut(&str)>(&mut self, out: &mut Out<'_, F>) {
        if self.class.is_none() {
            return;
        }
        let alone = self.units == 0 && !self.single;
        self.end_unit(out);
        if alone {
            out.emit(&self.pair);
        }
        self.class = None;
        self.pair.clear();
        self.start = 0;
        self.units = 0;
    }
}

/// Thai and Lao vowels written after their consonant, and the repetition sign.
fn follows(c: char) -> bool {
    matches!(u32::from(c), 0x0E30 | 0x0E32 | 0x0E33 | 0x0E45 | 0x0E46 | 0x0EB0 | 0x0EB2 | 0x0EB3 | 0x0EC6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn normalisation_leaves_plain_characters_alone() {
        for c in ('\0'..=char::MAX).filter(|&c| is_plain(c)) {
            assert!(normalized(c.encode_utf8(&mut [0; 4])).eq([c]), "{c:?}");
            assert!(!is_combining_mark(c), "{c:?}");
        }
    }

    #[test]
    fn a_character_folds_to_three_at_most() {
        let mut folded = String::new();
        for c in '\0'..=char::MAX {
            folded.clear();
            fold_into(c, &mut folded);
            assert!((1..=3).contains(&folded.chars().count()), "{c:?}");
        }
    }
}
