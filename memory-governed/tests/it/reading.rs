//! What agents read.

use memory_governed::{AsOf, Bucket};
use serde_json::json;

use crate::support::*;

on_both_stores! {
    async fn the_past_is_read_by_when_it_held_and_by_when_it_was_known(world) {
        world.open_issue("a", "one").await;
        let opened = world.row(Bucket::Issues, "a").await.valid_from;
        let known = world.shared.why(Bucket::Issues, "a").await.unwrap().events[0].event.recorded_at;
        world.tell(resolve("a")).await;
        assert!(world.shared.bucket(Bucket::Issues, false).await.unwrap().is_empty());
        assert_eq!(world.shared.bucket(Bucket::Issues, true).await.unwrap().len(), 1);
        for at in [
            AsOf { valid: Some(opened), recorded: None },
            AsOf { valid: None, recorded: Some(known) },
        ] {
            let rows = world.shared.as_of(Bucket::Issues, at).await.unwrap();
            assert_eq!(rows.len(), 1, "{at:?}");
            assert_eq!(rows[0].status, "open");
        }
        let before = memory_core::Timestamp::from_millis(opened.as_millis() - 1).unwrap();
        let rows = world.shared.as_of(Bucket::Issues, AsOf { valid: Some(before), recorded: None }).await.unwrap();
        assert!(rows.is_empty());
        assert!(world.shared.as_of(Bucket::Issues, AsOf::default()).await.unwrap().is_empty());
    }

    async fn a_row_says_why_it_is_so_and_what_depends_on_it(world) {
        world.open_issue("root", "disk full").await;
        world.tell(upsert("task_state", "deploy", json!({ "status": "blocked", "blockers_json": ["root"] }))).await;
        world.tell(append("learnings", "lesson", json!({ "statement": "watch disks", "source_issue_id": "root" }))).await;
        world.tell(upsert("issues", "after", json!({ "title": "late release", "entity_id": "deploy" }))).await;
        world.tell(upsert("issues", "apart", json!({ "title": "root of all evil" }))).await;
        let why = world.shared.why(Bucket::Issues, "root").await.unwrap();
        assert_eq!(why.events.len(), 1);
        assert!(why.events[0].words.as_ref().unwrap().contains("disk full"));
        assert_eq!(why.events[0].event.source_ref.interpreter, "literal-1");
        assert_eq!(why.events[0].projection, "applied");
        let ids: Vec<&str> = why.dependents.iter().map(|(_, id)| id.as_str()).collect();
        assert_eq!(ids, ["after", "deploy", "lesson"]);
        let nothing = world.shared.why(Bucket::Issues, "nobody").await.unwrap();
        assert!(nothing.row.is_none() && nothing.events.is_empty() && nothing.dependents.is_empty());
    }

    async fn notes_are_private_to_an_agent_and_its_run(world) {
        world.note("mine").await;
        world.note_by(&actor("eve", memory_governed::Trust::Agent), "hers").await;
        let mine = world.notes.notes("ada", "run").await.unwrap();
        assert_eq!(mine.iter().map(|note| note.text.as_deref().unwrap()).collect::<Vec<_>>(), ["mine"]);
        assert!(world.notes.notes("ada", "another").await.unwrap().is_empty());
        let blank = world.notes.note(&person(), memory_governed::NoteSource::Agent, "  ", None).await;
        assert!(blank.is_err());
    }
}
