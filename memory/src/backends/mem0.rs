//! `mem0+https://…`, and `mem0+http://…` for listed hosts.
//!
//! Parameters are the fields of [`Mem0Options`]. Keys are given by reference only: `api_key=env:NAME` or
//! `api_key=file:PATH`, or `tenant_keys.TENANT=…` for one tenant. `flavour` defaults to `platform` at `api.mem0.ai` and
//! to `self_hosted` elsewhere.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Provider, Result};
use memory_mem0::Mem0Provider;
pub use memory_mem0::{Flavour, Mem0Options, PLATFORM_BASE_URL, remote_id};
use serde_json::json;

use super::remote::{self, Kind, Remote};
use crate::factory::{Factory, OpenContext};
use crate::url::BackendUrl;

/// The service's name in URLs and errors.
pub(crate) const SERVICE: &str = "mem0";
const PARAMETERS: &[(&str, Kind)] = &[("flavour", Kind::OneOf(&["self_hosted", "platform"]))];

/// Opens mem0, self-hosted or the Platform.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mem0Factory;

#[async_trait]
impl Factory for Mem0Factory {
    fn check(&self, url: &BackendUrl, context: &OpenContext) -> Result<()> {
        config(url, context).map(drop)
    }

    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        let (clock, ids) = (Arc::clone(&context.clock), Arc::clone(&context.ids));
        let provider = Mem0Provider::open(config(url, context)?, remote::policy(context)?, clock, ids)
            .map_err(remote::with_advice)?;
        Ok(Arc::new(provider))
    }

    fn serves(&self) -> Option<Capabilities> {
        Some(remote::facts())
    }
}

/// Parses the URL.
///
/// # Errors
/// `invalid_argument` for a malformed URL or parameter, and for a key that is not given by reference.
pub fn config(url: &BackendUrl, context: &OpenContext) -> Result<Mem0Options> {
    let mut read = Remote::read(SERVICE, &[PARAMETERS, remote::COMMON], url, context)?;
    let flavour =
        if PLATFORM_BASE_URL.ends_with(&format!("//{}", read.host)) { "platform" } else { "self_hosted" };
    read.fields.entry("flavour").or_insert_with(|| json!(flavour));
    let options: Mem0Options = read.options()?;
    options.check().map(|()| options)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn read(text: &str) -> Result<Mem0Options> {
        let context = OpenContext { base_dir: Some(PathBuf::from("/etc/memory")), ..OpenContext::default() };
        config(&BackendUrl::parse(text)?, &context)
    }

    #[test]
    fn a_url_has_address_flavour_and_key_reference() {
        let options =
            read("mem0+http://localhost:8888/base/?api_key=env:MEM0_API_KEY&timeout_ms=250").unwrap();
        assert_eq!(options.flavour, Flavour::SelfHosted);
        assert_eq!(options.base_url.as_deref(), Some("http://localhost:8888/base/"));
        assert_eq!(options.api_key_env.as_deref(), Some("MEM0_API_KEY"));
        assert_eq!(options.timeout_ms, 250);
        let options = read("mem0+https://api.mem0.ai?api_key=file:keys/mem0").unwrap();
        assert_eq!(options.flavour, Flavour::Platform);
        assert_eq!(options.api_key_file, Some(PathBuf::from("/etc/memory/keys/mem0")));
        let options = read("mem0+https://proxy.example?flavour=platform&run_credential=mem0").unwrap();
        assert_eq!(options.flavour, Flavour::Platform);
        let options =
            read("mem0+https://m.example?tenant_keys.acme=env:A&tenant_keys.umbrella=file:/u").unwrap();
        assert_eq!(options.tenant_keys.len(), 2);
        assert_eq!(options.tenant_keys["umbrella"].file, Some(PathBuf::from("/u")));
        let options = read("mem0+https://m.example?tenant_key=env:MEM0_KEY_{tenant}").unwrap();
        assert_eq!(options.tenant_key_env.as_deref(), Some("MEM0_KEY_{tenant}"));
        let options = read("mem0+https://m.example?api_key_file=keys/mem0").unwrap();
        assert_eq!(options.api_key_file, Some(PathBuf::from("/etc/memory/keys/mem0")));
        let twice = read("mem0+https://m.example?api_key=env:A&api_key_env=B").unwrap_err().to_string();
        assert!(twice.contains("in two ways"), "{twice}");
        let prefixed =
            "mem0+https://m.example?tenancy=shared_key_with_prefix&prefix=p-{tenant}.&api_key=env:A";
        assert_eq!(read(prefixed).unwrap().prefix.as_deref(), Some("p-{tenant}."));
    }

    #[test]
    fn a_key_or_password_in_the_url_is_refused_and_not_repeated() {
        for text in [
            "mem0+https://m.example?api_key=hunter2",
            "mem0+https://m.example?api_key=key:hunter2",
            "mem0+https://m.example?tenant_keys.acme=hunter2",
            "mem0+https://m.example?tenant_key=hunter2",
            "mem0+https://m.example?timeout_ms=hunter2&api_key=env:A",
            "mem0+https://m.example?flavour=hunter2&api_key=env:A",
            "mem0+https://app:hunter2@m.example?api_key=env:A",
            "mem0+https://hunter2@m.example?api_key=env:A",
            "mem0+https://m.example?api_key=env:A#hunter2",
            "mem0+https:hunter2",
            "mem0+https:///hunter2",
        ] {
            let error = read(text).unwrap_err();
            assert_eq!(error.kind().code(), "invalid_argument", "{text}");
            assert!(!format!("{error} {error:?}").contains("hunter2"), "{error:?}");
        }
    }

    #[test]
    fn an_unknown_parameter_is_named_with_those_there_are() {
        for name in ["flavor", "base_url", "api_keys", "tenant_keys", "preview"] {
            let error = read(&format!("mem0+https://m.example?{name}=x")).unwrap_err().to_string();
            assert!(
                error.contains(name) && error.contains("flavour") && error.contains("api_key,"),
                "{error}"
            );
        }
        let error = read("mem0+https://m.example").unwrap_err().to_string();
        assert!(error.contains("no key is configured"), "{error}");
    }
}
