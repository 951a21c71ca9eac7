//! The specification of the module, as tests.

mod canonical;
mod hostile;
mod parse;
mod search_text;
mod serde_doors;

use super::Json;
use proptest::prelude::*;
use std::fmt::Write as _;

pub(crate) fn json(text: &str) -> Json {
    Json::parse(text).unwrap()
}

/// Runs `test` on a stack so small that recursion over a deep text would overflow it.
pub(crate) fn on_a_small_stack(test: impl FnOnce() + Send + 'static) {
    std::thread::Builder::new().stack_size(256 * 1024).spawn(test).unwrap().join().unwrap();
}

/// `±coefficient × 10^exponent` and how to spell it.
#[derive(Debug, Clone)]
pub(crate) struct Decimal {
    pub(crate) negative: bool,
    pub(crate) coefficient: u16,
    pub(crate) exponent: i32,
    pub(crate) spelling: u8,
}

impl Decimal {
    /// The exact value times 10^8.
    fn scaled(&self) -> i128 {
        let magnitude = i128::from(self.coefficient) * 10_i128.pow(u32::try_from(self.exponent + 8).unwrap());
        if self.negative { -magnitude } else { magnitude }
    }

    fn render(&self, out: &mut String) {
        if self.negative {
            out.push('-');
        }
        let (c, e) = (self.coefficient, self.exponent);
        match self.spelling % 6 {
            0 => write!(out, "{c}e{e}"),
            1 => write!(out, "{c}.000E{e:+}"),
            2 => write!(out, "{}e{}", u32::from(c) * 100, e - 2),
            3 => {
                let digits = c.to_string();
                write!(out, "0.{digits}e{}", e + i32::try_from(digits.len()).unwrap())
            }
            4 => write!(out, "{c}e{}0000{:02}", if e < 0 { "-" } else { "" }, e.abs()),
            _ if e >= 0 => write!(out, "{}", i64::from(c) * 10_i64.pow(u32::try_from(e).unwrap())),
            _ => {
                let places = usize::try_from(-e).unwrap();
                let digits = format!("{c:0>width$}", width = places + 1);
                let (whole, fraction) = digits.split_at(digits.len() - places);
                write!(out, "{whole}.{fraction}")
            }
        }
        .unwrap();
    }
}

/// A character and whether it is written as an escape.
pub(crate) type Spelled = Vec<(char, bool)>;

/// A JSON document together with the way it is written.
#[derive(Debug, Clone)]
pub(crate) enum Doc {
    Null,
    Bool(bool),
    Number(Decimal),
    String(Spelled),
    Array(Vec<Doc>, u8),
    Object(Vec<(Spelled, Doc)>, u8),
}

fn content(spelled: &Spelled) -> String {
    spelled.iter().map(|(character, _)| *character).collect()
}

fn render_string(spelled: &Spelled, out: &mut String) {
    out.push('"');
    for (character, escaped) in spelled {
        match character {
            '"' | '\\' => out.extend(['\\', *character]),
            '\n' if !escaped => out.push_str("\\n"),
            '/' if *escaped => out.push_str("\\/"),
            _ if *escaped || *character < ' ' => {
                for unit in character.encode_utf16(&mut [0; 2]) {
                    write!(out, "\\u{unit:04X}").unwrap();
                }
            }
            _ => out.push(*character),
        }
    }
    out.push('"');
}

impl Doc {
    pub(crate) fn text(&self) -> String {
        let mut out = String::new();
        self.render(&mut out);
        out
    }

    fn render(&self, out: &mut String) {
        let space = |style: u8| ["", " ", "\n\t"][usize::from(style % 3)];
        match self {
            Self::Null => out.push_str("null"),
            Self::Bool(value) => write!(out, "{value}").unwrap(),
            Self::Number(number) => number.render(out),
            Self::String(spelled) => render_string(spelled, out),
            Self::Array(elements, style) => {
                out.push('[');
                for (index, element) in elements.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(space(*style));
                    element.render(out);
                }
                out.push_str(space(style / 3));
                out.push(']');
            }
            Self::Object(members, style) => {
                out.push('{');
                for (index, (key, value)) in members.iter().enumerate() {
                    out.push_str(if index == 0 { "" } else { "," });
                    out.push_str(space(*style));
                    render_string(key, out);
                    out.push_str(space(style / 9));
                    out.push(':');
                    out.push_str(space(style / 27));
                    value.render(out);
                    out.push_str(space(style / 81));
                }
                out.push_str(space(style / 3));
                out.push('}');
            }
        }
    }

    /// The members that count, by name.
    pub(crate) fn by_name(members: &[(Spelled, Self)]) -> std::collections::BTreeMap<String, &Self> {
        members.iter().map(|(key, value)| (content(key), value)).collect()
    }

    /// The obvious definition of semantic equality, on trees.
    pub(crate) fn means_the_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Null, Self::Null) => true,
            (Self::Bool(a), Self::Bool(b)) => a == b,
            (Self::Number(a), Self::Number(b)) => a.scaled() == b.scaled(),
            (Self::String(a), Self::String(b)) => content(a) == content(b),
            (Self::Array(a, _), Self::Array(b, _)) => {
                a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.means_the_same_as(b))
            }
            (Self::Object(a, _), Self::Object(b, _)) => {
                let (a, b) = (Self::by_name(a), Self::by_name(b));
                a.len() == b.len()
                    && a.iter().all(|(name, a)| b.get(name).is_some_and(|b| a.means_the_same_as(b)))
            }
            _ => false,
        }
    }

    /// The same value written differently: escapes, spellings, white space, member order, duplicates.
    pub(crate) fn restyled(&self, style: u8) -> Self {
        let next = style.wrapping_mul(31).wrapping_add(17);
        let respell = |spelled: &Spelled| spelled.iter().map(|(c, e)| (*c, *e ^ (style & 1 == 0))).collect();
        match self {
            Self::Null | Self::Bool(_) => self.clone(),
            Self::Number(number) => {
                let negative = number.negative ^ (number.coefficient == 0);
                Self::Number(Decimal { spelling: style, negative, ..*number })
            }
            Self::String(spelled) => Self::String(respell(spelled)),
            Self::Array(elements, _) => {
                Self::Array(elements.iter().map(|element| element.restyled(next)).collect(), style)
            }
            Self::Object(members, _) => {
                let mut unique: Vec<(Spelled, Self)> = Vec::new();
                for (key, value) in members {
                    unique.retain(|(other, _)| content(other) != content(key));
                    unique.push((respell(key), value.restyled(next)));
                }
                let turn = usize::from(style) % unique.len().max(1);
                unique.rotate_left(turn);
                if let Some((key, _)) = unique.last()
                    && style & 2 == 0
                {
                    unique.insert(0, (key.clone(), Self::Null));
                }
                Self::Object(unique, style)
            }
        }
    }
}

/// Few names and few characters, so that equal members, duplicates and near misses are common.
fn spelled() -> impl Strategy<Value = Spelled> {
    let character = prop_oneof![
        6 => prop::sample::select(vec!['a', 'b']),
        1 => prop::sample::select(vec!['"', '\\', '/', '\n', '\0', ' ', ':', ',', '{', ']', 'é', '猫', '😀', '\u{7f}']),
    ];
    prop::collection::vec((character, any::<bool>()), 0..3)
}

fn decimal() -> impl Strategy<Value = Decimal> {
    let coefficient = prop_oneof![Just(0), Just(1), Just(10), Just(100), 0..200_u16, any::<u16>()];
    (any::<bool>(), coefficient, -3..=3_i32, any::<u8>()).prop_map(
        |(negative, coefficient, exponent, spelling)| Decimal { negative, coefficient, exponent, spelling },
    )
}

pub(crate) fn doc() -> impl Strategy<Value = Doc> {
    let leaf = prop_oneof![
        Just(Doc::Null),
        any::<bool>().prop_map(Doc::Bool),
        decimal().prop_map(Doc::Number),
        spelled().prop_map(Doc::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            (prop::collection::vec(inner.clone(), 0..4), any::<u8>()).prop_map(|(e, s)| Doc::Array(e, s)),
            object(inner),
        ]
    })
}

fn object(inner: impl Strategy<Value = Doc>) -> impl Strategy<Value = Doc> {
    (prop::collection::vec((spelled(), inner), 0..5), any::<u8>()).prop_map(|(m, s)| Doc::Object(m, s))
}

pub(crate) fn object_doc() -> impl Strategy<Value = Doc> {
    object(doc())
}

pub(crate) fn array_doc() -> impl Strategy<Value = Vec<Doc>> {
    prop::collection::vec(doc(), 0..6)
}
