//! Scripts written without spaces.

use unicode_normalization::char::is_combining_mark;

use super::character::Class;
use super::output::Output;

/// Most characters of one unit (a base and its marks) in scripts without spaces; further marks start a new unit.
const MAX_UNIT_CHARS: usize = 8;

/// A run of characters in a script without spaces (or, for Hangul, with attached particles): overlapping pairs.
#[derive(Debug, Default)]
pub(super) struct Spaceless {
    class: Option<Class>,
    /// The previous unit, followed by the current one, which starts at `start`.
    pair: String,
    start: usize,
    unit_chars: usize,
    units: usize,
    /// Whether the next character belongs to the current unit in any case: a vowel written before its consonant, or a
    /// sign that stacks consonants.
    open: bool,
    /// Whether the current unit is a token by itself.
    single: bool,
}

impl Spaceless {
    pub(super) fn push<F: FnMut(&str)>(&mut self, c: char, class: Class, out: &mut Output<'_, F>) {
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

    fn end_unit<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
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

    pub(super) fn end<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
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
