//! Progress of long commands, on standard error: a bar on a terminal, plain lines elsewhere.

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

use super::{note, printable};

/// The interval between two plain lines.
const EVERY: Duration = Duration::from_secs(5);

/// Progress of one command.
pub struct Progress {
    bar: Option<ProgressBar>,
    plain: bool,
    last: Instant,
}

impl Progress {
    /// Shows nothing if `quiet`.
    pub fn new(quiet: bool) -> Self {
        let terminal = io::stderr().is_terminal();
        let bar = (terminal && !quiet).then(|| {
            let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr());
            // Without a length, there is no fraction to draw.
            set_style(&bar, "{spinner} {wide_msg}");
            bar
        });
        Self { bar, plain: !terminal && !quiet, last: Instant::now() }
    }

    /// Sets the total.
    pub fn set_length(&self, length: u64) {
        if let Some(bar) = &self.bar {
            set_style(bar, "{wide_bar} {percent:>3}%  {msg}");
            bar.set_length(length);
        }
    }

    /// Sets the position and a description.
    pub fn update(&mut self, position: u64, words: impl FnOnce() -> String) {
        if let Some(bar) = &self.bar {
            bar.set_position(position);
            bar.set_message(printable(&words(), "").into_owned());
        } else if self.plain && self.last.elapsed() >= EVERY {
            self.last = Instant::now();
            note(&words());
        }
    }

    /// Prints a line above the progress bar.
    pub fn note(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.suspend(|| note(text)),
            None if self.plain => note(text),
            None => {}
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

fn set_style(bar: &ProgressBar, template: &str) {
    if let Ok(style) = ProgressStyle::with_template(template) {
        bar.set_style(style);
    }
}

/// Bytes read so far, shared with the progress bar.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counter(Arc<AtomicU64>);

impl Counter {
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Counts what is read from `inner`.
    pub(crate) fn count<R>(&self, inner: R) -> Counted<R> {
        Counted { inner, counter: self.clone() }
    }
}

/// A reader whose bytes are counted.
pub(crate) struct Counted<R> {
    inner: R,
    counter: Counter,
}

impl<R: io::Read> io::Read for Counted<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.counter.0.fetch_add(read as u64, Ordering::Relaxed);
        Ok(read)
    }
}
