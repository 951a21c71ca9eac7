//! The backends selected by cargo features: their URLs, and the factories that open them.

#[cfg(feature = "mem0")]
pub mod mem0;
#[cfg(feature = "mem9")]
pub mod mem9;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mem0", feature = "mem9", feature = "remote"))]
mod remote;
#[cfg(feature = "remote")]
pub mod server;
#[cfg(feature = "sqlite")]
pub mod sqlite;

/// What every store of entries can do.
#[cfg(any(feature = "sqlite", feature = "postgres"))]
fn entries() -> memory_core::Capabilities {
    let mut capabilities = memory_core::Capabilities::none();
    (capabilities.kv, capabilities.compare_and_set) = (true, true);
    capabilities.embedding = memory_core::EmbeddingOwner::Embedder;
    #[cfg(feature = "recall")]
    memory_recall::advertise(&mut capabilities);
    capabilities
}
