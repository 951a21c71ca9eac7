//! API keys of a run, by reference: `--credential NAME=env:VARIABLE`.

use clap::Args;
use memory_core::{Error, Result, RunContext};
use memory_http::SecretSource;

/// Most credentials per run.
const MAX: usize = 16;

/// Options of commands that act for a run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct CredentialArgs {
    /// An API key of this run, under the name that the store's `run_credential` asks for; may be
    /// repeated
    #[arg(long, value_name = "NAME=env:VARIABLE|NAME=file:PATH")]
    credential: Vec<String>,
}

impl CredentialArgs {
    /// As given, to repeat in another command line.
    pub(crate) fn as_given(&self) -> &[String] {
        &self.credential
    }

    /// Reads the keys and passes them to the run. They never come from a model and are never printed.
    pub(crate) fn give(&self, run: &mut RunContext) -> Result<()> {
        if self.credential.len() > MAX {
            return Err(Error::too_large("--credential", self.credential.len(), MAX, "credentials"));
        }
        for given in &self.credential {
            let (name, source) = reference(given)?;
            if run.credentials.insert(name.clone(), source.load()?).is_some() {
                return Err(Error::invalid(format!("the credential `{name}` is given twice; keep one")));
            }
        }
        Ok(())
    }
}

/// Does not quote the argument, which may be a key by mistake.
fn reference(given: &str) -> Result<(String, SecretSource)> {
    let wrong = || {
        Error::invalid(
            "--credential takes a reference to a key, never the key: NAME=env:VARIABLE or NAME=file:PATH",
        )
    };
    let (name, place) = given.split_once('=').filter(|(name, _)| !name.is_empty()).ok_or_else(wrong)?;
    let source = match place.split_once(':') {
        Some(("env", variable)) if !variable.is_empty() => SecretSource::Env(variable.to_owned()),
        Some(("file", path)) if !path.is_empty() => SecretSource::File(path.into()),
        _ => return Err(wrong()),
    };
    Ok((name.to_owned(), source))
}

#[cfg(test)]
mod tests {
    use memory_core::{ScopeId, TenantId};

    use super::*;

    fn given(credentials: &[&str]) -> Result<RunContext> {
        let id = |text: &str| ScopeId::new(text).unwrap();
        let mut run = RunContext::new(TenantId::new("acme").unwrap(), id("planner"), id("run"));
        let args = CredentialArgs { credential: credentials.iter().map(|&text| text.to_owned()).collect() };
        args.give(&mut run).map(|()| run)
    }

    #[test]
    fn a_key_is_read_from_where_it_is_and_not_shown() {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), "hunter2\n").unwrap();
        let run = given(&[&format!("mem0=file:{}", file.path().display())]).unwrap();
        assert_eq!(run.credentials["mem0"].expose(), "hunter2");
        assert!(!format!("{run:?}").contains("hunter2"));
    }

    #[test]
    fn a_key_itself_is_refused_and_not_repeated() {
        for wrong in ["hunter2", "mem0=hunter2", "=env:A", "mem0=env:", "mem0=file:", "mem0=key:hunter2"] {
            let error = given(&[wrong]).unwrap_err();
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
