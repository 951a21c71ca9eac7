//! Segments as bytes.
//!
//! All numbers are little-endian: the format, the [`ANALYZER_VERSION`], and how many there are of documents, expiries, terms,
//! and bytes of keys, terms and postings, 32 bits each; of all documents the ends of their keys (32 bits each), then their
//! lengths (32), of all terms the ends (32), then the ends of their postings (32); of all documents the versions (64); for each
//! expiry the time (64) and the document (32); keys, terms, postings; and a checksum of all that (64).

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

    /// Reads what [`encode`](Self::encode) gave. `None`: the bytes are damaged, or from another version of the format or of the
    /// analyzer.
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

/// Notices accidents, not forgeries: a change of one word always, of several all but certainly. It takes a nanosecond or two a
/// word, so that checking five megabytes does not delay a search.
pub(in crate::lexical) fn checksum(bytes: &[u8]) -> u64 {
    const ODD: u64 = 0x9e37_79b1_85eb_ca87;
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(ODD);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let sum = rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
    sum ^ sum >> 32
}
