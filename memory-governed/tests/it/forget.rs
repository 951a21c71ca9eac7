//! What is forgotten is in no table any more, and nothing brings it back.

use memory_core::ErrorKind;
use memory_governed::{Bucket, PendingStatus, Trust};
use serde_json::{Value, json};

use crate::support::*;

impl World {
    /// No text in any table contains any of these words, now or after a rebuild, and the chain verifies.
    async fn has_nothing_of(&self, words: &[&str]) {
        for when in ["after forgetting", "after a rebuild"] {
            for (table, text) in self.texts().await {
                for word in words {
                    assert!(!text.to_lowercase().contains(word), "{when}: {word} in {table}: {text}");
                }
            }
            self.sound().await;
        }
    }

    async fn ids(&self, bucket: Bucket) -> Vec<String> {
        self.shared.bucket(bucket, true).await.unwrap().into_iter().map(|row| row.id).collect()
    }
}

/// A request with more members.
fn having(mut request: Value, more: Value) -> Value {
    request.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    request
}

on_both_stores! {
    async fn a_forgotten_note_is_in_no_table(world) {
        let private = having(
            upsert("issues", "ottilie_laptop", json!({ "title": "Ottilie lost a laptop", "description": "in Quedlinburg" })),
            json!({ "candidate_aliases": ["the Quedlinburg affair"], "rationale": "Ottilie said so" }),
        );
        let note = world.note(&private).await;
        let twin = world.note_by(&actor("bob", Trust::Agent), &private).await;
        world.promote().await;
        world.promote().await;
        // What refers to it, waits for it or was decided about it, and the outcomes of others.
        world.tell(upsert("task_state", "audit", json!({ "status": "blocked", "blockers_json": ["ottilie_laptop"] }))).await;
        world.tell(append("learnings", "lesson", json!({ "statement": "lock laptops", "source_issue_id": "ottilie_laptop" }))).await;
        world.open_issue("disk", "disk full").await;
        world.tell(upsert("issues", "disk", json!({ "entity_id": "ottilie_laptop" }))).await;
        world.tell(upsert("issues", "disk", json!({ "entity_id": "rack" }))).await;
        let vague = world.tell(resolve_the("one of these")).await;
        world.tell(resolve_the("that of Ottilie_laptop_2")).await;
        let bound = world.tell(resolve_the("the other one")).await;
        world.review.bind(pending_of(&bound), "ottilie_laptop", &person()).await.unwrap();
        world.tell(resolve("ottilie_laptop")).await;
        world.note("unrelated to ottilie_laptop, I think").await;
        world.promote().await;
        assert!(world.texts().await.iter().any(|(_, text)| text.contains("Quedlinburg")));

        let preview = world.eraser.note(&note.id, &person(), true).await.unwrap();
        assert!(world.shared.row(Bucket::Issues, "ottilie_laptop").await.unwrap().is_some(), "a trial forgets nothing");
        let forgotten = world.eraser.note(&note.id, &person(), false).await.unwrap();
        assert_eq!(preview, forgotten);
        assert!(forgotten.notes.contains(&note.id) && forgotten.notes.contains(&twin.id));
        let gone: Vec<&str> = forgotten.rows.iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(gone, ["ottilie_laptop", "audit", "lesson"]);
        // A note that mentioned it only in other words is someone else's; its own words are named here.
        world.has_nothing_of(&["ottilie_laptop\"", "lost a laptop", "quedlinburg", "said so", "lock laptops"]).await;
        assert_eq!(world.ids(Bucket::Issues).await, ["disk"]);
        assert_eq!(world.row(Bucket::Issues, "disk").await.text("entity_id"), Some("rack"));
        // Having one candidate less binds nothing.
        let vague = world.queue.show(pending_of(&vague)).await.unwrap().unwrap();
        assert_eq!(vague.status, PendingStatus::NeedsReview);
        assert_eq!(vague.candidates.len(), 1);
        let again = world.eraser.note(&note.id, &person(), false).await.unwrap();
        assert!(again.is_nothing(), "{again:?}");
    }

    /// Regression: only the exact spelling of the id was found.
    async fn a_forgotten_id_is_found_in_any_case_and_width(world) {
        world.open_issue("jane_doe_case", "Jane called").await;
        world.open_issue("disk", "disk full").await;
        world.tell(append("learnings", "lesson", json!({ "statement": "JANE_DOE_CASE taught us to ask" }))).await;
        for text in ["JANE_DOE_CASE needs care", "ｊａｎｅ＿ｄｏｅ＿ｃａｓｅ needs care", "jane_doe_cases are another matter"] {
            world.note(text).await;
            world.promote().await;
        }
        world.eraser.row(Bucket::Issues, "jane_doe_case", &person(), false).await.unwrap();
        world.has_nothing_of(&["jane_doe_case\"", "jane_doe_case ", "ｊａｎｅ"]).await;
        assert!(world.texts().await.iter().any(|(_, text)| text.contains("jane_doe_cases")), "another's words stay");
        assert_eq!(world.ids(Bucket::Issues).await, ["disk"]);
        assert!(world.ids(Bucket::Learnings).await.is_empty());
    }

    async fn a_row_keeps_what_other_notes_say_of_it(world) {
        world.open_issue("disk", "disk full").await;
        let told = world.note(upsert("issues", "disk", json!({ "description": "Ottilie filled it", "severity": "high" }))).await;
        world.promote().await;
        world.tell(upsert("issues", "disk", json!({ "severity": "low" }))).await;
        let ended = world.note(having(resolve("disk"), json!({ "rationale": "Ottilie emptied it" }))).await;
        world.promote().await;
        for note in [&told, &ended] {
            let forgotten = world.eraser.note(&note.id, &person(), false).await.unwrap();
            assert_eq!((forgotten.rows.len(), forgotten.events.len()), (0, 1));
        }
        let row = world.row(Bucket::Issues, "disk").await;
        assert_eq!((row.status.as_str(), row.text("description"), row.text("severity")), ("resolved", None, Some("low")));
        assert_eq!(world.ledger.verify(None).await.unwrap().erased, 2);
        world.has_nothing_of(&["ottilie"]).await;
        let why = world.shared.why(Bucket::Issues, "disk").await.unwrap();
        assert_eq!(why.events.iter().filter(|one| one.words.is_none()).count(), 2);
    }

    async fn a_forgotten_row_takes_its_events_and_the_words_behind_them(world) {
        let both = json!([
            upsert("constraints", "ottilie", json!({ "text": "ask Ottilie first" })),
            upsert("constraints", "window", json!({ "text": "only at night" })),
        ]);
        world.note(both).await;
        world.promote().await;
        world.tell(upsert("constraints", "ottilie", json!({ "text": "never ask Ottilie" }))).await;
        world.tell(upsert("issues", "ottilie", json!({ "title": "another bucket" }))).await;
        let forgotten = world.eraser.row(Bucket::Constraints, "ottilie", &person(), false).await.unwrap();
        assert_eq!((forgotten.rows.len(), forgotten.notes.len(), forgotten.events.len()), (1, 2, 3));
        world.has_nothing_of(&["ask ottilie", "never"]).await;
        assert_eq!(world.ids(Bucket::Constraints).await, ["window"]);
        assert_eq!(world.ids(Bucket::Issues).await, ["ottilie"], "a row of that id in another bucket stays");
        // The same id may be used again, for a different row.
        world.tell(upsert("constraints", "ottilie", json!({ "text": "anew" }))).await;
        assert_eq!(world.row(Bucket::Constraints, "ottilie").await.rev, 1);
        world.sound().await;
    }

    async fn what_was_not_promoted_yet_and_what_waits_is_forgotten(world) {
        world.open_issue("disk", "disk full").await;
        world.tell(resolve_the("what Ottilie said")).await;
        let waits = world.notes.notes("ada", "run").await.unwrap().pop().unwrap();
        let new = world.note("Ottilie, not promoted yet").await;
        for id in [&waits.id, &new.id] {
            assert!(!world.eraser.note(id, &person(), false).await.unwrap().is_nothing());
        }
        assert!(world.eraser.note("nobody", &person(), false).await.unwrap().is_nothing());
        assert!(world.eraser.row(Bucket::Issues, "nobody", &person(), false).await.unwrap().is_nothing());
        assert!(world.pipeline.promote_one().await.unwrap().is_none());
        world.has_nothing_of(&["ottilie"]).await;
        assert_eq!(world.row(Bucket::Issues, "disk").await.status, "open");
    }

    async fn a_tombstone_says_what_and_who_and_only_authority_forgets(world) {
        let note = world.note(upsert("issues", "disk", json!({ "title": "disk full" }))).await;
        world.promote().await;
        let refused = world.eraser.note(&note.id, &actor("ada", Trust::Agent), false).await.unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::Forbidden);
        world.eraser.note(&note.id, &person(), false).await.unwrap();
        assert_eq!(world.count("tombstones WHERE agent = 'pat' AND trust = 'person' AND forgotten_at > 0").await, 3);
        for sql in ["DELETE FROM tombstones", "UPDATE tombstones SET agent = 'eve'"] {
            assert_eq!(world.sql(sql).await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{sql}");
        }
        // An erased event accepts no other words, and no other event takes its place.
        for sql in [
            "UPDATE events_memory SET payload_json = '{\"title\":\"another\"}'",
            "UPDATE events_memory SET target_id = 'another'",
            "UPDATE events_memory SET source_ref = '{}'",
        ] {
            assert_eq!(world.sql(sql).await.unwrap_err().kind(), ErrorKind::InvalidArgument, "{sql}");
        }
    }
}
