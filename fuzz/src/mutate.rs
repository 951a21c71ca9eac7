//! Deterministic mutations of an input, for a toolchain without libFuzzer.

/// A deterministic sequence of random numbers (SplitMix64).
#[derive(Clone, Debug)]
pub struct Numbers(u64);

impl Numbers {
    /// The sequence for this seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `n`; 0 where `n` is.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.draw() % u64::try_from(n.max(1)).unwrap_or(u64::MAX)).unwrap_or(0)
    }
}

/// Common stumbling blocks of parsers.
const TOKENS: &[&[u8]] = &[
    b"\0",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"\n",
    b"\r\n",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"-",
    b"1e999",
    b"9223372036854775808",
    b"-9223372036854775809",
    b"null",
    b"true",
    b"\xEF\xBB\xBF",
    b"\xE2\x80\xA8",
    b"\xC3\xA9",
    b"\xF0\x9F\x98\x80",
    b"e\xCC\x81",
    b"\xFF",
    b"../",
    b"*",
    b"%",
    b"_",
    b" ",
    b"?",
    b"//",
    b"@",
    b"1970-01-01T00:00:00Z",
];

/// `seed` with one to eight changes, some of them parts of other seeds.
#[must_use]
pub fn mutated(seed: &[u8], others: &[Vec<u8>], numbers: &mut Numbers) -> Vec<u8> {
    let mut data = seed.to_vec();
    for _ in 0..=numbers.below(8) {
        let at = numbers.below(data.len() + 1);
        let until = at + numbers.below((data.len() - at + 1).min(32));
        match numbers.below(8) {
            0 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte ^= 1 << numbers.below(8);
                }
            }
            1 => {
                if let Some(byte) = data.get_mut(at) {
                    *byte = numbers.draw().to_le_bytes()[0];
                }
            }
            2 => data.insert(at, numbers.draw().to_le_bytes()[0]),
            3 => drop(data.drain(at..until)),
            4 => {
                let copied = data[at..until].repeat(1 + numbers.below(4));
                drop(data.splice(at..at, copied));
            }
            5 => drop(data.splice(at..at, TOKENS[numbers.below(TOKENS.len())].iter().copied())),
            6 => drop(data.splice(at..until, TOKENS[numbers.below(TOKENS.len())].iter().copied())),
            _ => {
                let Some(other) = others.get(numbers.below(others.len())) else { continue };
                let from = numbers.below(other.len() + 1);
                let to = from + numbers.below((other.len() - from + 1).min(64));
                drop(data.splice(at..until, other[from..to].iter().copied()));
            }
        }
    }
    data.truncate(16 << 10);
    data
}
