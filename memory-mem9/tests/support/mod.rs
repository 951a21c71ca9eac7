//! A mem9 to test against: a fake server that answers as the real one does, faults included, and a provider for it.

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
use memory_http::Tenancy;
use memory_mem9::{Mem9Options, Mem9Provider};

pub use memory_fakes::mem9::{self as fake, KEY};
pub use memory_fakes::{ParsedRequest, bad_replies, http, key_file, recorded, run_of, sent, serve};

use self::http::{Server, builder};

/// One key for all tenants, so that only `agent_id` separates them.
pub fn options(url: &str) -> Mem9Options {
    let mut options = Mem9Options::new(url);
    options.preview = true;
    options.tenancy = Tenancy::SharedKey;
    options.api_key_file = Some(key_file(KEY));
    options
}

/// A provider with these options.
pub fn provider(server: &Server, options: Mem9Options) -> Mem9Provider {
    let client = builder(server.policy()).build().unwrap();
    Mem9Provider::with_client(options, client).unwrap()
}

pub fn checked(server: &Server) -> Checked<Mem9Provider> {
    Checked::new(provider(server, options(&server.url("")))).unwrap()
}
