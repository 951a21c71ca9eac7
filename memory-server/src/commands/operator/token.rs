//! `token`: who may use `memory serve --http`.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use clap::{Args, Subcommand};
use memory::Config;
use memory::system::SystemClock;
use memory_api::{Grant, Known, STANDS, Token, TokenFile};
use memory_core::{Clock as _, Error, Op, Result, ScopeId, ScopeKind, TenantId, Timestamp};
use serde::Serialize;

use crate::http::tokens_file;
use crate::terminal::{Context, Exit, Failure, Out, create_private_folder, duration};

/// Longest name, in bytes.
const MAX_NAME: usize = 128;

#[derive(Args, Debug)]
pub(crate) struct TokenArgs {
    /// The file of tokens [default: memory.toml's, else memory.tokens.jsonl beside it; without a memory.toml, in the data
    /// folder]
    #[arg(long, global = true, value_name = "FILE")]
    tokens: Option<PathBuf>,
    #[command(subcommand)]
    action: Action,
}

#[derive(Debug, Subcommand)]
enum Action {
    /// Make a token and print it, once: only its hash is kept
    Create(Box<CreateArgs>),
    /// List tokens, without what they are
    List {
        /// Also those that were revoked or have expired
        #[arg(long)]
        all: bool,
    },
    /// Revoke a token; running servers refuse it at once
    Revoke {
        /// Its id or its name
        which: String,
    },
}

#[derive(Args, Debug)]
struct CreateArgs {
    /// What you call it
    name: String,
    /// The only agent whose memory it reaches; needed for MCP [default: with --tenant alone every agent of the tenant]
    #[arg(long, value_name = "ID")]
    agent: Option<String>,
    /// The only user whose memory it reaches
    #[arg(long, value_name = "ID")]
    user: Option<String>,
    /// Every tenant of the store: for the operator
    #[arg(long, conflicts_with_all = ["agent", "user"])]
    all_tenants: bool,
    /// Only these kinds of scope [default: what memory.toml allows the agent]
    #[arg(long, value_name = "KIND,…", value_delimiter = ',')]
    scopes: Option<Vec<ScopeKind>>,
    /// Only these operations, as get,search,recall [default: all but those on the whole store]
    #[arg(long, value_name = "OP,…", value_delimiter = ',', value_parser = op)]
    ops: Option<Vec<Op>>,
    /// Every operation, those on the whole store too
    #[arg(long, conflicts_with = "ops")]
    all_ops: bool,
    /// Only operations that change nothing
    #[arg(long)]
    read_only: bool,
    /// Refuse it after this long, as 30d
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    expires: Option<Duration>,
    /// Most requests a minute
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    rate: Option<u32>,
}

fn op(text: &str) -> Result<Op> {
    Op::ALL.iter().copied().find(|op| op.as_str() == text).ok_or_else(|| {
        let names: Vec<&str> = Op::ALL.iter().map(|op| op.as_str()).collect();
        Error::invalid(format!("there is no such operation; there are: {}", names.join(", ")))
    })
}

/// A new token, with the only copy of its text.
#[derive(Serialize)]
struct Created<'a> {
    id: &'a str,
    token: &'a str,
}

/// A token in a list.
#[derive(Serialize)]
struct Listed<'a> {
    status: &'static str,
    #[serde(flatten)]
    token: &'a Token,
    #[serde(skip_serializing_if = "Option::is_none")]
    revoked_at: Option<Timestamp>,
}

pub(crate) async fn run(context: &Context, args: TokenArgs, out: &mut Out) -> Result<Exit, Failure> {
    let config = Config::discover(context.global().config.as_deref())?;
    let path = tokens_file(args.tokens, config.as_ref())?;
    let file = TokenFile::new(path.clone());
    let now = SystemClock.now();
    match args.action {
        Action::Create(args) => {
            let (text, token) = made(context, *args, config.as_ref(), now)?;
            let id = Arc::clone(&token.id);
            if let Some(folder) = path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
                create_private_folder(folder)?;
            }
            file.create(token, now)?;
            out.tell(&Created { id: &id, token: &text }, |out| {
                out.raw_line(&text)?;
                crate::terminal::note(&format!(
                    "memory: this is token {id}, shown only now; send it as `Authorization: Bearer TOKEN`. `memory token \
                     revoke {id}` ends it."
                ));
                Ok(())
            })?;
        }
        Action::List { all } => {
            let (_, known) = file.read()?;
            let tokens: Vec<Listed<'_>> = known
                .values()
                .map(|known| listed(known, now))
                .filter(|listed| all || listed.status == "in force")
                .collect();
            out.tell(&serde_json::json!({ "tokens": tokens }), |out| {
                for listed in &tokens {
                    out.line(line(listed))?;
                }
                Ok(())
            })?;
        }
        Action::Revoke { which } => {
            let id = file.revoke(&which, now)?;
            // From now on, no server accepts the token.
            std::thread::sleep(STANDS);
            out.tell(&serde_json::json!({ "revoked": id }), |out| out.line(format!("revoked {id}")))?;
        }
    }
    Ok(Exit::Ok)
}

fn made(
    context: &Context,
    args: CreateArgs,
    config: Option<&Config>,
    now: Timestamp,
) -> Result<(String, Token)> {
    let global = context.global();
    if global.run.is_some() || global.scope.is_some() {
        return Err(Error::invalid("a token names an agent or a user; leave out --run and --scope"));
    }
    if args.name.is_empty() || args.name.len() > MAX_NAME || args.name.chars().any(char::is_control) {
        return Err(Error::invalid(format!(
            "the name of a token has 1 to {MAX_NAME} bytes and no control characters"
        )));
    }
    let configured = config.and_then(|config| config.file().default.tenant.clone());
    let tenant = match (args.all_tenants, &global.tenant) {
        (true, Some(_)) => {
            return Err(Error::invalid("--tenant and --all-tenants exclude each other; keep one"));
        }
        (true, None) => None,
        (false, Some(tenant)) => Some(TenantId::new(tenant.as_str())?),
        (false, None) => Some(configured.map_or_else(|| TenantId::new("default"), Ok)?),
    };
    let set = |kinds: Vec<ScopeKind>| kinds.into_iter().collect::<BTreeSet<_>>();
    let grant = Grant {
        tenant,
        agent: args.agent.map(ScopeId::new).transpose()?,
        user: args.user.map(ScopeId::new).transpose()?,
        kinds: args.scopes.map(set),
        ops: match args.all_ops {
            true => Some(Op::ALL.iter().copied().collect()),
            false => args.ops.map(|ops| ops.into_iter().collect()),
        },
        read_only: args.read_only,
    };
    if args.expires.is_some_and(|after| after.is_zero()) {
        return Err(Error::invalid(
            "--expires is above 0, as 30d; leave it out for a token that does not expire",
        ));
    }
    let is_idle = |ops: &BTreeSet<Op>| args.read_only && !ops.iter().any(|op| op.is_read());
    if grant.ops.as_ref().is_some_and(is_idle) {
        return Err(Error::invalid(
            "none of --ops only reads, so that the token could do nothing; leave out --read-only, or name others",
        ));
    }
    let (text, mut token) = Token::make(args.name, grant, now)?;
    token.per_minute = args.rate;
    token.expires_at = args
        .expires
        .map(|after| {
            now.checked_add(after)
                .ok_or_else(|| Error::invalid("--expires is too far away; leave it out for never"))
        })
        .transpose()?;
    Ok((text, token))
}

fn listed(known: &Known, now: Timestamp) -> Listed<'_> {
    let status = match known.revoked_at {
        Some(_) => "revoked",
        None if known.token.is_expired(now) => "expired",
        None => "in force",
    };
    Listed { status, token: &known.token, revoked_at: known.revoked_at }
}

fn line(listed: &Listed<'_>) -> String {
    let token = listed.token;
    let mut parts = vec![token.id.to_string(), token.name.clone(), listed.status.to_owned()];
    parts.push(token.tenant.as_ref().map_or("every tenant".to_owned(), |tenant| format!("tenant {tenant}")));
    let named = [("agent", &token.agent), ("user", &token.user)];
    parts.extend(named.iter().filter_map(|(what, id)| id.as_ref().map(|id| format!("{what} {id}"))));
    if let Some(kinds) = &token.scopes {
        let kinds: Vec<&str> = kinds.iter().map(|kind| kind.as_str()).collect();
        parts.push(format!("scopes {}", kinds.join(",")));
    }
    if let Some(ops) = &token.ops {
        let ops: Vec<&str> = ops.iter().map(|op| op.as_str()).collect();
        parts.push(format!("ops {}", ops.join(",")));
    }
    if token.read_only {
        parts.push("read-only".to_owned());
    }
    parts.extend(token.per_minute.map(|count| format!("{count} a minute")));
    parts.extend(token.expires_at.map(|at| format!("until {at}")));
    parts.join("  ")
}
