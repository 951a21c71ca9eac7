//! The backends that cargo features compile in: what their URLs say, and the factories that open them.

#[cfg(feature = "mem0")]
pub mod mem0;
#[cfg(feature = "mem9")]
pub mod mem9;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(any(feature = "mem0", feature = "mem9"))]
mod remote;
#[cfg(feature = "sqlite")]
pub mod sqlite;
