//! `memory serve --http`, from its options to its shutdown.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use memory::config::HttpSection;
use memory::system::SystemClock;
use memory::{Access, Config, Memory, MemoryTool, StateOp};
use memory_api::{
    Around, Authority, Boxed, Gate, Grant, Jwt, Metrics, Rules, Served, Token, TokenFile, Tools, V1,
};
use memory_core::{Clock as _, Error, ErrorKind, Op, Result};
use tempfile::TempDir;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::time::{Instant, timeout_at};

use super::mcp::{Hub, Mcp};
use super::page::{self, Beside, Page};
use super::routes;
use super::tokens::tokens_file;
use crate::serve::{Client, ServeArgs, Sweeps, over_http, schedule, with_workers};
use crate::terminal::{Context, Exit, Failure, note, signal};

/// Longest duration of the shutdown.
const GRACE: Duration = Duration::from_secs(5);
/// The part of it reserved for connections once calls in flight have had their time, and again for runs.
const STEP: Duration = Duration::from_millis(500);

/// Serves until a signal arrives; what has begun is answered first.
pub(crate) async fn run(context: &Context, args: ServeArgs) -> Result<Exit, Failure> {
    let global = context.global();
    if global.run.is_some() || global.scope.is_some() || global.tenant.is_some() {
        return Err(
            Error::invalid("tokens name tenant and scopes; leave out --tenant, --run and --scope").into()
        );
    }
    let config = Config::discover(global.config.as_deref())?;
    let mut limits = config.as_ref().map(|config| config.file().http.clone()).unwrap_or_default();
    let metrics = Arc::new(Metrics::default());
    let file = TokenFile::new(tokens_file(args.http.tokens.clone(), config.as_ref())?);
    let backend = match (context.explicit_url(), &config) {
        (None, Some(config)) => context.explicit_backend().or(config.default_backend()).map(str::to_owned),
        _ => None,
    };
    let rules = Arc::new(Rules::new(config.clone(), backend));
    let jwt = match &config {
        Some(config) => Jwt::open(config, note).await?,
        None => None,
    };
    let authority =
        Authority::new(file, jwt, Arc::clone(&rules), Arc::new(SystemClock), Arc::clone(&metrics), note);
    let authority = Arc::new(authority);
    let has_tokens = authority.has_tokens()?;
    let address = safe(&args, has_tokens)?;
    let acceptor = match (&args.http.tls_cert, &args.http.tls_key) {
        (Some(chain), Some(key)) => Some(memory_api::tls(chain, key)?),
        _ => None,
    };
    let scheme = if acceptor.is_some() { "https" } else { "http" };

    let settings = context.settings()?;
    let mut memory = settings.open(Access::Create).await?;
    let mut warnings: Vec<_> = memory_api::fit(&mut limits.max_connections).into_iter().collect();
    let (mut auditor, mut sweeps, mut interpreter) = (None, None, None);
    if let Some(config) = &config {
        warnings.extend(config.warnings());
        memory = with_workers(memory, config, context, context.explicit_backend())?;
        auditor = config.auditor(Arc::new(SystemClock))?;
        interpreter = config.open_interpreter_model(&context.registry()?)?;
        let plan = schedule(config, context, "", &memory, &mut warnings).await?;
        sweeps = plan.map(|plan| Sweeps::begin(memory.clone(), plan, auditor.clone()));
        if config.file().recall.extract.enabled {
            warnings.push(
                "[recall.extract] is on, but over HTTP no facts are drawn; `memory extract` draws them"
                    .into(),
            );
        }
    }
    let tools = Tools::new(rules, interpreter.clone(), on_state);
    let mut hub = Hub::new(memory.clone(), auditor.clone(), Arc::clone(&metrics));
    (hub.credentials, hub.interpreter) = (args.credentials.clone(), interpreter);
    let hub = Arc::new(hub);
    let mcp = Arc::new(Mcp::new(Arc::clone(&hub), Arc::clone(&authority), limits.max_connections));
    let local = address.ip().is_loopback() && !args.http.behind_proxy;
    // Behind a proxy, the scheme that browsers use is unknown.
    let own_scheme = (!args.http.behind_proxy).then_some(scheme);
    let gate = Arc::new(Gate::new(Arc::clone(&authority), metrics, limits, around(local, own_scheme)));
    let api = V1::new(memory.clone(), auditor.clone(), tools);
    let beside = Beside {
        auditor,
        audit_file: settings.audit_file(),
        snapshots: settings.ledger(&memory).await.unwrap_or_default(),
    };
    let secure = acceptor.is_some() || args.http.behind_proxy;
    let page = Page::new(memory.clone(), beside, Arc::clone(&authority), api.clone(), secure);
    let beside = routes::beside(memory, page, Arc::clone(&mcp), Arc::clone(&gate), authority.resource());
    let served = Served::new(Arc::clone(&gate), api, beside);

    let unbound = |error: io::Error| {
        let do_what =
            if error.kind() == io::ErrorKind::AddrInUse { "; give another port with --http" } else { "" };
        Failure::File(format!("{address} cannot be listened on{do_what}"), error)
    };
    let listener = TcpListener::bind(address).await.map_err(unbound)?;
    let bound = listener.local_addr().map_err(unbound)?;
    for warning in warnings {
        note(&format!("memory: {warning}"));
    }
    let first = signal();
    note(&format!("memory: listening on {scheme}://{bound}"));
    if !context.is_quiet() {
        note(&welcome(&args.http.url(bound), has_tokens, &settings.shown_url()?)?);
    }

    let (stopping, stopped) = watch::channel(None);
    let ending = tokio::spawn(end(first, stopping, gate, mcp, Duration::from_secs(args.http.drain)));
    served.listen(listener, acceptor, stopped.clone()).await;
    ending.abort();
    let over = stopped.borrow().unwrap_or_else(Instant::now) + STEP;
    let swept = async {
        if let Some(sweeps) = sweeps {
            let _ = timeout_at(over, sweeps.end()).await;
        }
    };
    tokio::join!(swept, hub.end(over));
    Ok(Exit::Ok)
}

/// An operation on shared state or a graph.
fn on_state<'a>(tool: &'a MemoryTool, op: StateOp, fields: &'a str) -> Boxed<'a, Result<String>> {
    Box::pin(tool.state(op, fields))
}

/// How the server is reached, for the gate.
fn around(local: bool, scheme: Option<&'static str>) -> Around {
    #[cfg(feature = "otel")]
    let continues = crate::terminal::traces::continues;
    #[cfg(not(feature = "otel"))]
    let continues = |_: &_, _: &_| ();
    Around { local, scheme, is_page: page::owns, continues }
}

/// The address to listen on, if it is safe to.
fn safe(args: &ServeArgs, has_tokens: bool) -> Result<SocketAddr> {
    let address = args.http.http.ok_or_else(|| Error::internal("no address was given"))?;
    let forbidden = |why: String| Err(Error::new(ErrorKind::Forbidden, why));
    if address.ip().is_loopback() {
        return Ok(address);
    }
    if !has_tokens {
        return forbidden(format!(
            "{address} may be reached from elsewhere and there is no token yet; make one by `memory token create NAME`"
        ));
    }
    if args.http.tls_cert.is_none() && !args.http.behind_proxy {
        return forbidden(format!(
            "{address} may be reached from elsewhere, and tokens would cross the network as plain text; give --tls-cert and \
             --tls-key, or --behind-proxy if a proxy that only it can be reached by ends TLS"
        ));
    }
    Ok(address)
}

/// Waits for a signal, keeps serving until load balancers notice, then lets calls in flight finish. A second signal
/// ends the process.
async fn end(
    first: impl Future<Output = ()>,
    stopping: watch::Sender<Option<Instant>>,
    gate: Arc<Gate>,
    mcp: Arc<Mcp>,
    drain: Duration,
) {
    first.await;
    tokio::spawn(async {
        signal().await;
        std::process::exit(i32::from(Exit::Interrupted.code()));
    });
    gate.drain();
    tokio::time::sleep(drain).await;
    let closing = Instant::now() + GRACE - STEP;
    stopping.send_replace(Some(closing));
    let _ = timeout_at(closing - STEP, gate.idle()).await;
    mcp.stop();
}

/// Everything that `memory serve --http` serves, on loopback and without a configuration, plus a token that allows all
/// of it: for benchmarks, tests and fuzz targets of the crates around this one. The token is valid as long as the
/// folder exists.
///
/// # Errors
/// `unavailable` if there is no place for the token file.
#[doc(hidden)]
pub fn guarded(memory: Memory) -> Result<(Served, String, TempDir)> {
    let folder = tempfile::tempdir().map_err(|error| {
        Error::new(ErrorKind::Unavailable, "there is no temporary folder").with_source(error)
    })?;
    let file = TokenFile::new(folder.path().join("tokens"));
    let now = SystemClock.now();
    let grant = Grant { ops: Some(Op::ALL.iter().copied().collect()), ..Grant::default() };
    let (text, token) = Token::make("all".to_owned(), grant, now)?;
    file.create(token, now)?;
    let (metrics, rules) = (Arc::new(Metrics::default()), Arc::new(Rules::default()));
    let authority =
        Authority::new(file, None, Arc::clone(&rules), Arc::new(SystemClock), Arc::clone(&metrics), note);
    let authority = Arc::new(authority);
    let hub = Arc::new(Hub::new(memory.clone(), None, Arc::clone(&metrics)));
    let limits = HttpSection::default();
    let mcp = Arc::new(Mcp::new(hub, Arc::clone(&authority), limits.max_connections));
    let gate = Arc::new(Gate::new(Arc::clone(&authority), metrics, limits, around(true, Some("http"))));
    let api = V1::new(memory.clone(), None, Tools::new(rules, None, on_state));
    let page = Page::new(memory.clone(), Beside::default(), authority, api.clone(), false);
    let beside = routes::beside(memory, page, mcp, Arc::clone(&gate), None);
    Ok((Served::new(gate, api, beside), text, folder))
}

/// Printed for the person who started the server, which clients reach at `url`.
fn welcome(url: &str, has_tokens: bool, store: &str) -> Result<String> {
    let first = if has_tokens {
        ""
    } else {
        "There is no token yet, so every request is refused: make one by `memory token create NAME --agent ID`.\n"
    };
    let which = match url.contains("HOST") {
        true => ", and the name or address by which clients reach this server in the place of HOST",
        false => "",
    };
    let snippet = over_http(Client::ClaudeCode, url)?;
    Ok(format!(
        "The store is {store}.\n{first}To connect an MCP client, put this into its configuration (.mcp.json of Claude Code; for others: --print-config, \
         with cursor or vscode), with a token in the variable MEMORY_TOKEN{which}:\n{snippet}\n\
         {url}/ is a page for people, who sign in with a token. Ctrl-C stops it. See docs/http.md."
    ))
}
