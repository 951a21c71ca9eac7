//! Character classes of the tokenizer, and folding.

use unicode_normalization::UnicodeNormalization as _;
use unicode_normalization::char::is_combining_mark;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Class {
    Lower,
    Upper,
    Digit,
    /// A letter without case, or a mark that changes the spelling.
    Letter,
    /// Joins the parts of a name: `-`, `_`, `.`.
    Weak,
    /// Joins names: `/`, `@`, `:` and the like.
    Strong,
    Apostrophe,
    Comma,
    Break,
    /// Skipped without separating: soft hyphen, variation selector, joiner.
    Ignored,
    Ideograph,
    Kana,
    Hangul,
    /// Thai, Lao, Khmer, Myanmar.
    Cluster,
    Emoji,
    Flag,
}

pub(super) fn ascii_class(byte: u8) -> Class {
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

pub(super) fn class(c: char) -> Class {
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

/// Characters that normalisation leaves alone unless a mark follows (none of them is a mark): ASCII, typographic dashes
/// and quotes, Russian, kana, Han, Hangul. A word made only of these needs no normalisation.
pub(super) fn is_plain(c: char) -> bool {
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

/// Marks that vary a letter without changing the spelling: Latin, Greek and Cyrillic accents, Hebrew points, Arabic
/// vowel signs. U+034F stays: it splits long runs of marks during normalisation.
pub(super) fn is_diacritic(c: char) -> bool {
    matches!(u32::from(c),
        0x0300..=0x034E | 0x0350..=0x036F | 0x0483..=0x0489 | 0x0591..=0x05BD | 0x05BF | 0x05C1 | 0x05C2 | 0x05C4
        | 0x05C5 | 0x05C7 | 0x0610..=0x061A | 0x064B..=0x065F | 0x0670 | 0x06D6..=0x06DC | 0x06DF..=0x06E4
        | 0x06E7 | 0x06E8 | 0x06EA..=0x06ED | 0x1AB0..=0x1AFF | 0x1DC0..=0x1DFF | 0x20D0..=0x20FF
        | 0xFE20..=0xFE2F)
}

/// NFKC without diacritics. A run of marks is split by U+034F every 30 marks, which limits the buffer of normalisation.
pub(super) fn normalized(word: &str) -> impl Iterator<Item = char> {
    word.chars().stream_safe().nfkd().filter(|&c| !is_diacritic(c)).nfc()
}

/// The ASCII form of a decimal digit (general category Nd) of the scripts in common use.
pub(super) fn digit(c: char) -> Option<char> {
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

/// Appends `c` with case, digits and undecomposable Latin letters folded. `lower(upper(c))` is Unicode's full case
/// folding (ß = ss, ς = σ), and also folds dotless ı with i, which suits a search.
pub(super) fn fold_into(c: char, out: &mut String) {
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
    fn a_character_folds_to_at_most_three() {
        let mut folded = String::new();
        for c in '\0'..=char::MAX {
            folded.clear();
            fold_into(c, &mut folded);
            assert!((1..=3).contains(&folded.chars().count()), "{c:?}");
        }
    }
}
