//! What every service of this kind needs: where it is, and the key.

use std::path::{Path, PathBuf};

use memory_core::{Error, Result};
use memory_http::{Credential, Origin, SecretSource};

/// Where OpenAI's own API is.
pub const OPENAI_BASE_URL: &str = "https://api.openai.com/v1";

/// Longest name of a provider or model, in bytes.
const MAX_NAME_BYTES: usize = 256;

/// The fields of options that lead to a service.
pub(super) struct Access<'a> {
    pub(super) base_url: &'a str,
    pub(super) api_key_env: Option<&'a str>,
    pub(super) api_key_file: Option<&'a PathBuf>,
    pub(super) api_key_header: Option<&'a str>,
}

impl Access<'_> {
    pub(super) fn check(&self) -> Result<()> {
        if self.api_key_env.is_some() && self.api_key_file.is_some() {
            return Err(Error::invalid("`api_key_env` and `api_key_file` are both set; keep one"));
        }
        if self.api_key_header.is_some() && self.key().is_none() {
            return Err(Error::invalid("`api_key_header` is set without `api_key_env` or `api_key_file`"));
        }
        if self.base_url == OPENAI_BASE_URL && self.key().is_none() {
            return Err(Error::invalid(
                "OpenAI needs a key: set `api_key_env`, as in `api_key_env = \"OPENAI_API_KEY\"`, or `api_key_file`",
            ));
        }
        Ok(())
    }

    /// Where the key is.
    pub(super) fn key(&self) -> Option<SecretSource> {
        match (self.api_key_env, self.api_key_file) {
            (Some(name), _) => Some(SecretSource::Env(name.to_owned())),
            (None, Some(path)) => Some(SecretSource::File(Path::to_owned(path))),
            (None, None) => None,
        }
    }

    /// Reads the key.
    pub(super) fn credential(&self, origin: &Origin) -> Result<Option<Credential>> {
        let Some(source) = self.key() else { return Ok(None) };
        let secret = source.load()?;
        Ok(Some(match self.api_key_header {
            Some(header) => Credential::header(origin.clone(), header, "", &secret)?,
            None => Credential::bearer(origin.clone(), &secret)?,
        }))
    }

    /// The URL of the requests; parameters of the base URL stay behind the path.
    pub(super) fn url(&self, path: &str) -> String {
        let (base, parameters) = match self.base_url.split_once('?') {
            Some((base, parameters)) => (base, format!("?{parameters}")),
            None => (self.base_url, String::new()),
        };
        format!("{}/{path}{parameters}", base.trim_end_matches('/'))
    }

    /// The base URL as a log may show it.
    pub(super) fn shown(&self) -> String {
        Origin::of(self.base_url).map_or_else(|_| "…".to_owned(), |origin| origin.to_string())
    }
}

pub(super) fn check_name(field: &str, value: &str) -> Result<()> {
    let fits = !value.is_empty() && value.len() <= MAX_NAME_BYTES && !value.chars().any(char::is_control);
    if fits {
        Ok(())
    } else {
        Err(Error::invalid(format!(
            "`{field}` must have 1 to {MAX_NAME_BYTES} bytes and no control character"
        )))
    }
}

pub(super) fn check_range(field: &str, value: u64, most: u64) -> Result<()> {
    if (1..=most).contains(&value) {
        Ok(())
    } else {
        Err(Error::invalid(format!("`{field}` must be 1 to {most}, not {value}")))
    }
}
