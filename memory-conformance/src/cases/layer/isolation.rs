//! A scope's facts belong to it alone.

use memory_core::layer::{AddOptions, FactsQuery, Forget, RecallQuery};
use memory_core::{ErrorKind, Scope, ScopeId, ScopeKind};

use crate::case::{Case, case};
use crate::check::{CaseResult, expect_eq, expect_kind};
use crate::cx::Cx;
use crate::cx::conversation::{Conversation, about, user};

pub(crate) const CASES: &[Case] = &[
    case!("layer.own.kinds", [Layer], ["LAY-50"], |cx| {
        let scopes =
            ScopeKind::ALL.into_iter().map(|kind| cx.scope_named(kind, "same")).collect::<CaseResult<_>>()?;
        apart(cx, scopes).await?;
    }),
    case!("layer.own.tenants", [Layer], ["LAY-50"], |cx| {
        let mut scopes = Vec::new();
        for tenant in [cx.tenant(), cx.other_tenant()?] {
            for kind in ScopeKind::ALL {
                scopes.push(Scope::new(tenant.clone(), kind, ScopeId::new("same")?));
            }
        }
        apart(cx, scopes).await?;
    }),
    case!("layer.own.near-ids", [Layer], ["LAY-51"], |cx| {
        let ids: Vec<&str> =
            "Alice|alice|alice.|alice..|ali ce|ali  ce|al\u{e9}ce|ale\u{301}ce|alice/|ice|alic|alicea"
                .split('|')
                .collect();
        apart(cx, agents(cx, &ids)?).await?;
    }),
    case!("layer.own.wildcard-ids", [Layer], ["LAY-50"], |cx| {
        apart(cx, agents(cx, &["**", "a*", "*a", "%", "_", "a%", "a_", "ab", "?", ".*", "[a-z]", "#"])?)
            .await?;
    }),
    case!("layer.own.separators", [Layer], ["LAY-50"], |cx| {
        let mut scopes =
            agents(cx, &["a:b", "a/b", "a~b", "a_b", "a-b", "a|b", "a%2Fb", "../a", "user/a", "agent~a"])?;
        let sub = |kind, id: &str| cx.scope_named(kind, id);
        scopes.push(sub(ScopeKind::User, "a")?);
        scopes.push(sub(ScopeKind::User, "agent/a")?);
        scopes.push(sub(ScopeKind::Run, "other/agent/a")?);
        scopes.push(Scope::new(cx.other_tenant()?, ScopeKind::Agent, ScopeId::new("a")?));
        apart(cx, scopes).await?;
    }),
    case!("layer.own.logic-ids", [Layer], ["LAY-50"], |cx| {
        let ids: Vec<&str> =
            "AND|OR|NOT|$or|$not|null|undefined|true|0|{\"user_id\":\"*\"}|*,*|x&user_id=y|y"
                .split('|')
                .collect();
        apart(cx, agents(cx, &ids)?).await?;
    }),
    case!("layer.own.long-ids", [Layer], ["LAY-50"], |cx| {
        let stem = "x".repeat(255);
        let ids = [
            format!("{stem}a"),
            format!("{stem}b"),
            stem.clone(),
            "x".repeat(100),
            "x".repeat(101),
            "é".repeat(128),
        ];
        apart(cx, agents(cx, &ids.each_ref().map(String::as_str))?).await?;
    }),
    case!("layer.own.another-tenants-run", [Layer], ["LAY-52"], |cx, chat: Conversation| {
        let id = chat.learn("theremin").await?;
        let (run, scope, layer) = (cx.run_of(&cx.other_tenant()?)?, &chat.scope, cx.store().layer());
        let add = layer.add(&run, scope, &user(&about("sextant")), AddOptions::default()).await;
        expect_kind!(add, ErrorKind::ScopeDenied, "an add to another tenant's scope");
        let recall = layer.recall(&run, scope, RecallQuery::new("theremin")).await;
        expect_kind!(recall, ErrorKind::ScopeDenied, "a question to another tenant's scope");
        let facts = layer.facts(&run, scope, FactsQuery::default()).await;
        expect_kind!(facts, ErrorKind::ScopeDenied, "a listing of another tenant's scope");
        if cx.capabilities().layer_forget {
            for what in [Forget::All, Forget::Ids(vec![id])] {
                let forget = layer.forget(&run, scope, what).await;
                expect_kind!(forget, ErrorKind::ScopeDenied, "forgetting in another tenant's scope");
            }
        }
        chat.knows_only(&["theremin"], &["sextant"]).await?;
    }),
    case!("layer.own.runs-share", [Layer], ["LAY-53"], |cx| {
        for kind in [ScopeKind::Agent, ScopeKind::User] {
            let scope = cx.scope_of(kind)?;
            let (one, other) = (cx.conversation_in(scope.clone())?, cx.conversation_in(scope)?);
            one.learn("theremin").await?;
            other.knows_only(&["theremin"], &[]).await?;
        }
    }),
    case!("layer.own.same-words", [Layer, LayerForget], ["LAY-54"], |cx, one: Conversation| {
        let other = cx.conversation_in(Scope { tenant: cx.other_tenant()?, ..one.scope.clone() })?;
        let (first, second) = (one.learn("theremin").await?, other.learn("theremin").await?);
        one.forget(&[first]).await?;
        one.knows_only(&[], &["theremin"]).await?;
        other.knows_only(&["theremin"], &[]).await?;
        one.add_and_wait(&user(&about("theremin")), AddOptions::default().with_again(true)).await?;
        one.wait_for("theremin").await?;
        other.forget(&[second]).await?;
        one.knows_only(&["theremin"], &[]).await?;
    }),
    case!("layer.own.same-words-learned", [Layer], ["LAY-54"], |cx| {
        let talks =
            [cx.conversation()?, cx.conversation()?, cx.conversation_in(cx.scope_of(ScopeKind::User)?)?];
        for chat in &talks {
            chat.learn("theremin").await?;
        }
        for chat in &talks {
            chat.knows_only(&["theremin"], &[]).await?;
            expect_eq!(chat.facts().await?.len(), 1, "facts of one of three scopes with the same words");
        }
    }),
    // A layer that reconciles must not replace another scope's fact by this scope's.
    case!("layer.own.replacing", [Layer], ["LAY-50"], |cx, one: Conversation, other: Conversation| {
        one.add_and_wait(&user("Boss is Carl."), AddOptions::default()).await?;
        one.wait_for("Carl").await?;
        other.add_and_wait(&user("Boss is Dora."), AddOptions::default()).await?;
        other.wait_for("Dora").await?;
        one.knows_only(&["Carl"], &["Dora"]).await?;
        other.knows_only(&["Dora"], &["Carl"]).await?;
    }),
];

/// Words that no two facts share.
const THINGS: &str = "theremin sextant zeppelin harpsichord trebuchet didgeridoo astrolabe gargoyle marzipan obelisk \
     quagmire rhubarb samovar tambourine umbrella velociraptor";

/// Teaches each scope its own word, then asks each for its own and its neighbour's.
async fn apart(cx: &Cx, scopes: Vec<Scope>) -> CaseResult {
    let mut talks = Vec::new();
    for (scope, thing) in scopes.into_iter().zip(THINGS.split(' ')) {
        let chat = cx.conversation_in(scope)?;
        chat.learn(thing).await?;
        talks.push((chat, thing));
    }
    for (chat, thing) in &talks {
        let strange: Vec<&str> = THINGS.split(' ').filter(|other| other != thing).collect();
        chat.knows_only(&[thing], &strange).await?;
        expect_eq!(
            chat.facts().await?.len(),
            1,
            "facts of {:?} {:?}",
            chat.scope.kind,
            chat.scope.id.as_str()
        );
    }
    Ok(())
}

fn agents(cx: &Cx, ids: &[&str]) -> CaseResult<Vec<Scope>> {
    ids.iter().map(|id| cx.scope_named(ScopeKind::Agent, id)).collect()
}
