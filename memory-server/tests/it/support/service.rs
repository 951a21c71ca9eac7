//! Services that run beside a test, and the `memory.toml` that names one.

use std::sync::{Arc, Mutex};

use memory_fakes::http::Server;
use memory_fakes::{Answer, ParsedRequest, mem0, mem9, serve};

/// A service on a local port for the duration of the test.
pub(crate) struct Service {
    server: Server,
    _runtime: tokio::runtime::Runtime,
}

impl Service {
    fn start(server: impl Future<Output = Server>) -> Self {
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
        Self { server: runtime.block_on(server), _runtime: runtime }
    }

    /// A service that answers each request like this.
    pub(crate) fn of(fake: impl FnMut(&ParsedRequest) -> Answer + Send + 'static) -> Self {
        Self::start(serve(Arc::new(Mutex::new(fake))))
    }

    pub(crate) fn mem0() -> Self {
        Self::start(mem0::SelfHosted::default().start())
    }

    pub(crate) fn mem0_platform() -> Self {
        Self::start(mem0::Platform::default().start())
    }

    pub(crate) fn mem9() -> Self {
        Self::start(mem9::Mem9::default().start())
    }

    /// `127.0.0.1:PORT`.
    pub(crate) fn address(&self) -> String {
        self.server.address.to_string()
    }

    /// Its requests, one per line: method and target.
    pub(crate) fn asked(&self) -> Vec<String> {
        let line = |head: &str| head.lines().next().unwrap().rsplit_once(' ').unwrap().0.to_owned();
        self.server.requests().iter().map(|request| line(&request.head)).collect()
    }

    /// Everything sent to it, with headers and bodies.
    pub(crate) fn heard(&self) -> String {
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        self.server
            .requests()
            .iter()
            .map(|request| format!("{}{}", request.head, text(&request.body)))
            .collect()
    }

    /// A `memory.toml` that names this service as `name`, with these parameters in its URL, and a file as `local`.
    pub(crate) fn config(&self, name: &str, parameters: &str) -> String {
        let address = self.address();
        format!(
            "[backends.{name}]\nurl = \"{name}+http://{address}?{parameters}\"\n\
             [backends.local]\nurl = \"sqlite:memory.db\"\n\
             [egress]\nallow = [\"{address}\"]\n"
        )
    }
}
