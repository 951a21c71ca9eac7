//! `memory+https://…`, and `memory+http://…` for listed hosts: the memory behind another server's API `/v1`.
//!
//! Parameters are the fields of [`RemoteOptions`]. The token is given by reference only: `api_key=env:NAME` or
//! `api_key=file:PATH`.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Provider, Result};
pub use memory_remote::RemoteOptions;

use super::remote::{self, Kind, Remote};
use crate::factory::{Factory, OpenContext};
use crate::url::BackendUrl;

/// Its name in URLs and errors.
const SERVICE: &str = "memory";
const PARAMETERS: &[(&str, Kind)] = &[
    ("api_key_env", Kind::Text),
    ("api_key_file", Kind::File),
    ("ca_file", Kind::File),
    ("timeout_ms", Kind::Number),
    ("write_timeout_ms", Kind::Number),
    ("stream_timeout_ms", Kind::Number),
    ("max_reply_bytes", Kind::Number),
];

/// Opens a server's memory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerFactory;

#[async_trait]
impl Factory for ServerFactory {
    fn check(&self, url: &BackendUrl, context: &OpenContext) -> Result<()> {
        config(url, context).map(drop)
    }

    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        let (clock, ids) = (Arc::clone(&context.clock), Arc::clone(&context.ids));
        let mut options = config(url, context)?;
        options.tell_clock = context.given_clock().is_some();
        let provider = memory_remote::open(options, remote::policy(context)?, clock, ids)
            .await
            .map_err(remote::with_advice)?;
        Ok(Arc::new(provider))
    }
}

/// Parses the URL.
///
/// # Errors
/// `invalid_argument` for a malformed URL or parameter, and for a token that is not given by reference.
pub fn config(url: &BackendUrl, context: &OpenContext) -> Result<RemoteOptions> {
    let options: RemoteOptions = Remote::read(SERVICE, &[PARAMETERS], url, context)?.options()?;
    options.check().map(|()| options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<RemoteOptions> {
        config(&BackendUrl::parse(text)?, &OpenContext::default())
    }

    #[test]
    fn a_url_has_an_address_and_a_reference_to_the_token() {
        let options =
            read("memory+https://memory.example/base?api_key=env:MEMORY_TOKEN&timeout_ms=250").unwrap();
        assert_eq!(options.base_url, "https://memory.example/base");
        assert_eq!(options.api_key_env.as_deref(), Some("MEMORY_TOKEN"));
        assert_eq!(options.timeout_ms, 250);
        assert_eq!(read("memory+http://localhost:7077").unwrap().api_key_env, None);
    }

    #[test]
    fn a_token_in_the_url_and_what_only_services_take_is_refused() {
        for text in [
            "memory+https://m.example?api_key=hunter2",
            "memory+https://hunter2@m.example",
            "memory+https://m.example?tenancy=hunter2",
            "memory+https://m.example?tenant_keys.acme=env:hunter2",
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind().code(), "invalid_argument", "{text}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }
}
