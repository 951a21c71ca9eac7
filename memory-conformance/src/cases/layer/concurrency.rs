//! Lifetime and concurrency: ended runs, concurrent adds, later handles.

use memory_core::layer::AddOptions;
use memory_core::{Scope, ScopeKind};

use crate::case::{Case, case};
use crate::check::CaseResult;
use crate::cx::conversation::{Conversation, about, user};
use crate::harness::executor::BoxFuture;

pub(crate) const CASES: &[Case] = &[
    case!("layer.run.ended", [Layer], ["LAY-70"], |cx| {
        let chat = cx.conversation_in(cx.scope_of(ScopeKind::Run)?)?;
        chat.learn_all(&["theremin", "sextant"]).await?;
        cx.provider().end_run(&cx.tenant(), &chat.scope.id).await?;
        chat.knows_only(&[], &["theremin", "sextant"]).await?;
    }),
    case!("layer.run.ended-again", [Layer], ["LAY-70"], |cx| {
        let chat = cx.conversation_in(cx.scope_of(ScopeKind::Run)?)?;
        let ends = || cx.provider().end_run(&chat.scope.tenant, &chat.scope.id);
        // A fence would block whatever comes after the first end.
        if !cx.capabilities().run_fence {
            ends().await?;
        }
        chat.learn("theremin").await?;
        for _ in 0..2 {
            ends().await?;
        }
        chat.knows_only(&[], &["theremin"]).await?;
        let empty = cx.scope_of(ScopeKind::Run)?;
        cx.provider().end_run(&empty.tenant, &empty.id).await?;
    }),
    case!("layer.run.others-stay", [Layer], ["LAY-70"], |cx| {
        let chat = cx.conversation_in(cx.scope_of(ScopeKind::Run)?)?;
        chat.learn("theremin").await?;
        let others = [
            cx.conversation_in(cx.scope_of(ScopeKind::Run)?)?,
            cx.conversation_in(Scope { kind: ScopeKind::Agent, ..chat.scope.clone() })?,
            cx.conversation_in(Scope { kind: ScopeKind::User, ..chat.scope.clone() })?,
            cx.conversation_in(Scope { tenant: cx.other_tenant()?, ..chat.scope.clone() })?,
        ];
        for other in &others {
            other.learn("sextant").await?;
        }
        cx.provider().end_run(&cx.tenant(), &chat.scope.id).await?;
        for other in &others {
            other.knows_only(&["sextant"], &[]).await?;
        }
    }),
    case!("layer.company.adds-at-once", [Layer], ["LAY-71"], |cx, chat: Conversation| {
        let things = ["theremin", "sextant", "zeppelin", "harpsichord"];
        let adds = things.map(|thing| {
            let chat = &chat;
            let add: BoxFuture<'_, CaseResult> = Box::pin(async move {
                chat.add_and_wait(&user(&about(thing)), AddOptions::default()).await.map(drop)
            });
            add
        });
        for told in cx.threads(adds.into())? {
            told?;
        }
        for thing in things {
            chat.wait_for(thing).await?;
        }
        chat.knows_only(&things, &[]).await?;
    }),
    case!("layer.company.another-handle", [Layer], ["LAY-72"], |cx| {
        let other = cx.store().another_handle().await?;
        let chat = cx.conversation()?;
        chat.learn("theremin").await?;
        let beside = chat.through(other.layer());
        beside.knows_only(&["theremin"], &[]).await?;
        beside.learn("sextant").await?;
        chat.knows_only(&["theremin", "sextant"], &[]).await?;
    }),
    case!("layer.company.opened-again", [Layer], ["LAY-72"], |cx, chat: Conversation| {
        let store = cx.open().await?;
        chat.through(store.layer()).learn("theremin").await?;
        let store = store.reopen().await?;
        chat.through(store.layer()).knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.company.forgotten-for-all", [Layer, LayerForget], ["LAY-72"], |cx| {
        let other = cx.store().another_handle().await?;
        let chat = cx.conversation()?;
        let ids = chat.learn_all(&["theremin", "sextant"]).await?;
        let beside = chat.through(other.layer());
        beside.forget(ids.get(..1).unwrap_or_default()).await?;
        chat.knows_only(&["sextant"], &["theremin"]).await?;
        chat.forget_all().await?;
        beside.knows_only(&[], &["theremin", "sextant"]).await?;
    }),
];
