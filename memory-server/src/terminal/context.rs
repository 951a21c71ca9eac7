//! What every command receives: the global options, and the store that they select.

use std::sync::Arc;

use memory::system::RandomIds;
use memory::{Access, Config, Memory, Registry};
use memory_core::layer::FactsQuery;
use memory_core::limits::MAX_PAGE;
use memory_core::{
    Backend, ChatModel, Error, ErrorKind, IdGen as _, ListQuery, MemoryLayer, Result, Retry, RunContext,
    Scope, ScopeId, ScopeKind, ScopesQuery,
};
use serde::Serialize;

use super::credentials::CredentialArgs;
use super::failure::Failure;
use super::line::Line;
use super::output::{Out, counted};
use super::settings::{BareStore, Global, Openings, Settings, registry};
use super::stop::Stop;

/// What every command receives.
#[derive(Clone)]
pub struct Context {
    global: Global,
    openings: Openings,
    /// The shell line being run; `None` for the process's own command line.
    line: Option<Arc<Line>>,
}

/// An opened store and the scope to work on.
pub(crate) struct Opened {
    pub(crate) memory: Memory,
    pub(crate) settings: Settings,
}

/// How many other scopes are named if nothing was found.
const OTHERS: usize = 5;

/// Refuses a command that either of two stores could serve alone, but not both together.
///
/// # Errors
/// `capability_unsupported` for a store with a fallback.
pub(crate) fn alone(memory: &Memory, operation: &str) -> Result<()> {
    memory.refuse_with_fallback(
        operation,
        "run this on each store by itself: on the fallback with `--backend` and its name, on the other with `--url` and its URL",
    )
}

/// How many other scopes are searched for them.
const LOOKED_INTO: usize = 20;

/// Whether a scope has facts, as far as the store can tell.
pub(crate) async fn has_facts(layer: &dyn MemoryLayer, run: &RunContext, scope: &Scope) -> bool {
    let mut any = FactsQuery::default();
    any.limit = 1;
    layer.facts(run, scope, any).await.is_ok_and(|page| !page.facts.is_empty())
}

/// `user:ada`
pub(crate) fn scope_name(scope: &Scope) -> String {
    format!("{}:{}", scope.kind, scope.id)
}

/// Where nothing was found, and where something exists.
#[derive(Serialize)]
pub(crate) struct Elsewhere {
    looked_in: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    elsewhere: Vec<Held>,
    /// There are facts, but the request excludes all of them.
    #[serde(skip)]
    left_out: bool,
    /// There are entries, but only facts were requested.
    #[serde(skip)]
    has_entries: bool,
}

#[derive(Serialize)]
struct Held {
    scope: String,
    entries: u64,
}

impl Elsewhere {
    /// `left_out`: these scopes have facts, but the request excludes all of them.
    pub(crate) fn new(looked_in: &[Scope], left_out: bool) -> Self {
        Self {
            looked_in: looked_in.iter().map(scope_name).collect(),
            elsewhere: Vec::new(),
            left_out,
            has_entries: false,
        }
    }

    /// Says so.
    ///
    /// # Errors
    /// As output.
    pub(crate) fn tell(&self, out: &mut Out) -> std::result::Result<(), Failure> {
        let looked_in = match self.looked_in.as_slice() {
            [one] => one.clone(),
            several => format!("{} scopes", several.len()),
        };
        if self.left_out {
            return out.line(format!(
                "nothing found in {looked_in} within --as-of, --unconfirmed-since and --threshold; there are facts: ask \
                 without them"
            ));
        }
        out.line(format!("nothing found in {looked_in}"))?;
        if self.has_entries {
            out.line(
                "there are entries: look into them with `memory search`, or list them with `memory list`",
            )?;
        }
        let Some(first) = self.elsewhere.first() else { return Ok(()) };
        let held: Vec<String> = self
            .elsewhere
            .iter()
            .take(OTHERS)
            .map(|held| format!("{} ({})", held.scope, counted(held.entries, "entry")))
            .collect();
        let more = if self.elsewhere.len() > OTHERS { " and others" } else { "" };
        out.line(format!(
            "elsewhere: {}{more}; name one, as --scope {}, or let `recall` look into all with --all-scopes",
            held.join(", "),
            first.scope
        ))
    }
}

impl Context {
    pub fn new(global: Global) -> Self {
        Self { global, openings: Openings::default(), line: None }
    }

    /// The same for a series of lines: a store stays open for the next line.
    pub(crate) fn of_lines(&self) -> Self {
        Self { global: self.global.clone(), openings: self.openings.keeping(), line: None }
    }

    /// The context of one line.
    pub(crate) fn of_line(&self, global: Global, line: Arc<Line>) -> Self {
        Self { global, openings: self.openings.clone(), line: Some(line) }
    }

    /// Whether one of these options was typed, rather than taken from the environment or an earlier line.
    pub(crate) fn is_typed(&self, options: &[&str]) -> bool {
        let is_one = |word: &str| {
            options.iter().any(|option| {
                word.strip_prefix(option).is_some_and(|rest| rest.is_empty() || rest.starts_with('='))
            })
        };
        match &self.line {
            Some(line) => line.words().iter().any(|word| is_one(word)),
            None => std::env::args_os().any(|word| word.to_str().is_some_and(is_one)),
        }
    }

    /// For a command that stops on its own when asked to.
    pub(crate) fn stop(&self) -> Stop {
        self.line.as_ref().map_or_else(Stop::listen, |line| line.stop())
    }

    /// Standard input, for a command that reads a value from it.
    ///
    /// # Errors
    /// `invalid_argument` within the shell.
    pub(crate) fn stdin(&self) -> Result<std::io::Stdin> {
        match self.line {
            Some(_) => Err(Error::invalid(
                "the shell reads its lines from standard input; name a file instead of `-`",
            )),
            None => Ok(std::io::stdin()),
        }
    }

    /// Whether typed lines may be kept for next time.
    pub(crate) fn keeps_history(&self) -> bool {
        self.line.as_ref().is_none_or(|line| line.keeps_history())
    }

    pub fn is_quiet(&self) -> bool {
        self.global.quiet
    }

    /// Decides on store, tenant and scope without opening anything.
    pub(crate) fn settings(&self) -> Result<Settings> {
        self.settings_of(&self.global)
    }

    /// Like [`settings`](Self::settings), for other options.
    pub(crate) fn settings_of(&self, global: &Global) -> Result<Settings> {
        Settings::resolve(global, &self.openings)
    }

    /// The options that every command takes.
    pub(crate) fn global(&self) -> &Global {
        &self.global
    }

    /// The registry for backends other than the chosen one, with the command line's embedder.
    ///
    /// # Errors
    /// As [`settings::registry`](super::settings::registry).
    pub fn registry(&self) -> Result<Registry> {
        let config = || Config::discover(self.global.config.as_deref());
        registry(&self.global, config)
    }

    /// The language model of `[models.chat]` in `memory.toml`.
    ///
    /// # Errors
    /// `not_found` without `memory.toml`; those of [`Config::open_chat_model`].
    pub fn chat_model(&self) -> Result<Arc<dyn ChatModel>> {
        let config = self.settings()?.config.ok_or_else(|| {
            Error::not_found("there is no memory.toml whose [models.chat] names a language model")
        })?;
        config.open_chat_model(&self.registry()?)
    }

    /// The URL from the command line or the environment.
    pub fn explicit_url(&self) -> Option<&str> {
        self.global.url.as_deref().filter(|url| !url.is_empty())
    }

    /// The store that the command line or the environment names, by URL or by name, if any.
    ///
    /// # Errors
    /// As [`Settings::resolve`] and [`Settings::backend_url`].
    pub fn named_store(&self) -> Result<Option<BareStore>> {
        if self.explicit_url().is_none() && self.explicit_backend().is_none() {
            return Ok(None);
        }
        self.settings()?.bare_store().map(Some)
    }

    /// The store and scope that result from options, environment and `memory.toml`.
    ///
    /// # Errors
    /// As [`Settings::resolve`] and [`Settings::backend_url`].
    pub fn store(&self) -> Result<(BareStore, Scope)> {
        let settings = self.settings()?;
        Ok((settings.bare_store()?, settings.scope.clone()))
    }

    /// The name of a backend on the command line or in the environment.
    pub(crate) fn explicit_backend(&self) -> Option<&str> {
        self.global.backend.as_deref().filter(|name| !name.is_empty())
    }

    /// The same without a backend on the command line or in the environment.
    pub(crate) fn without_backend(&self) -> Self {
        let mut other = self.clone();
        other.global.backend = None;
        other
    }

    /// The same without an embedder on the command line or in the environment.
    pub(crate) fn without_embedder(&self) -> Self {
        let mut other = self.clone();
        other.global.embedder = None;
        other
    }

    /// Opens the store without creating it; an empty store in memory replaces a missing one.
    pub(crate) async fn open_unmade(&self, access: Access) -> Result<Opened> {
        let settings = self.settings()?;
        let memory = settings.open_unmade(access).await?;
        Ok(Opened { memory, settings })
    }

    /// Opens the store.
    pub(crate) async fn open(&self, access: Access) -> Result<Opened> {
        let settings = self.settings()?;
        let memory = settings.open(access).await?;
        Ok(Opened { memory, settings })
    }

    /// Makes sure that a store that was opened without [`Settings`] is closed at the end of the program.
    pub(crate) fn closing(&self, memory: Memory) -> Memory {
        self.openings.closing(memory)
    }

    /// Closes everything that was opened. Later uses are refused.
    ///
    /// # Errors
    /// As [`Openings::close`].
    pub(crate) async fn close(&self) -> Result<()> {
        self.openings.close().await
    }
}

impl Opened {
    pub(crate) fn scope(&self) -> &Scope {
        &self.settings.scope
    }

    /// The key/value facet.
    pub(crate) fn backend(&self, operation: &str) -> Result<&dyn Backend> {
        self.memory.backend().ok_or_else(|| match self.memory.layer() {
            Some(_) => self.unsupported(
                operation,
                "it keeps facts, not entries: use `memory add`, `recall`, `facts` and `forget`, or name another store",
            ),
            None => Error::unsupported(operation, self.memory.name()),
        })
    }

    /// The conversational facet.
    pub(crate) fn layer(&self, operation: &str) -> Result<&dyn MemoryLayer> {
        self.memory.layer().ok_or_else(|| {
            self.unsupported(
                operation,
                "it keeps entries, not facts: use `memory set`, `search`, `list` and `delete`, or name a store with facts",
            )
        })
    }

    /// Every scope of the tenant that holds something.
    ///
    /// # Errors
    /// `capability_unsupported` if the store cannot list them; those of [`Backend::scopes`].
    pub(crate) async fn all_scopes(&self) -> Result<Vec<Scope>> {
        let backend = self.backend("scopes")?;
        let (mut scopes, mut query) = (Vec::new(), ScopesQuery::default());
        loop {
            let page = backend.scopes(&self.settings.tenant, query.clone()).await?;
            scopes.extend(page.scopes.into_iter().map(|info| info.scope));
            query.cursor = page.next;
            if query.cursor.is_none() {
                return Ok(scopes);
            }
        }
    }

    /// Where nothing was found, and which other scopes hold something; for a layer, which hold facts.
    pub(crate) async fn elsewhere(
        &self,
        looked_in: &[Scope],
        facts: Option<(&dyn MemoryLayer, &RunContext)>,
    ) -> Elsewhere {
        let mut elsewhere = Elsewhere::new(looked_in, false);
        let Some(backend) = self.memory.backend() else { return elsewhere };
        if facts.is_some() {
            for scope in looked_in.iter().take(OTHERS) {
                let page = backend.list(scope, ListQuery::default().with_limit(1)).await;
                elsewhere.has_entries |= page.is_ok_and(|page| !page.entries.is_empty());
            }
        }
        let query =
            ScopesQuery::default().with_limit(looked_in.len().saturating_add(LOOKED_INTO).min(MAX_PAGE));
        // Only a hint: the answer stands without it.
        let page = backend
            .scopes(&self.settings.tenant, query)
            .await
            .map_or_else(|_| Vec::new(), |page| page.scopes);
        for info in page.into_iter().filter(|info| !looked_in.contains(&info.scope)) {
            if let Some((layer, run)) = facts
                && !has_facts(layer, run, &info.scope).await
            {
                continue;
            }
            elsewhere.elsewhere.push(Held { scope: scope_name(&info.scope), entries: info.entries });
            if elsewhere.elsewhere.len() > OTHERS {
                break;
            }
        }
        elsewhere
    }

    fn unsupported(&self, operation: &str, advice: &str) -> Error {
        let name = self.memory.name();
        Error::new(
            ErrorKind::Unsupported,
            format!("provider `{name}` does not serve `{operation}`; {advice}"),
        )
        .with_retry(Retry::Never)
        .with_detail("operation", operation)
        .with_detail("provider", name)
    }

    /// The run context of the terminal user, for the chosen scope.
    pub(crate) fn run(&self, credentials: &CredentialArgs) -> Result<RunContext> {
        let scope = self.scope();
        let here = || ScopeId::new(format!("cli-{:032x}", RandomIds.fresh()));
        let (agent, run) = match scope.kind {
            ScopeKind::Agent => (scope.id.clone(), here()?),
            ScopeKind::Run => (ScopeId::new("cli")?, scope.id.clone()),
            ScopeKind::Host => return Err(Error::invalid("no text names a scope of the host")),
            ScopeKind::User => (ScopeId::new("cli")?, here()?),
        };
        let mut context = RunContext::new(self.settings.tenant.clone(), agent, run);
        if scope.kind == ScopeKind::User {
            context = context.with_user(scope.id.clone());
        }
        credentials.give(&mut context)?;
        Ok(context)
    }
}

#[cfg(test)]
mod tests {
    use clap::{Args as _, FromArgMatches as _};

    use super::*;

    #[tokio::test]
    async fn stores_that_settings_opened_were_left_open_at_the_end() {
        let command = Global::augment_args(clap::Command::new("memory"));
        let matches = command.get_matches_from(["memory", "--url", "sqlite::memory:"]);
        let context = Context::new(Global::from_arg_matches(&matches).unwrap());
        let settings = context.settings().unwrap();
        let memory = settings.open(Access::Create).await.unwrap();
        context.close().await.unwrap();
        let refused = memory.backend().unwrap().stats(&settings.scope).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Unavailable);
    }
}
