//! CLO: the end of a handle.

use memory_core::{ErrorKind, Scope, SetOptions};

use crate::case::{Case, case};
use crate::check::{check, expect_eq};
use crate::cx::{json, key};

pub(crate) const CASES: &[Case] = &[
    case!("close.counts.are-stored", [Kv], ["CLO-1"], |cx, scope: Scope| {
        let own = cx.on(cx.open().await?);
        own.set(&scope, "k", "1").await?;
        for _ in 0..3 {
            own.access(&scope, "k").await?;
        }
        own.provider().close().await?;
        // The closed handle lives on, so that nothing is stored because it was dropped.
        let beside = cx.on(own.store().another_handle().await?);
        expect_eq!(beside.live(&scope, "k").await?.access_count, 3, "accesses that a closed handle counted");
    }),
    case!("close.again.succeeds", [Kv], ["CLO-2"], |cx| {
        let store = cx.open().await?;
        store.provider().close().await?;
        check!(store.provider().close().await.is_ok(), "closing again failed");
    }),
    case!("close.handles.one-ends", [Kv], ["CLO-2"], |cx, scope: Scope| {
        let own = cx.on(cx.open().await?);
        let beside = cx.on(own.store().another_handle().await?);
        own.set(&scope, "own", "1").await?;
        beside.set(&scope, "beside", "1").await?;
        own.provider().close().await?;
        for name in ["own", "beside"] {
            check!(
                beside.entry(&scope, name).await?.is_some(),
                "another handle does not see `{name}` any more"
            );
        }
        beside.set(&scope, "later", "1").await?;
    }),
    case!("close.calls.refused-or-served", [Kv], ["CLO-3"], |cx, scope: Scope| {
        let own = cx.on(cx.open().await?);
        let beside = cx.on(own.store().another_handle().await?);
        own.provider().close().await?;
        let written = own.kv().set(&scope, &key("k")?, json("1")?, SetOptions::default()).await;
        if let Err(error) = &written {
            expect_eq!(error.kind(), ErrorKind::Unavailable, "the error of a write through a closed handle");
        }
        expect_eq!(
            beside.entry(&scope, "k").await?.is_some(),
            written.is_ok(),
            "whether a write through a closed handle is stored"
        );
    }),
];
