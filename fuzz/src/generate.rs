//! Generates valid values from bytes, for what mutations of text would rarely reach.

/// Bytes that drive the generator; zeros once they have run out.
#[derive(Clone, Debug)]
pub struct Choices<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Choices<'a> {
    /// The choices in an input that is not text.
    #[must_use]
    pub fn of(data: &'a [u8]) -> Option<Self> {
        match data.split_first() {
            Some((0x80..=0xBF, rest)) => Some(Self { bytes: rest.iter() }),
            _ => None,
        }
    }

    /// The next byte.
    pub fn byte(&mut self) -> u8 {
        self.bytes.next().copied().unwrap_or(0)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u8) -> usize {
        usize::from(self.byte() % n)
    }

    /// One of the items.
    pub fn one_of<T: Copy, const N: usize>(&mut self, all: [T; N]) -> T {
        all[usize::from(self.byte()) % N]
    }

    /// Whether bytes are left.
    #[must_use]
    pub fn more(&self) -> bool {
        self.bytes.len() > 0
    }
}

/// A JSON text, valid by the grammar: odd spacing, odd spellings, repeated names, depths beyond the limit.
pub fn json(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    value(choices, &mut text, 0);
    text
}

/// A JSON object, likewise.
pub fn json_object(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    object(choices, &mut text, 0);
    text
}

/// A JSON array, likewise.
pub fn json_array(choices: &mut Choices<'_>) -> String {
    let mut text = String::new();
    array(choices, &mut text, 0);
    text
}

const SPACES: [&str; 8] = ["", "", "", "", " ", "\n", "\t\r", "  "];
const NAMES: [&str; 8] = ["a", "b", "c", r"\u0061", "", "é", r"\n", "$serde_json::private::RawValue"];
const SCALARS: [&str; 24] = [
    "null",
    "true",
    "false",
    "0",
    "-0",
    "1",
    "1.0",
    "10e-1",
    "0.1E+1",
    "-1.50",
    "100",
    "1e400",
    "1e-99999999999999999999999999999999999999",
    "9007199254740993",
    "9223372036854775808",
    "-9223372036854775808",
    r#""""#,
    r#""a""#,
    r#""\u0061""#,
    r#""\ud83d\ude00""#,
    r#""😀""#,
    r#""a\u0000b \/ \\ \" \t""#,
    r#""{[,:]}""#,
    r#""Ann moved to Lisbon""#,
];
/// Far beyond the accepted depth.
const DEEPEST: usize = 140;

fn space(choices: &mut Choices<'_>, out: &mut String) {
    out.push_str(choices.one_of(SPACES));
}

fn value(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    match choices.below(8) {
        _ if depth >= DEEPEST => out.push('1'),
        0..=3 => out.push_str(choices.one_of(SCALARS)),
        4 | 5 => object(choices, out, depth),
        6 => array(choices, out, depth),
        _ => {
            // Deep nesting, which single steps would rarely build.
            let height = choices.below(135).min(DEEPEST - depth);
            let (open, close) = choices.one_of([("[", "]"), (r#"{"a":"#, "}"), ("[0,", "]"), ("[", ",0]")]);
            out.push_str(&open.repeat(height));
            out.push_str(choices.one_of(SCALARS));
            out.push_str(&close.repeat(height));
        }
    }
}

fn object(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    out.push('{');
    space(choices, out);
    for at in 0..choices.below(6) {
        if at > 0 {
            out.push(',');
        }
        space(choices, out);
        out.push('"');
        out.push_str(choices.one_of(NAMES));
        out.push('"');
        space(choices, out);
        out.push(':');
        space(choices, out);
        value(choices, out, depth + 1);
        space(choices, out);
    }
    out.push('}');
}

fn array(choices: &mut Choices<'_>, out: &mut String, depth: usize) {
    out.push('[');
    space(choices, out);
    for at in 0..choices.below(6) {
        if at > 0 {
            out.push(',');
        }
        space(choices, out);
        value(choices, out, depth + 1);
        space(choices, out);
    }
    out.push(']');
}
