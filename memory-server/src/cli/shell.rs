//! `memory shell`: command lines without the word `memory`, one after another, on a store that stays open.

use std::sync::Arc;
use std::time::Duration;

use memory::Access;
use memory::conversations::list_entries;
use memory_core::ListQuery;

use super::command::{Cli, ShellArgs, dispatch};
use super::complete::complete;
use super::parse;
use super::words::words;
use crate::terminal::{
    Context, Ended, Exit, Failure, History, Language, Line, Lines, Out, Read, Signal, Signals, ended,
    is_person, not_utf8, note, observed, printable, scope_name,
};

/// How long completion waits for the store.
const COMPLETING: Duration = Duration::from_secs(2);
/// Most keys that completion offers.
const MOST: usize = 50;
/// Longest line in bytes, including continuations of an open quote.
const MAX_BYTES: usize = 16 << 20;

struct Shell {
    context: Context,
    command: clap::Command,
    person: bool,
    keeps_history: bool,
}

/// What follows a line.
enum Next {
    /// The next one.
    Line(Exit),
    Stop(Exit),
}

/// Reads and runs lines until the end. A person's shell always exits successfully; otherwise the first line that fails
/// decides.
pub(super) async fn run(context: &Context, args: &ShellArgs) -> Result<Exit, Failure> {
    let shell = Shell {
        context: context.of_lines(),
        command: parse::of_lines(),
        person: is_person(),
        keeps_history: !args.no_history,
    };
    // So that a wrong setting is reported once, not for each line.
    let settings = shell.context.settings()?;
    let scope = scope_name(&settings.scope);
    if !shell.person {
        return shell.read(Lines::piped()?, "").await;
    }
    if !context.is_quiet() {
        note(&format!(
            "{}, {scope}: type a command, as `set greeting --text hello`; `help` lists them, Tab completes, Ctrl-D ends",
            settings.shown_url()?
        ));
    }
    let history = if shell.keeps_history { History::open("shell_history") } else { None };
    let typed = Typed {
        context: shell.context.clone(),
        command: shell.command.clone(),
        runtime: tokio::runtime::Handle::current(),
    };
    let prompt = format!("memory {}> ", printable(&scope, ""));
    shell.read(Lines::typed(typed, history)?, &prompt).await
}

impl Shell {
    async fn read(&self, mut lines: Lines, prompt: &str) -> Result<Exit, Failure> {
        let (mut signals, mut text, mut first) = (Signals::listen()?, String::new(), Exit::Ok);
        // The first line of `text` that is not UTF-8.
        let mut foreign = None;
        loop {
            let line = tokio::select! {
                line = lines.next(prompt) => line?,
                () = asked(&mut signals, self.person) => {
                    lines.abandon();
                    return Ok(Exit::Interrupted);
                }
            };
            match line {
                Read::Line(line) => text.push_str(&line),
                Read::NotUtf8(number, line) => {
                    foreign.get_or_insert(number);
                    text.push_str(&line);
                }
                Read::Interrupted => continue,
                Read::End => break,
            }
            if text.len() > MAX_BYTES {
                return Err(memory_core::Error::too_large("line", text.len(), MAX_BYTES, "bytes").into());
            }
            // A line with an open quote continues.
            let Some(words) = words(text.trim_end_matches(['\r', '\n'])) else { continue };
            text.clear();
            if let Some(number) = foreign.take() {
                let mut out = Out::standard(self.context.global().json);
                let exit = ended("memory", &mut out, Err(not_utf8(number))).unwrap_or(Exit::Ok);
                first = if first == Exit::Ok { exit } else { first };
                continue;
            }
            match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
                [] => continue,
                ["exit" | "quit"] => break,
                _ => {}
            }
            match self.line(words).await {
                Next::Line(exit) if first == Exit::Ok => first = exit,
                Next::Line(_) => {}
                Next::Stop(exit) => return Ok(exit),
            }
        }
        if self.person {
            return Ok(Exit::Ok);
        }
        if !text.is_empty() {
            return Err(Failure::invalid(
                "a quote is open at the end of the input, so its last line was not run",
            ));
        }
        Ok(first)
    }

    async fn line(&self, words: Vec<String>) -> Next {
        let Cli { global, command } = match parse::line(&self.command, &words, self.context.global()) {
            Ok(cli) => cli,
            Err(exit) => return Next::Line(exit),
        };
        let (json, mut out) = (global.json, Out::standard(global.json));
        let line = Arc::new(Line::new(words, self.keeps_history));
        let context = self.context.of_line(global, line.clone());
        let done = if let Some(why) = command.refused_in_shell() {
            Ended::Done(Err(Failure::invalid(format!("{why}; leave the shell, and type it at the terminal"))))
        } else {
            let interrupts_itself = self.person && command.reads_lines();
            let running = observed("memory", json, Box::pin(dispatch(&context, command, &mut out)));
            if interrupts_itself { Ended::Done(running.await) } else { line.until_interrupted(running).await }
        };
        match done {
            Ended::Done(result) => ended("memory", &mut out, result).map_or(Next::Stop(Exit::Ok), Next::Line),
            Ended::By(signal) => {
                note("memory: interrupted; what was acknowledged is stored");
                match signal {
                    Signal::Interrupt if self.person => Next::Line(Exit::Interrupted),
                    _ => Next::Stop(Exit::Interrupted),
                }
            }
        }
    }
}

/// Resolves when the shell should end. While a person types, Ctrl-C is a key and not a signal.
async fn asked(signals: &mut Signals, person: bool) {
    if person {
        signals.terminated().await;
    } else {
        signals.any().await;
    }
}

/// Lines typed by a person.
struct Typed {
    context: Context,
    command: clap::Command,
    runtime: tokio::runtime::Handle,
}

impl Language for Typed {
    fn complete(&self, text: &str) -> (usize, Vec<String>) {
        let found = |prefix: &str| {
            let keys = async { tokio::time::timeout(COMPLETING, keys(&self.context, prefix)).await };
            // Only a convenience: a command will report any error of the store.
            self.runtime.block_on(keys).ok().and_then(Result::ok).unwrap_or_default()
        };
        complete(&self.command, text, found)
    }

    fn is_unfinished(&self, text: &str) -> bool {
        words(text).is_none()
    }
}

/// Keys of the shell's scope.
async fn keys(context: &Context, prefix: &str) -> memory_core::Result<Vec<String>> {
    let opened = context.open(Access::Read).await?;
    let query = ListQuery::prefix(prefix).with_limit(MOST);
    let page = list_entries(opened.backend("list")?, opened.scope(), query).await?;
    Ok(page.entries.into_iter().map(|entry| entry.key.to_string()).collect())
}
