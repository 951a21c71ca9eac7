//! A mem0 to test against: fake servers that answer as the real ones do, faults included, and a provider for them.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stderr,
    reason = "each test binary uses a part of it"
)]

use memory_core::Checked;
use memory_mem0::{Mem0Options, Mem0Provider};

pub use memory_fakes::mem0::{KEY, platform, self_hosted};
pub use memory_fakes::{ParsedRequest, bad_replies, http, key_file, recorded, run_of, sent, serve};

use self::http::{Server, builder};

/// Options for a server at this address.
pub fn options(mut options: Mem0Options, url: &str) -> Mem0Options {
    options.base_url = Some(url.to_owned());
    if options.api_key_file.is_none() && options.api_key_env.is_none() {
        options.api_key_file = Some(key_file(KEY));
    }
    options
}

/// A provider for this server.
pub fn provider(server: &Server, flavour: Mem0Options) -> Mem0Provider {
    let client = builder(server.policy()).build().unwrap();
    Mem0Provider::with_client(options(flavour, &server.url("")), client).unwrap()
}

pub fn checked(server: &Server, flavour: Mem0Options) -> Checked<Mem0Provider> {
    Checked::new(provider(server, flavour)).unwrap()
}
