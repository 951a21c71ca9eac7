//! The documents of a term: how many, then for each the distance from the previous one, doubled, plus one if a
//! frequency above 1 follows. Numbers have seven bits per byte, lowest first; the eighth bit says that more follow.

/// The documents that contain a term, with its frequency in each, in order.
#[derive(Clone, Copy, Debug)]
pub(in crate::lexical) struct Postings<'s> {
    documents: u32,
    bytes: &'s [u8],
    /// The document that comes next if the distance is 0.
    next: u32,
}

impl<'s> Postings<'s> {
    pub(super) fn new(mut bytes: &'s [u8]) -> Self {
        let documents = take(&mut bytes).unwrap_or(0);
        Self { documents, bytes, next: 0 }
    }

    /// How many documents there are.
    pub(in crate::lexical) fn documents(&self) -> u32 {
        self.documents
    }
}

impl Iterator for Postings<'_> {
    type Item = (u32, u16);

    #[inline]
    fn next(&mut self) -> Option<(u32, u16)> {
        let head = take(&mut self.bytes)?;
        let document = self.next.checked_add(head >> 1)?;
        self.next = document.checked_add(1)?;
        let frequency = if head & 1 == 0 { 1 } else { u16::try_from(take(&mut self.bytes)?).ok()? };
        Some((document, frequency))
    }
}

/// Appends a list.
pub(super) fn write(bytes: &mut Vec<u8>, postings: &[(u32, u16)]) {
    put(bytes, super::number(postings.len()));
    let mut next = 0;
    for (document, frequency) in postings {
        put(bytes, (document - next) << 1 | u32::from(*frequency != 1));
        if *frequency != 1 {
            put(bytes, u32::from(*frequency));
        }
        next = document + 1;
    }
}

fn put(bytes: &mut Vec<u8>, mut number: u32) {
    while number >= 0x80 {
        bytes.push((number & 0x7f) as u8 | 0x80);
        number >>= 7;
    }
    bytes.push((number & 0x7f) as u8);
}

#[inline]
fn take(bytes: &mut &[u8]) -> Option<u32> {
    let (mut number, mut shift) = (0_u32, 0);
    loop {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        number |= u32::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(number);
        }
        shift += 7;
    }
}
