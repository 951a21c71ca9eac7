//! What an `add` would do, before doing it.

use memory_core::layer::{AddOptions, AddOutcome, FactId, Message, Role};
use memory_core::{ErrorKind, MemoryLayer as _};
use memory_recall::{AddPlan, fact_of_message};

use crate::storage::{Store, run, scope};

fn with_id(id: &str, text: &str) -> Message {
    Message::new(Role::User, text).with_id(id.to_owned())
}

fn told(outcome: AddOutcome) -> (String, u64, Vec<FactId>) {
    let mut different = outcome.different;
    different.sort();
    (format!("{:?}", outcome.status), outcome.known, different)
}

#[tokio::test]
async fn a_plan_tells_of_the_same_calls_what_adding_then_does() {
    let store = Store::new("plan");
    let memory = store.open();
    memory.add(&run(), &scope(), &[with_id("0", "tea")], AddOptions::default()).await.unwrap();
    let instead = |id: &str| {
        let fact = fact_of_message(&scope(), &with_id(id, "")).unwrap();
        AddOptions::default().with_again(true).with_supersedes(vec![fact])
    };
    let calls = [
        (vec![with_id("0", "tea"), with_id("1", "milk"), with_id("1", "milk")], AddOptions::default()),
        (vec![with_id("1", "milk"), with_id("0", "coffee"), with_id("2", "")], AddOptions::default()),
        (vec![with_id("1", "water"), with_id("3", "juice"), with_id("3", "lemonade")], AddOptions::default()),
        (vec![with_id("1", "water")], instead("1")),
        (vec![with_id("0", "coffee")], instead("0")),
        (vec![with_id("1", "water"), with_id("0", "coffee")], AddOptions::default()),
    ];
    let mut plan = AddPlan::new(&memory, 1 << 20);
    let mut planned = Vec::new();
    for (messages, options) in &calls {
        planned.push(told(plan.add(&scope(), messages, options).await.unwrap()));
    }
    for (messages, what) in [
        (with_id(&"x".repeat(600), "tea"), "an id that is too long"),
        (
            with_id("4", &format!("x{}x", "\n".repeat((1 << 20) - 9))),
            "words that are longer as JSON than the store takes",
        ),
    ] {
        let refused = plan.add(&scope(), &[messages], &AddOptions::default()).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::TooLarge, "{what}");
    }

    for ((messages, options), planned) in calls.into_iter().zip(planned) {
        let done = memory.add(&run(), &scope(), &messages, options).await.unwrap();
        assert_eq!(told(done), planned, "{messages:?}");
    }
}
