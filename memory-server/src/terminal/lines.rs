//! Lines of standard input, one at a time: typed by a person, with editing, history and completion, or from a pipe.

use std::io::{self, BufRead as _, IsTerminal as _, Read as _};
use std::sync::mpsc::{Receiver, Sender};

use memory_core::Error;
use rustyline::completion::Completer;
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::FileHistory;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Behavior, CompletionType, Config, Editor, Helper};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

use super::failure::Failure;
use super::history::{History, MAX_LINES, may_keep};

/// Longest line from a pipe, in bytes.
const MAX_LINE: u64 = 16 << 20;

/// What an editor needs to know about the language being typed. It is called on a separate thread.
pub(crate) trait Language: Send + 'static {
    /// Where the last word of a text starts, and its completions.
    fn complete(&self, text: &str) -> (usize, Vec<String>);

    /// Whether more lines belong to it.
    fn is_unfinished(&self, text: &str) -> bool;
}

/// What came.
#[derive(Debug)]
pub(crate) enum Read {
    /// A line, with its line end if it came from a pipe; from a person, all lines that belong together.
    Line(String),
    /// A line from a pipe that is not UTF-8: its number, from 1, and what it may have meant.
    NotUtf8(u64, String),
    /// Ctrl-C instead of a line.
    Interrupted,
    End,
}

/// The source of lines. They are read on a separate thread, so that a caller can stop waiting.
pub(crate) struct Lines {
    ask: Sender<String>,
    answers: UnboundedReceiver<Result<Read, Failure>>,
    #[cfg(unix)]
    before: Option<rustix::termios::Termios>,
}

/// Whether a person types.
pub(crate) fn is_person() -> bool {
    io::stdin().is_terminal()
}

impl Lines {
    /// From a person at a terminal.
    ///
    /// # Errors
    /// If the terminal cannot be used.
    pub(crate) fn typed(language: impl Language, history: Option<History>) -> Result<Self, Failure> {
        let failed =
            |error: ReadlineError| Failure::File("the terminal cannot be used".to_owned(), as_io(error));
        let config = Config::builder()
            .completion_type(CompletionType::List)
            .behavior(Behavior::PreferTerm)
            .history_ignore_space(true)
            .max_history_size(MAX_LINES)
            .map_err(failed)?
            .build();
        let kept = FileHistory::with_config(&config);
        let mut editor = Editor::with_history(config, kept).map_err(failed)?;
        editor.set_helper(Some(Typed(language)));
        if let Some(history) = &history {
            // A damaged history is replaced.
            let _ = editor.load_history(history.file());
        }
        Self::read_by(move |prompt| {
            let line = match editor.readline(prompt) {
                Ok(line) => line,
                Err(ReadlineError::Interrupted) => return Ok(Read::Interrupted),
                Err(ReadlineError::Eof) => return Ok(Read::End),
                Err(error) => return Err(unreadable(as_io(error))),
            };
            if may_keep(&line) && editor.add_history_entry(line.as_str()).unwrap_or(false) {
                // Saved after each line, because a signal may end the program. A full disk must not.
                if let Some(history) = &history {
                    let _ = editor.append_history(history.file());
                }
            }
            Ok(Read::Line(line))
        })
    }

    /// From a pipe or a file, without a prompt.
    ///
    /// # Errors
    /// If no thread can be started.
    pub(crate) fn piped() -> Result<Self, Failure> {
        let mut number = 0;
        Self::read_by(move |_| {
            number += 1;
            read_line(number)
        })
    }

    fn read_by(
        mut read: impl FnMut(&str) -> Result<Read, Failure> + Send + 'static,
    ) -> Result<Self, Failure> {
        let (ask, asked): (Sender<String>, Receiver<String>) = std::sync::mpsc::channel();
        let (answer, answers): (UnboundedSender<_>, _) = unbounded_channel();
        #[cfg(unix)]
        let before = rustix::termios::tcgetattr(io::stdin()).ok();
        std::thread::Builder::new()
            .name("lines".to_owned())
            .spawn(move || {
                while let Ok(prompt) = asked.recv() {
                    if answer.send(read(&prompt)).is_err() {
                        break;
                    }
                }
            })
            .map_err(unreadable)?;
        Ok(Self {
            ask,
            answers,
            #[cfg(unix)]
            before,
        })
    }

    /// The next line; a person sees the prompt. If the wait is abandoned, no other line may be read.
    ///
    /// # Errors
    /// If standard input cannot be read, or a line is too long.
    pub(crate) async fn next(&mut self, prompt: &str) -> Result<Read, Failure> {
        // If the thread has ended, there will be no answer.
        let _ = self.ask.send(prompt.to_owned());
        self.answers.recv().await.unwrap_or(Ok(Read::End))
    }

    /// Restores the terminal, even while a line is being typed.
    pub(crate) fn abandon(&self) {
        #[cfg(unix)]
        if let Some(before) = &self.before {
            let _ = rustix::termios::tcsetattr(io::stdin(), rustix::termios::OptionalActions::Now, before);
        }
    }
}

fn unreadable(error: io::Error) -> Failure {
    Failure::File("standard input cannot be read".to_owned(), error)
}

fn as_io(error: ReadlineError) -> io::Error {
    match error {
        ReadlineError::Io(error) => error,
        other => io::Error::other(other),
    }
}

fn read_line(number: u64) -> Result<Read, Failure> {
    let mut line = Vec::new();
    let read = io::stdin().lock().take(MAX_LINE).read_until(b'\n', &mut line).map_err(unreadable)?;
    if read as u64 == MAX_LINE && !line.ends_with(b"\n") {
        return Err(Error::too_large("line", read, read, "bytes").into());
    }
    if line.is_empty() {
        return Ok(Read::End);
    }
    // Some editors start UTF-8 files with it.
    if number == 1 && line.starts_with(b"\xef\xbb\xbf") {
        line.drain(..3);
    }
    Ok(match String::from_utf8(line) {
        Ok(line) => Read::Line(line),
        Err(error) => Read::NotUtf8(number, String::from_utf8_lossy(error.as_bytes()).into_owned()),
    })
}

/// The refusal of a line that is not UTF-8.
pub(crate) fn not_utf8(number: u64) -> Failure {
    Failure::invalid(format!(
        "line {number} of standard input is not UTF-8, so it was not run; convert the input to UTF-8, as with `iconv`"
    ))
}

/// A language, in the form that the editor needs.
struct Typed<L>(L);

impl<L: Language> Helper for Typed<L> {}
impl<L> Highlighter for Typed<L> {}

impl<L> Hinter for Typed<L> {
    type Hint = String;
}

impl<L: Language> Completer for Typed<L> {
    type Candidate = String;

    fn complete(
        &self,
        line: &str,
        position: usize,
        _: &rustyline::Context<'_>,
    ) -> rustyline::Result<(usize, Vec<String>)> {
        Ok(self.0.complete(line.get(..position).unwrap_or(line)))
    }
}

impl<L: Language> Validator for Typed<L> {
    fn validate(&self, typed: &mut ValidationContext<'_>) -> rustyline::Result<ValidationResult> {
        Ok(if self.0.is_unfinished(typed.input()) {
            ValidationResult::Incomplete
        } else {
            ValidationResult::Valid(None)
        })
    }
}
