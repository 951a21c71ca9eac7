//! `memory serve`: the Memory tool for any MCP client, over standard input and output. HTTP is in another module.
//!
//! Standard output carries only protocol messages; text for people goes to standard error. For users: `docs/mcp.md`.

mod client_config;
mod extract;
mod gc;
mod handler;
mod identity;
mod options;
mod progress;
mod resources;
mod sessions;
pub(crate) mod wire;
mod workers;

use std::io::{self, IsTerminal as _};
use std::sync::Arc;
use std::time::Duration;

use memory::system::RandomIds;
use memory_core::Error;
use rmcp::ServiceExt as _;
use rmcp::service::ServerInitializeError;
use tokio::sync::watch;

use crate::terminal::{Context, Exit, Failure, Global, Out, note, signal};

use wire::frame::MAX_ENVELOPE_BYTES;
use wire::transport::{FLUSH, Lines};

pub(crate) use client_config::over_http;
pub(crate) use gc::Sweeps;
pub(crate) use handler::MemoryServer;
pub(crate) use identity::{offered, schedule};
pub(crate) use options::{Client, OfferArgs, ServeArgs};
pub(crate) use sessions::{Identity, Sessions};
pub(crate) use workers::{SqlWorkerArgs, run as sql_worker};
pub(crate) use workers::{refuse_in_memory, with_workers};

/// Time limit for reading the initial state of a run's scopes.
const BEGIN: Duration = Duration::from_secs(2);
/// Time limit for purging the run at the end.
pub(crate) const PURGE: Duration = Duration::from_secs(10);

/// Serves one connection until the client closes it or a signal arrives.
pub(crate) async fn run(context: &Context, args: ServeArgs, out: &mut Out) -> Result<Exit, Failure> {
    if let Some(client) = args.print_config {
        let text = match args.http.http {
            None => client_config::for_client(client, context.global(), &args)?,
            Some(address) if address.port() == 0 => {
                return Err(Error::invalid("port 0 is another one at each start; name a port").into());
            }
            Some(address) => over_http(client, &args.http.url(address))?,
        };
        out.raw_line(&text)?;
        return Ok(Exit::Ok);
    }
    let identity::Served { memory, store, identity, auditor, warnings, gc, extract } =
        identity::resolve(context, &args, memory::Access::Create).await?;
    for warning in warnings {
        note(&format!("memory: {warning}"));
    }
    if io::stdin().is_terminal() && !context.is_quiet() {
        note(&welcome(context, &args, &store)?);
    }
    let line_limit = identity.policy.max_input_bytes.saturating_add(MAX_ENVELOPE_BYTES);
    let sweeps = gc.map(|schedule| gc::Sweeps::begin(memory.clone(), schedule, auditor.clone()));
    let extractions = extract.map(|plan| extract::Extractions::begin(&memory, plan));
    let sessions = Arc::new(Sessions::begin(memory, identity, auditor, &RandomIds)?);
    // If the store cannot be asked now, the first call will ask it.
    let _ = tokio::time::timeout(BEGIN, sessions.default_tool().begin()).await;

    let (stopping, _) = watch::channel(false);
    let failed = |error| Failure::File("a thread cannot be started".to_owned(), error);
    let input = io::BufReader::new(io::stdin());
    let output = io::BufWriter::new(io::stdout());
    let (lines, written) = Lines::start(input, output, line_limit, stopping.clone()).map_err(failed)?;
    let listening = tokio::spawn(listen(signal(), stopping));
    let outcome = match Box::pin(MemoryServer::new(Arc::clone(&sessions)).serve(lines)).await {
        Ok(service) => {
            // However the service loop ended, the connection is over.
            let _ = service.waiting().await;
            None
        }
        Err(error) => explain(&error),
    };
    if let Some(sweeps) = sweeps {
        sweeps.end().await;
    }
    if let Some(extractions) = extractions {
        extractions.end().await;
    }
    let ended = sessions.end(PURGE).await;
    let written = written.wait(FLUSH).await;
    let interrupted = listening.is_finished();
    listening.abort();
    if let Some(why) = outcome {
        note(&format!("memory: {why}"));
    }
    ended?;
    let exit = if interrupted { Exit::Interrupted } else { Exit::Ok };
    if !written {
        // A pending write to a client that does not read would block a normal exit.
        let _ = tokio::time::timeout(FLUSH, context.close()).await;
        std::process::exit(i32::from(exit.code()));
    }
    Ok(exit)
}

/// The configuration that makes a client start this program with the memory of `memory.toml`.
pub(crate) fn client_snippet(client: Client, global: &Global) -> Result<String, Failure> {
    let mut args = ServeArgs::default();
    let config = memory::Config::discover(global.config.as_deref())?;
    if config.is_none_or(|config| config.file().default.agent.is_none()) {
        args.offer.agent = Some(identity::DEFAULT_AGENT.to_owned());
    }
    Ok(client_config::for_client(client, global, &args)?)
}

/// Printed for a person who started the server by hand.
fn welcome(context: &Context, args: &ServeArgs, store: &str) -> Result<String, Failure> {
    let snippet = client_config::for_client(options::Client::ClaudeCode, context.global(), args)?;
    Ok(format!(
        "memory: this is an MCP server. It speaks JSON-RPC over standard input and output, one message per line; a client starts it, \
         so there is nothing to type here. It serves {store}.\n\
         To connect a client, put this into its configuration (.mcp.json of Claude Code; for others: --print-config, with \
         claude-desktop, cursor or vscode):\n{snippet}\n\
         Ctrl-C or the end of the input (Ctrl-D) stops it. See docs/mcp.md."
    ))
}

/// The first signal requests a clean shutdown; the second ends the process at once. Acknowledged writes are stored
/// either way.
async fn listen(first: impl Future<Output = ()>, stopping: watch::Sender<bool>) {
    first.await;
    stopping.send_replace(true);
    tokio::spawn(async {
        signal().await;
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
}

/// Why a connection did not start, if that is worth a message.
fn explain(error: &ServerInitializeError) -> Option<&'static str> {
    match error {
        ServerInitializeError::ConnectionClosed(_) | ServerInitializeError::Cancelled => None,
        ServerInitializeError::InitializeFailed(_) => {
            Some("the client asked for an unsupported protocol version")
        }
        ServerInitializeError::TransportError { .. } => {
            Some("the client disconnected before its first message")
        }
        _ => Some("the client's first message was not a request; the connection is closed"),
    }
}
