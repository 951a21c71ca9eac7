//! mem0: the self-hosted server and the Platform.

pub mod platform;
pub mod self_hosted;

use std::sync::{Arc, Mutex};

pub use self::platform::Platform;
pub use self::self_hosted::SelfHosted;
use crate::http::Server;
use crate::parsed::{ParsedRequest, serve};

/// The one key that both take.
pub const KEY: &str = "test-admin-key-0123456789";

impl SelfHosted {
    /// Puts it behind HTTP.
    pub async fn start(mut self) -> Server {
        serve(Arc::new(Mutex::new(move |request: &ParsedRequest| self.handle(request)))).await
    }
}

impl Platform {
    /// Puts it behind HTTP.
    pub async fn start(mut self) -> Server {
        serve(Arc::new(Mutex::new(move |request: &ParsedRequest| self.handle(request)))).await
    }
}
