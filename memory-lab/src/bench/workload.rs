//! Keys, values and operations, the same on both sides.

/// Length of every value, in bytes of JSON text.
pub(super) const VALUE_BYTES: usize = 200;
/// Keys that share a prefix, which is also the length of a listing.
pub(super) const GROUP: usize = 100;
/// Entries of a bulk insert.
pub(super) const BATCH: usize = 1_000;
/// Values are drawn from a pool of this many.
const POOL: u64 = 1_024;

/// What one operation of a row is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Read one entry.
    Get,
    /// Read 100 entries from one snapshot.
    GetMany,
    /// List the 100 entries of a prefix.
    List,
    /// Add one to a counter.
    Increment,
    /// Overwrite one entry.
    Set,
    /// Write 1,000 new entries in one transaction.
    Bulk,
}

impl Work {
    /// Whether it writes only access counts.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Get | Self::GetMany | Self::List)
    }

    /// Entries that one call reads or writes.
    pub(super) fn entries(self) -> usize {
        match self {
            Self::Get | Self::Increment | Self::Set => 1,
            Self::GetMany | Self::List => GROUP,
            Self::Bulk => BATCH,
        }
    }
}

/// Keys and values, as text that a user holds.
pub(super) struct Workload {
    /// `user/000012/note/034`: 100 to a prefix.
    pub(super) keys: Vec<String>,
    /// `user/000012/`
    pub(super) prefixes: Vec<String>,
    /// Keys of counters.
    pub(super) counters: Vec<String>,
    /// JSON objects of sentences, 200 bytes each.
    pub(super) values: Vec<String>,
}

impl Workload {
    pub(super) fn new(keys: usize) -> Self {
        let groups = keys.div_ceil(GROUP);
        Self {
            keys: (0..groups * GROUP)
                .map(|n| format!("user/{:06}/note/{:03}", n / GROUP, n % GROUP))
                .collect(),
            prefixes: (0..groups).map(|n| format!("user/{n:06}/")).collect(),
            counters: (0..1_000).map(|n| format!("visits/{n:04}")).collect(),
            values: (0..POOL).map(value).collect(),
        }
    }
}

/// Words of one to four syllables. A few are frequent and most are rare, as in any language.
pub(crate) fn value(seed: u64) -> String {
    let mut random = Random::new(seed);
    let mut text = format!(r#"{{"id":{},"note":""#, 10_000 + seed);
    while text.len() < VALUE_BYTES - 2 {
        push_word(&mut text, &mut random);
        text.push(' ');
    }
    text.truncate(VALUE_BYTES - 2);
    text.push_str("\"}");
    text
}

/// Appends a word. Words with fewer syllables are more likely.
pub(super) fn push_word(text: &mut String, random: &mut Random) {
    const SYLLABLES: [&str; 16] = [
        "ka", "ro", "mi", "ten", "sol", "ba", "fi", "lor", "ne", "du", "pha", "gri", "vo", "zel", "ta", "um",
    ];
    let mut rank = random.below(64) * random.below(64);
    loop {
        text.push_str(SYLLABLES.get(rank % SYLLABLES.len()).copied().unwrap_or_default());
        rank /= SYLLABLES.len();
        if rank == 0 {
            break;
        }
    }
}

/// `SplitMix64` (Steele, Lea and Flood, OOPSLA 2014): the same sequence in every run.
#[derive(Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: usize) -> usize {
        usize::try_from((u128::from(self.next()) * (bound as u128)) >> 64).unwrap_or_default()
    }

    /// One of them at random; the empty text if there are none.
    pub(super) fn pick<'a>(&mut self, texts: &'a [String]) -> &'a str {
        texts.get(self.below(texts.len())).map_or("", String::as_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_json_of_exactly_the_length() {
        let workload = Workload::new(1_000);
        for value in &workload.values {
            assert_eq!(value.len(), VALUE_BYTES);
            serde_json::from_str::<serde_json::Value>(value).unwrap();
        }
        assert_ne!(workload.values[0], workload.values[1]);
    }

    #[test]
    fn every_prefix_has_a_full_group() {
        let workload = Workload::new(1_050);
        assert_eq!(workload.keys.len(), 1_100);
        for prefix in &workload.prefixes {
            assert_eq!(workload.keys.iter().filter(|key| key.starts_with(prefix)).count(), GROUP);
        }
    }
}
