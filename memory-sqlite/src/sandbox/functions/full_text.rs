//! `highlight` and `snippet`, with the same results as FTS5's.
//!
//! FTS5's own measure the whole text again for each piece they append, and compare every instance of a phrase with
//! every other: a row of a few hundred kilobytes takes hours within one instruction. These append, look only at the
//! instances within a window, and check the clock.

use super::call::{Call, Outcome};
use super::fts5::{Auxiliary, Code, Instance, Match};
use crate::sandbox::limits::heap;

pub(super) const FUNCTIONS: &[Auxiliary] =
    &[Auxiliary { name: "highlight", run: highlight }, Auxiliary { name: "snippet", run: snippet }];

type Answer<T> = Result<T, Code>;

/// Longest snippet, in tokens.
const MOST_TOKENS: i64 = 64;
/// Steps between two clock checks.
const CHECK_EVERY: u32 = 4_096;
/// Bonus of a window that begins at a sentence, and at the text's beginning.
const SENTENCE: i64 = 100;
const BEGINNING: i64 = 120;
/// Score of the first instance of a phrase in a window, and of each further one.
const FIRST: i64 = 1_000;
const AGAIN: i64 = 1;

/// Counts steps, and ends whatever takes too long.
#[derive(Default)]
struct Steps(u32);

impl Steps {
    fn step(&mut self) -> Answer<()> {
        self.0 = self.0.wrapping_add(1);
        if self.0.is_multiple_of(CHECK_EVERY) && heap::must_end() { Err(Code::ENDED) } else { Ok(()) }
    }
}

/// The instances in a column, in order, with overlapping ones merged.
struct Runs<'r, 'a> {
    row: &'r Match<'a>,
    column: usize,
    next: usize,
    count: usize,
    /// First and last token of the current run; `None` past the end.
    here: Option<(i64, i64)>,
}

impl<'r, 'a> Runs<'r, 'a> {
    fn begin(row: &'r Match<'a>, column: usize) -> Answer<Self> {
        let mut runs = Self { row, column, next: 0, count: row.instances()?, here: None };
        runs.advance()?;
        Ok(runs)
    }

    fn advance(&mut self) -> Answer<()> {
        self.here = None;
        while self.next < self.count {
            let Instance { phrase, column, at } = self.row.instance(self.next)?;
            if column == self.column {
                let end = at - 1 + self.row.phrase_size(phrase)?;
                match &mut self.here {
                    None => self.here = Some((at, end)),
                    Some((_, last)) if at <= *last => *last = end.max(*last),
                    Some(_) => break,
                }
            }
            self.next += 1;
        }
        Ok(())
    }
}

/// Text with markers around the matches.
struct Marked<'m> {
    open: &'m [u8],
    close: &'m [u8],
    text: &'m [u8],
    out: Vec<u8>,
    longest: usize,
    /// Number of bytes of the text written so far.
    written: usize,
    is_open: bool,
    /// Number of the next token.
    token: i64,
    /// Write only tokens in this range, inclusive.
    range: Option<(i64, i64)>,
}

impl<'m> Marked<'m> {
    fn new(open: &'m [u8], close: &'m [u8], text: &'m [u8], longest: usize) -> Self {
        let (out, range) = (Vec::new(), None);
        Self { open, close, text, out, longest, written: 0, is_open: false, token: 0, range }
    }

    fn add(&mut self, bytes: &[u8]) -> Answer<()> {
        if self.out.len().saturating_add(bytes.len()) > self.longest {
            return Err(Code::TOO_BIG);
        }
        self.out.extend_from_slice(bytes);
        Ok(())
    }

    /// Writes the text up to an offset.
    fn copy(&mut self, to: usize) -> Answer<()> {
        let text = self.text;
        self.add(text.get(self.written..to).unwrap_or_default())?;
        self.written = to.max(self.written);
        Ok(())
    }

    fn open(&mut self) -> Answer<()> {
        self.is_open = true;
        self.add(self.open)
    }

    fn close(&mut self) -> Answer<()> {
        self.is_open = false;
        self.add(self.close)
    }

    /// Handles the next token, given its offsets.
    fn token(&mut self, begin: usize, end: usize, runs: &mut Runs<'_, '_>) -> Answer<()> {
        let at = self.token;
        self.token += 1;
        if let Some((first, last)) = self.range {
            if at < first || at > last {
                return Ok(());
            }
            if first > 0 && at == first {
                self.written = begin;
            }
        }
        let starts = runs.here.map(|(first, _)| first);
        if self.is_open && starts.is_none_or(|first| at <= first) && begin > self.written {
            self.close()?;
        }
        if starts == Some(at) && !self.is_open {
            self.copy(begin)?;
            self.open()?;
        }
        if runs.here.is_some_and(|(_, last)| last == at) {
            if !self.is_open {
                self.open()?;
            }
            self.copy(end)?;
            runs.advance()?;
        }
        if self.range.is_some_and(|(_, last)| last == at) {
            if self.is_open {
                if runs.here.is_some_and(|(first, _)| at >= first) {
                    self.copy(end)?;
                }
                self.close()?;
            }
            self.copy(end)?;
        }
        Ok(())
    }

    /// Writes a column's tokens, without the text after the last one.
    fn column(&mut self, row: &Match<'_>, column: usize, mut runs: Runs<'_, '_>) -> Answer<()> {
        let mut steps = Steps::default();
        row.tokens(column, self.text, |begin, end| {
            steps.step()?;
            self.token(begin, end, &mut runs)
        })?;
        if self.is_open { self.close() } else { Ok(()) }
    }

    fn rest(&mut self) -> Answer<()> {
        self.copy(self.text.len())
    }
}

/// The argument that names a column; -1 means any.
fn column(call: &Call<'_>) -> Option<usize> {
    usize::try_from(call.integer(0)).ok()
}

/// `highlight(table, column, open, close)`.
fn highlight(row: &Match<'_>, call: &Call<'_>) -> Answer<Outcome> {
    if call.len() != 3 {
        return Ok(Outcome::Error("wrong number of arguments to function highlight()".to_owned()));
    }
    let (open, close) = (call.text(1).unwrap_or_default(), call.text(2).unwrap_or_default());
    let text = match column(call).map(|column| (column, row.text(column))) {
        None | Some((_, Err(Code::RANGE))) => return Ok(Outcome::Text(Vec::new())),
        Some((column, text)) => text?.map(|text| (column, text)),
    };
    let Some((column, text)) = text else { return Ok(Outcome::Null) };
    let mut marked = Marked::new(open, close, text, call.longest());
    marked.column(row, column, Runs::begin(row, column)?)?;
    marked.rest()?;
    Ok(Outcome::Text(marked.out))
}

/// The best window of a row so far.
struct Best {
    column: usize,
    begins: i64,
    score: i64,
    /// Tokens of its column.
    size: Option<i64>,
}

/// A window's score, and where it would start if its matches were centred.
struct Scored {
    score: i64,
    centred: i64,
}

/// State shared by all windows.
struct Scorer<'r, 'a> {
    row: &'r Match<'a>,
    instances: usize,
    /// For each phrase, the last window that contained it.
    seen: Vec<u32>,
    window: u32,
    tokens: i64,
    steps: Steps,
}

impl Scorer<'_, '_> {
    /// Scores the window that begins at a token; `from` is the first instance at or after it.
    fn score(&mut self, column: usize, begins: i64, from: usize, size: i64) -> Answer<Scored> {
        self.window += 1;
        let (mut score, mut first, mut last) = (0, None, 0);
        for at in from..self.instances {
            self.steps.step()?;
            let found = self.row.instance(at)?;
            if found.column != column || found.at >= begins + self.tokens {
                break;
            }
            let seen = self.seen.get_mut(found.phrase).ok_or(Code::CORRUPT)?;
            score += if *seen == self.window { AGAIN } else { FIRST };
            *seen = self.window;
            first.get_or_insert(found.at);
            last = found.at + self.row.phrase_size(found.phrase)?;
        }
        let first = first.unwrap_or(-1);
        let centred = first - (self.tokens - (last - first)) / 2;
        Ok(Scored { score, centred: centred.min(size - self.tokens).max(0) })
    }

    /// Tries a window at each instance of a column, and at the beginning of its sentence.
    fn column(&mut self, column: usize, from: usize, best: &mut Best) -> Answer<usize> {
        let text = self.row.text(column)?.unwrap_or_default();
        let sentences = sentences(self.row, column, text)?;
        let size = self.row.size(column)?;
        let (mut sentence, mut sentence_from) = (0, from);
        let (mut place, mut tried) = (None, None);
        let mut at = from;
        while at < self.instances {
            self.steps.step()?;
            let found = self.row.instance(at)?;
            if found.column != column {
                break;
            }
            if found.at > size {
                return Err(Code::CORRUPT);
            }
            at += 1;
            // The same window as before.
            if place.replace(found.at) == Some(found.at) {
                continue;
            }
            let scored = self.score(column, found.at, at - 1, size)?;
            best.offer(scored.score, column, scored.centred, size);
            if size <= self.tokens {
                continue;
            }
            while sentences.get(sentence + 1).is_some_and(|next| *next <= found.at) {
                sentence += 1;
            }
            let Some(begins) = sentences.get(sentence).copied().filter(|begins| *begins < found.at) else {
                continue;
            };
            if tried.replace(begins) == Some(begins) {
                continue;
            }
            while sentence_from < at && self.row.instance(sentence_from)?.at < begins {
                self.steps.step()?;
                sentence_from += 1;
            }
            let scored = self.score(column, begins, sentence_from, size)?;
            best.offer(scored.score + if begins == 0 { BEGINNING } else { SENTENCE }, column, begins, size);
        }
        Ok(at)
    }
}

impl Best {
    fn offer(&mut self, score: i64, column: usize, begins: i64, size: i64) {
        if score > self.score {
            *self = Self { column, begins, score, size: Some(size) };
        }
    }
}

/// The first token of each sentence.
fn sentences(row: &Match<'_>, column: usize, text: &[u8]) -> Answer<Vec<i64>> {
    let (mut firsts, mut token, mut steps) = (Vec::new(), 0, Steps::default());
    // How far the text between tokens was read; each byte is read once.
    let (mut read, mut before) = (0, (0_u8, false));
    row.tokens(column, text, |begin, _| {
        steps.step()?;
        for byte in text.get(read..begin).unwrap_or_default() {
            before = match byte {
                b' ' | b'\t' | b'\n' | b'\r' => (before.0, true),
                other => (*other, false),
            };
        }
        read = read.max(begin);
        if token == 0 || (before.1 && matches!(before.0, b'.' | b':')) {
            firsts.push(token);
        }
        token += 1;
        Ok(())
    })?;
    Ok(firsts)
}

/// `snippet(table, column, open, close, ellipsis, tokens)`.
fn snippet(row: &Match<'_>, call: &Call<'_>) -> Answer<Outcome> {
    if call.len() != 5 {
        return Ok(Outcome::Error("wrong number of arguments to function snippet()".to_owned()));
    }
    let text = |at| call.text(at).unwrap_or_default();
    let (open, close, ellipsis) = (text(1), text(2), text(3));
    let tokens = call.integer(4).clamp(0, MOST_TOKENS);
    let wanted = column(call);
    let mut best = Best { column: wanted.unwrap_or(0), begins: 0, score: 0, size: None };
    let (instances, phrases) = (row.instances()?, row.phrases()?);
    let (seen, steps) = (vec![0; phrases], Steps::default());
    let mut scorer = Scorer { row, instances, seen, window: 0, tokens, steps };
    let mut from = 0;
    for column in 0..row.columns()? {
        while from < instances && row.instance(from)?.column < column {
            scorer.steps.step()?;
            from += 1;
        }
        if wanted.is_none_or(|wanted| wanted == column) {
            from = scorer.column(column, from, &mut best)?;
        }
    }
    let Some(text) = row.text(best.column)? else { return Ok(Outcome::Null) };
    let size = match best.size.filter(|size| *size > 0) {
        Some(size) => size,
        None => row.size(best.column)?,
    };
    let mut runs = Runs::begin(row, best.column)?;
    while runs.here.is_some_and(|(first, _)| first < best.begins) {
        scorer.steps.step()?;
        runs.advance()?;
    }
    let mut marked = Marked::new(open, close, text, call.longest());
    let last = best.begins + tokens - 1;
    // Like FTS5: a count of no tokens at the beginning of a text means all of them.
    marked.range = (last >= 0).then_some((best.begins, last));
    if best.begins > 0 {
        marked.add(ellipsis)?;
    }
    marked.column(row, best.column, runs)?;
    if last >= size - 1 {
        marked.rest()?;
    } else {
        marked.add(ellipsis)?;
    }
    Ok(Outcome::Text(marked.out))
}
