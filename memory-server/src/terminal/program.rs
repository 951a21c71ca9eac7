//! Runs a program, from its parsed command line to its exit code.

use std::time::Duration;

use super::context::Context;
use super::failure::{Exit, Failure};
use super::log;
use super::output::{Out, complain, note};
use super::settings::Global;

/// How long a program's end waits for stores to write their access counts. Everything else is already stored.
pub(crate) const CLOSING: Duration = Duration::from_secs(30);

/// Sent when a file grows beyond the process's limit.
#[cfg(any(target_os = "linux", target_os = "macos"))]
const SIGXFSZ: i32 = 25;

/// Runs one command, and prints why if it fails. The runtime and the log start only here, since help and version need
/// neither.
pub fn run(
    program: &str,
    global: Global,
    command: impl AsyncFnOnce(&Context, &mut Out) -> Result<Exit, Failure>,
) -> Exit {
    let json = global.json;
    if let Err(why) = log::start() {
        note(&format!("{program}: {why}"));
    }
    let mut out = Out::standard(json);
    let context = Context::new(global);
    let result = match tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build() {
        Ok(runtime) => {
            // With `ulimit -f`, a write beyond the limit should fail as on a full disk rather than end the process.
            #[cfg(any(target_os = "linux", target_os = "macos"))]
            drop(runtime.block_on(async {
                tokio::signal::unix::signal(tokio::signal::unix::SignalKind::from_raw(SIGXFSZ))
            }));
            let command = Box::pin(command(&context, &mut out));
            let result = runtime.block_on(observed(program, json, command));
            runtime.block_on(close(program, &context));
            result
        }
        Err(error) => Err(Failure::File("the runtime cannot be started".to_owned(), error)),
    };
    let exit = ended(program, &mut out, result);
    // The runtime has ended, and with it the last user of any store.
    if !memory::sqlite::wait_until_closed(CLOSING) {
        note(&format!(
            "{program}: the store did not close within {} s; nothing that was acknowledged is lost",
            CLOSING.as_secs()
        ));
    }
    #[cfg(feature = "otel")]
    super::traces::end();
    exit.unwrap_or(Exit::Ok)
}

/// Runs a command, and reports if a fallback answered.
pub(crate) async fn observed(
    program: &str,
    json: bool,
    command: impl Future<Output = Result<Exit, Failure>>,
) -> Result<Exit, Failure> {
    let (result, who) = memory::fallback::observe(command).await;
    if let Some(who) = who
        && !json
    {
        note(&format!(
            "{program}: the store could not be reached, so its fallback `{who}` answered: its contents may differ"
        ));
    }
    result
}

/// Writes what is buffered, and why the command failed if it did. `None` if nobody reads the output any more.
pub(crate) fn ended(program: &str, out: &mut Out, result: Result<Exit, Failure>) -> Option<Exit> {
    match result.and_then(|exit| out.flush().map(|()| exit)) {
        Ok(exit) => Some(exit),
        Err(failure) if failure.is_broken_pipe() => None,
        Err(failure) => {
            // What was printed before the failure is still useful; a second failure adds nothing.
            let _ = out.flush();
            match out.is_json() {
                true => complain(&failure.to_json()),
                false => note(&format!("{program}: {failure}")),
            }
            Some(failure.exit())
        }
    }
}

/// Closes what the command opened, since a store may hold access counts.
async fn close(program: &str, context: &Context) {
    // A slower one is awaited later, or reported as lost, together with what was dropped.
    if let Ok(Err(error)) = tokio::time::timeout(CLOSING, context.close()).await {
        note(&format!("{program}: access counts were not stored: {error}"));
    }
}

/// Prints the parser's output. Help and version go to standard output and are not failures.
#[must_use]
pub fn end_of_parsing(error: &clap::Error, json: bool) -> Exit {
    if !error.use_stderr() {
        let _ = error.print();
        return Exit::Ok;
    }
    if json {
        let text = error.render().to_string();
        misuse(text.trim(), json)
    } else {
        let _ = error.print();
        Exit::Usage
    }
}

/// Prints one line about a wrong command line.
#[must_use]
pub fn misuse(why: &str, json: bool) -> Exit {
    let why = why.strip_prefix("error: ").unwrap_or(why);
    note(&if json { Failure::invalid(why.to_owned()).to_json() } else { format!("error: {why}") });
    Exit::Usage
}

/// Whether the command line of the process, which could not be parsed, asks for JSON.
#[must_use]
pub fn wants_json() -> bool {
    std::env::args_os().any(|argument| argument == "--json")
}
