//! Names whose parts are joined by punctuation.

use super::character::Class;
use super::output::{MAX_TOKEN_CHARS, Output};
use super::run::Run;

/// A compound being read: a run of letters and digits, the parts before it, and the last joiner.
#[derive(Debug, Default)]
pub(super) struct Compound {
    run: Run,
    /// The compound since the last strong joiner, and the whole compound.
    name: Joined,
    whole: Joined,
    joiner: Joiner,
    /// Whether the run came after a comma between digits.
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
    pub(super) fn push<F: FnMut(&str)>(&mut self, c: char, class: Class, out: &mut Output<'_, F>) {
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
                    // A second joiner: `://`, `::`, `./`. It ends the run, unlike the sign in `C#`.
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

    fn push_word<F: FnMut(&str)>(&mut self, c: char, class: Class, out: &mut Output<'_, F>) {
        if self.joiner != Joiner::None {
            self.join(class, out);
        }
        // A character folds to at most three.
        let width = if c.is_ascii() { 1 } else { 3 };
        if self.run.chars + width > MAX_TOKEN_CHARS {
            self.end_run(out);
            self.name.spoiled = true;
            self.whole.spoiled = true;
        }
        self.run.push(c, class);
    }

    /// A run follows the joiner; decides what the joiner means.
    fn join<F: FnMut(&str)>(&mut self, next: Class, out: &mut Output<'_, F>) {
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

    fn end_run<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
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

    pub(super) fn end<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
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

/// The concatenated parts of a compound.
#[derive(Debug, Default)]
struct Joined {
    text: String,
    parts: usize,
    /// Too long, or not a single name: not emitted.
    spoiled: bool,
}

impl Joined {
    fn add(&mut self, part: &str) {
        self.parts += 1;
        // At most four bytes per character: a cheap bound while the name grows. The exact limit is checked at the end.
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

    fn end<F: FnMut(&str)>(&mut self, out: &mut Output<'_, F>) {
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
