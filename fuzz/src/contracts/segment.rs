//! A stored run of the text index: what comes back is what was stored, and what somebody wrote into it may be refused or be
//! found wrongly, but never stops the program.
//!
//! The input is documents, one in a line: `KEY TEXT`. A line `=AT NUMBER` overwrites the 32 bits at that place of the stored
//! bytes, whose checksum is then made right again.

use std::sync::Arc;

use memory_core::lexical::{Segment, SegmentedIndex};

const MAX_LINES: usize = 200;

/// Tries one run.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (mut index, mut changes) = (SegmentedIndex::new(), Vec::new());
    for (line, version) in text.lines().take(MAX_LINES).zip(1..) {
        let (word, rest) = line.split_once(' ').unwrap_or((line, ""));
        match word.strip_prefix('=') {
            Some(at) => changes.push((at.parse().unwrap_or(0), rest.parse().unwrap_or(u32::MAX))),
            None => index.insert(word.into(), version, rest, (version % 5 == 0).then_some(version.cast_signed())),
        }
    }
    for segment in index.arranged() {
        let bytes = segment.encode();
        assert_eq!(Segment::decode(&bytes).as_ref(), Some(&*segment), "stored and read");
        if let Some(forged) = Segment::decode(&forged(bytes, &changes)) {
            use_it(forged, &text);
        }
    }
    if let Some(foreign) = Segment::decode(data) {
        use_it(foreign, "tea");
    }
}

/// The bytes with what somebody wrote into them, and the checksum of that.
fn forged(mut bytes: Vec<u8>, changes: &[(usize, u32)]) -> Vec<u8> {
    bytes.truncate(bytes.len() - 8);
    for (at, number) in changes {
        if let Some(place) = bytes.get_mut(*at..at.saturating_add(4)) {
            place.copy_from_slice(&number.to_le_bytes());
        }
    }
    let sum = checksum(&bytes);
    bytes.extend(sum.to_le_bytes());
    bytes
}

fn checksum(bytes: &[u8]) -> u64 {
    let mix = |sum: u64, word: u64| (sum.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b1_85eb_ca87);
    let (words, rest) = bytes.as_chunks::<8>();
    let sum = words.iter().fold(bytes.len() as u64, |sum, word| mix(sum, u64::from_le_bytes(*word)));
    let sum = rest.iter().fold(sum, |sum, byte| mix(sum, u64::from(*byte)));
    sum ^ sum >> 32
}

fn use_it(segment: Segment, query: &str) {
    let keys: Vec<String> = [segment.first(), segment.last()].into_iter().flatten().map(str::to_owned).collect();
    let known: Vec<&str> = keys.iter().map(String::as_str).collect();
    let mut index = SegmentedIndex::new();
    index.add(Arc::new(segment));
    let (hits, scores) = index.search_and_score(query, |_| true, 10, &known);
    assert!(hits.len() <= 10 && scores.len() == known.len());
    let mut comparison = index.compare();
    let _ = known.iter().map(|key| comparison.knows(key, 1)).count();
    comparison.end(&mut index);
    index.expire(3);
    known.iter().for_each(|key| index.remove(key));
    let arranged = index.arranged();
    index.rearrange(&arranged);
    index.search_and_score(query, |_| true, 10, &[]);
}
