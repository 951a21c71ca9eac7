//! `mem9+https://…`, and `mem9+http://…` for listed hosts. Needs `preview=true`, since its API is v1alpha2.
//!
//! Parameters are the fields of [`Mem9Options`]. Keys are given by reference only: `tenant_keys.TENANT=env:NAME` or
//! `tenant_keys.TENANT=file:PATH`, or with `tenancy=shared_key` one `api_key=…` for all tenants.

use std::sync::Arc;

use async_trait::async_trait;
use memory_core::{Capabilities, Provider, Result};
use memory_mem9::Mem9Provider;
pub use memory_mem9::{MEM9_BASE_URL, Mem9Options, Ranking, agent_id};

use super::remote::{self, Kind, Remote};
use crate::factory::{Factory, OpenContext};
use crate::url::BackendUrl;

/// The service's name in URLs and errors.
pub(crate) const SERVICE: &str = "mem9";
const PARAMETERS: &[(&str, Kind)] =
    &[("preview", Kind::Switch), ("sync", Kind::Switch), ("ranking", Kind::OneOf(&["confidence", "plain"]))];

/// Opens mem9.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Mem9Factory;

#[async_trait]
impl Factory for Mem9Factory {
    fn check(&self, url: &BackendUrl, context: &OpenContext) -> Result<()> {
        config(url, context).map(drop)
    }

    async fn open(&self, url: &BackendUrl, context: &OpenContext) -> Result<Arc<dyn Provider>> {
        let (clock, ids) = (Arc::clone(&context.clock), Arc::clone(&context.ids));
        let provider = Mem9Provider::open(config(url, context)?, remote::policy(context)?, clock, ids)
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
/// `invalid_argument` for a malformed URL or parameter, without `preview=true`, and for a key that is not given by
/// reference.
pub fn config(url: &BackendUrl, context: &OpenContext) -> Result<Mem9Options> {
    let options: Mem9Options =
        Remote::read(SERVICE, &[PARAMETERS, remote::COMMON], url, context)?.options()?;
    options.check().map(|()| options)
}

#[cfg(test)]
mod tests {
    use memory_http::Tenancy;

    use super::*;

    fn read(text: &str) -> Result<Mem9Options> {
        config(&BackendUrl::parse(text)?, &OpenContext::default())
    }

    #[test]
    fn a_preview_must_be_asked_for() {
        for text in
            ["mem9+https://api.mem9.ai?api_key=env:A", "mem9+https://api.mem9.ai?api_key=env:A&preview=false"]
        {
            let error = read(text).unwrap_err().to_string();
            assert!(error.contains("v1alpha2") && error.contains("`preview = true`"), "{error}");
        }
        assert!(read("mem9+https://api.mem9.ai?api_key=env:A&preview=yes").is_err());
    }

    #[test]
    fn tenants_share_a_space_only_where_the_url_says_so() {
        let options = read("mem9+https://api.mem9.ai?preview=true&tenant_keys.acme=env:A").unwrap();
        assert_eq!(options.tenancy, Tenancy::KeyPerTenant);
        let options = read(
            "mem9+https://api.mem9.ai?preview=true&tenancy=shared_key&api_key=env:A&sync=false&ranking=plain",
        )
        .unwrap();
        assert_eq!(
            (options.tenancy, options.sync, options.ranking),
            (Tenancy::SharedKey, false, Ranking::Plain)
        );
        let error = read("mem9+https://api.mem9.ai?preview=true&api_key=env:A").unwrap_err().to_string();
        assert!(error.contains("`tenant_keys`") && error.contains("shared_key"), "{error}");
    }
}
