//! Conversations of agents, kept by the store.

use memory::layer::RecallQuery;
use memory_rig::History;
use rig_agent::AgentBuilder;
use rig_core::memory::ConversationMemory;
use rig_core::message::Message;

use crate::support::{model, run, scope, store, tool};

fn history(memory: &memory::Memory) -> History {
    History::new(memory.clone(), run(), scope()).unwrap()
}

#[tokio::test]
async fn an_agent_goes_on_where_another_stopped() {
    let (memory, model) = (store().await, model().await);
    let agent =
        |thread: &str| AgentBuilder::new(model.clone()).memory(history(&memory)).conversation(thread).build();
    assert_eq!(agent("thread-1").prompt("I am Alice.").await.unwrap().output(), "<I am Alice.>");
    assert_eq!(
        agent("thread-1").prompt("Who am I?").await.unwrap().output(),
        "<I am Alice. | <I am Alice.> | Who am I?>"
    );
    assert_eq!(agent("thread-2").prompt("Who am I?").await.unwrap().output(), "<Who am I?>");

    let layer = memory.layer().unwrap();
    let facts = layer.recall(&run(), &scope(), RecallQuery::new("Alice").with_top_k(1)).await.unwrap();
    assert_eq!(facts[0].session.as_deref(), Some("thread-1"));
}

#[tokio::test]
async fn what_is_said_twice_is_kept_twice_in_order_until_it_is_cleared() {
    let memory = store().await;
    let (history, thread, other) = (history(&memory), "thread-1".into(), "thread-2".into());
    let said = vec![Message::user("yes"), Message::assistant("Sure?"), Message::user("yes")];
    history.append(&thread, said.clone()).await.unwrap();
    history.append(&other, vec![Message::user("no")]).await.unwrap();
    assert_eq!(history.load(&thread).await.unwrap(), said);

    history.clear(&thread).await.unwrap();
    assert!(history.load(&thread).await.unwrap().is_empty());
    assert_eq!(history.load(&other).await.unwrap(), [Message::user("no")]);
    history.append(&thread, said.clone()).await.unwrap();
    assert_eq!(history.load(&thread).await.unwrap(), said);
}

#[tokio::test]
async fn calls_of_tools_are_left_out_of_what_was_said() {
    let memory = store().await;
    let agent = AgentBuilder::new(model().await).tool(tool(&memory)).default_max_turns(5);
    let agent = agent.memory(history(&memory)).conversation("thread-1").build();
    agent.prompt(r#"{"op": "get", "key": "note"}"#).await.unwrap();
    let kept = history(&memory).load(&"thread-1".into()).await.unwrap();
    assert_eq!(kept.len(), 2, "{kept:?}");
    assert_eq!(kept[0], Message::user(r#"{"op": "get", "key": "note"}"#));
}

#[tokio::test]
async fn what_the_layer_refuses_is_an_error() {
    let history = history(&store().await);
    let error = history.append(&"".into(), vec![Message::user("hello")]).await.unwrap_err();
    let source = std::error::Error::source(&error).unwrap().downcast_ref::<memory::Error>();
    assert_eq!(source.unwrap().kind(), memory::ErrorKind::InvalidArgument);
}
