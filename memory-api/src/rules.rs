//! The part of the operator's configuration that concerns callers.

use memory::{Config, Policy};
use memory_core::{Error, ErrorKind, Result, ScopeId, ScopeKind};

/// The rules of `memory.toml`.
#[derive(Debug, Default)]
pub struct Rules {
    config: Option<Config>,
    /// The name of the backend that is served, if it has one.
    served: Option<String>,
}

impl Rules {
    /// The rules of this configuration; of its backends, the one with this name is served.
    #[must_use]
    pub fn new(config: Option<Config>, served: Option<String>) -> Self {
        Self { config, served }
    }

    /// The rules for an agent. Without a configuration, only the tokens limit it.
    pub(crate) fn policy(&self, agent: &str) -> Policy {
        match &self.config {
            Some(config) => config.policy(agent),
            None => Policy::default().with_memory_scopes(ScopeKind::ALL),
        }
    }

    /// Refuses an agent whose memory is configured to be in another backend than the one served; `caller` is the id of
    /// whoever asks.
    ///
    /// # Errors
    /// `forbidden`.
    pub(crate) fn serves(&self, agent: Option<&ScopeId>, caller: &str) -> Result<()> {
        let own = || self.config.as_ref()?.file().agents.get(agent?.as_str())?.backend.as_ref();
        match (own(), &self.served) {
            (Some(own), Some(served)) if own != served => Err(Error::new(
                ErrorKind::Forbidden,
                format!("the agent of token `{caller}` has its memory in another backend than this server's"),
            )),
            _ => Ok(()),
        }
    }
}
