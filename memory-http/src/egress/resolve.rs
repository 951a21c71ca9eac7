//! Name resolution, with the policy applied to the answer used for connecting.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use async_trait::async_trait;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::egress::address::AddressClass;
use crate::egress::policy::admissible;

/// Resolves names. The default asks the operating system; tests and special networks replace it.
#[async_trait]
pub trait Resolver: Send + Sync + fmt::Debug {
    /// Every address of `name`.
    ///
    /// # Errors
    /// If the name cannot be resolved.
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// The operating system's resolver with all its sources: `/etc/hosts`, `resolv.conf`, mDNS.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemResolver;

#[async_trait]
impl Resolver for SystemResolver {
    async fn resolve(&self, name: &str) -> std::io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// Why a name was refused; found again in the source chain of the transport's error.
#[derive(Clone, Copy, Debug, thiserror::Error)]
#[error("the name resolves to a {0} address")]
pub(crate) struct AddressRefused(pub(crate) AddressClass);

/// Gives the transport only addresses that the policy allows. There is no second lookup that could return something
/// else.
#[derive(Clone, Debug)]
pub(crate) struct GuardedResolver {
    pub(crate) inner: Arc<dyn Resolver>,
    /// Whether this resolver serves listed hosts.
    pub(crate) listed: bool,
}

impl Resolve for GuardedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let Self { inner, listed } = self.clone();
        Box::pin(async move {
            let found = inner.resolve(name.as_str()).await?;
            let admitted = admissible(found, listed).map_err(AddressRefused)?;
            let addresses: Vec<SocketAddr> =
                admitted.into_iter().map(|address| SocketAddr::new(address, 0)).collect();
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}
