//! Segments as bytes.
//!
//! All numbers are little-endian, of 32 bits unless stated otherwise. In order: the format; the [`ANALYZER_VERSION`];
//! the numbers of documents, expiries and terms, and of bytes of keys, terms and postings; the end of each document's
//! key, then each document's length; the end of each term, then of its postings; each document's version (64 bits);
//! each expiry as time (64 bits) and document; keys, terms, postings; and a checksum of everything before it (64 bits).

use super::{Segment, number, place};
use crate::lexical::tokenizer::ANALYZER_VERSION;

const FORMAT: u32 = 1;

impl Segment {
    /// The bytes to store.
    #[must_use]
    pub fn encode(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.heap_bytes() + 64);
        let counts = [
            FORMAT,
            ANALYZER_VERSION,
            number(self.len()),
            number(self.expiries.len()),
            number(self.term_ends.len()),
            number(self.keys.len()),
            number(self.terms.len()),
            number(self.postings.len()),
        ];
        let mut put = |numbers: &[u32]| numbers.iter().for_each(|number| bytes.extend(number.to_le_bytes()));
        put(&counts);
        put(&self.key_ends);
        put(&self.lengths);
        put(&self.term_ends);
        put(&self.posting_ends);
        self.versions.iter().for_each(|version| bytes.extend(version.to_le_bytes()));
        for (at, document) in &self.expiries {
            bytes.extend(at.to_le_bytes());
            bytes.extend(document.to_le_bytes());
        }
        bytes.extend_from_slice(self.keys.as_bytes());
        bytes.extend_from_slice(self.terms.as_bytes());
        bytes.extend_from_slice(&self.postings);
        bytes.extend(checksum(&bytes).to_le_bytes());
        bytes
    }

    /// Reads what [`encode`](Self::encode) wrote. `None` if the bytes are damaged, or come from another version of the
    /// format or the analyzer.
    #[must_use]
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let (bytes, sum) = bytes.split_last_chunk::<8>()?;
        if checksum(bytes) != u64::from_le_bytes(*sum) {
            return None;
        }
        let mut reader = Reader(bytes);
        let [format, analyzer, documents, expiries, terms, key_bytes, term_bytes, posting_bytes] =
            reader.numbers(8)?.try_into().ok()?;
        if (format, analyzer) != (FORMAT, ANALYZER_VERSION) {
            return None;
        }
        let [documents, expiries, terms] = [documents, expiries, terms].map(place);
        let (key_ends, lengths) = (reader.numbers(documents)?, reader.numbers(documents)?);
        let (term_ends, posting_ends) = (reader.numbers(terms)?, reader.numbers(terms)?);
        let versions = reader.take(documents.checked_mul(8)?)?.as_chunks::<8>().0;
        let versions = versions.iter().map(|version| u64::from_le_bytes(*version)).collect();
        let times = reader.take(expiries.checked_mul(12)?)?.as_chunks::<12>().0;
        let expiries = times.iter().filter_map(|bytes| {
            let (at, document) = bytes.split_first_chunk::<8>()?;
            Some((i64::from_le_bytes(*at), u32::from_le_bytes(document.try_into().ok()?)))
        });
        let expiries = expiries.collect();
        let keys = String::from_utf8(reader.take(place(key_bytes))?.to_vec()).ok()?;
        let terms = String::from_utf8(reader.take(place(term_bytes))?.to_vec()).ok()?;
        let postings = reader.take(place(posting_bytes))?.to_vec();
        let segment =
            Self { keys, key_ends, versions, lengths, expiries, terms, term_ends, postings, posting_ends };
        reader.0.is_empty().then_some(segment)
    }
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, bytes: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(bytes)?;
        self.0 = rest;
        Some(taken)
    }

    fn numbers(&mut self, count: usize) -> Option<Vec<u32>> {
        let bytes = self.take(count.checked_mul(4)?)?;
        Some(bytes.as_chunks::<4>().0.iter().map(|number| u32::from_le_bytes(*number)).collect())
    }
}

/// Detects accidents, not forgeries: always if a single word changed, almost certainly if several did. At a nanosecond
/// or two per word, checking five megabytes does not delay a search.
pub(in crate::lexical) fn checksum(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b1_85eb_ca87;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let sum = rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
    sum ^ sum >> 32
}
