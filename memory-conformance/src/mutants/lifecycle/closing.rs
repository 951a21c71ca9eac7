//! CLO: what closing loses, and its effects on others.

use memory_core::{Error, ErrorKind, Provider, Reply, Request, Result, SetOutcome};

use crate::harness::executor::BoxFuture;
use crate::mutants::memory::Memory;
use crate::mutants::mutant::mutants;
use crate::reference::fault::Fault;

mutants! {
    |memory, request, next|
    "close.loses-counts": ["CLO-1"], "closing does not store the access counts" => fault(Fault::CloseLosesCounts);
    "close.ends-the-store": ["CLO-2"], "closing a handle ends the store of all" => fault(Fault::CloseEndsTheStore);
    "close.again-fails": ["CLO-2"], "closing again fails" => close(again_fails);
    "close.acknowledges": ["CLO-3"], "a closed handle acknowledges a write and forgets it"
        => instead(Request::Set { .. } if memory.is_closed() => Ok(Reply::Set(SetOutcome::new(1, true, true, None))));
}

fn again_fails<'a>(memory: &'a Memory, inner: &'a dyn Provider) -> BoxFuture<'a, Result<()>> {
    Box::pin(async {
        if memory.is_closed() {
            return Err(Error::new(ErrorKind::Unavailable, "the store is closed; open it again"));
        }
        inner.close().await
    })
}
