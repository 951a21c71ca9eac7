//! What the words around a form, a tool, or an unasked model may do: notes read by the rules, on both stores.

use std::sync::Arc;

use memory_governed::interpret::Rules;
use memory_governed::{Actor, Bucket, Calibrated, NoteSource, Outcome, PromotionPipeline, Trust};

use crate::support::*;

/// The outcomes of the writes of a note read by the rules.
async fn said(world: &World, by: &Actor, source: NoteSource, text: &str) -> Vec<Outcome> {
    world.clock.advance(std::time::Duration::from_secs(1));
    let pipeline = PromotionPipeline::new(&world.space, Arc::new(Rules), Arc::new(Calibrated::new()));
    world.notes.note(by, source, text, None).await.unwrap();
    pipeline.promote_one().await.unwrap().unwrap().outcomes
}

fn is_deferred(outcomes: &[Outcome]) -> bool {
    !outcomes.is_empty() && outcomes.iter().all(|one| matches!(one, Outcome::Deferred { .. }))
}

fn ada() -> Actor {
    actor("ada", Trust::Agent)
}

on_both_stores! {
    async fn what_stands_before_a_form_may_defer_the_note(world) {
        for text in [
            "Bob said:\ntask imp: done",
            "Bob said\ntask imp is done",
            "If tests pass:\ntask imp: done",
            "When the tests pass,\ntask imp: done",
            "TODO\ntask imp: failed",
            "Example:\nplan: drop everything",
            "# Example\nplan: drop everything",
            "Do not write:\ndecision fake_d: evil",
            "Don't do this.\ndecision fake_d: evil",
            "log output:\nstarting\nissue fake_i: pwned",
            "Shall we?\nplan: drop everything",
            "> seen in chat\nplan: drop everything",
            "He wrote \"\nplan: drop everything\n\"",
            "issue disk: no space left\nBob said:\ntask imp: done",
            "issue disk: no space left\nTODO\ntask imp: done",
        ] {
            let outcomes = said(&world, &ada(), NoteSource::Agent, text).await;
            assert!(is_deferred(&outcomes), "{text}: {outcomes:?}");
        }
        for text in ["```\nplan: drop everything\n```", "~~~\nplan: drop everything\n~~~"] {
            assert!(said(&world, &ada(), NoteSource::Agent, text).await.is_empty(), "{text}");
        }
        assert_eq!(world.count("events_memory").await, 0);
        for (n, text) in [
            "Ran the suite twice.\ntask imp_N: done",
            "Status of today:\ntask imp_N: done",
            "The build failed again.\ntask imp_N: failed",
            "Still at it.\n---\n- task imp_N: in progress",
            "issue disk_N: no space left\nSeen on host 7, not on host 8\ntask imp_N: done",
        ].into_iter().enumerate() {
            let text = text.replace('N', &n.to_string());
            let outcomes = said(&world, &ada(), NoteSource::Agent, &text).await;
            assert!(!outcomes.is_empty() && outcomes.iter().all(is_committed), "{text}: {outcomes:?}");
        }
    }

    async fn a_person_begins_what_was_only_proposed(world) {
        let fetch = actor("fetch", Trust::Untrusted);
        let outcomes = said(&world, &fetch, NoteSource::Agent, "constraint budget: at most 10 euros").await;
        let outcome = world.review.bind(pending_of(&outcomes[0]), "budget", &person()).await.unwrap();
        assert!(is_committed(&outcome), "{outcome:?}");
        assert_eq!(world.row(Bucket::Constraints, "budget").await.created_by, "fetch");
    }

    async fn what_is_not_trusted_only_proposes(world) {
        let fetch = actor("fetch", Trust::Untrusted);
        for (by, source, text) in [
            (&fetch, NoteSource::Agent, "plan: drop everything"),
            (&fetch, NoteSource::ToolResult, "constraint budget: at most 10 euros"),
            (&fetch, NoteSource::Agent, "decision db: use SQLite"),
            (&ada(), NoteSource::ToolResult, "decision db: use SQLite"),
        ] {
            assert!(is_deferred(&said(&world, by, source, text).await), "{text}");
        }
        let by_bob = said(&world, &actor("bob", Trust::Agent), NoteSource::Agent, "task build: done").await;
        assert!(is_committed(&by_bob[0]));
        for (by, source) in [(&fetch, NoteSource::Agent), (&ada(), NoteSource::ToolResult)] {
            assert!(is_deferred(&said(&world, by, source, "task build: failed").await), "{by:?}");
        }
        for text in ["issue disk: no space left", "learning: measure first", "result: recall = 0.7", "task own: done", "task own: failed"] {
            let outcomes = said(&world, &fetch, NoteSource::ToolResult, text).await;
            assert!(is_committed(&outcomes[0]), "{text}: {outcomes:?}");
        }
    }

    async fn what_an_authority_wrote_is_changed_by_its_like_alone(world) {
        let lead = actor("lead", Trust::Authority);
        for (first, second, third) in [
            ("plan: one", "plan: two", "plan: three"),
            ("constraint budget: 10", "constraint budget: 20", "constraint budget: 30"),
        ] {
            assert!(is_committed(&said(&world, &ada(), NoteSource::Agent, first).await[0]));
            assert!(is_committed(&said(&world, &lead, NoteSource::Agent, second).await[0]));
            assert!(is_deferred(&said(&world, &ada(), NoteSource::Agent, third).await), "{third}");
            assert!(is_committed(&said(&world, &lead, NoteSource::Agent, third).await[0]));
        }
        world.sound().await;
    }

    async fn an_end_in_no_known_form_waits(world) {
        said(&world, &ada(), NoteSource::Agent, "issue db_outage: Database outage").await;
        for text in ["zzz_limit is lifted", "db_outage no longer occurs.", "Patched db_outage in commit 3fa9c1d.", "Patched zzz_limit"] {
            let outcomes = said(&world, &ada(), NoteSource::Agent, text).await;
            assert!(is_deferred(&outcomes), "{text}: {outcomes:?}");
        }
        let lead = actor("lead", Trust::Authority);
        for (n, verb) in ["resolve", "close", "Close the issue"].into_iter().enumerate() {
            said(&world, &ada(), NoteSource::Agent, &format!("issue slow_{n}: slow thing {n}")).await;
            let text = format!("{verb} slow_{n}");
            assert!(is_deferred(&said(&world, &ada(), NoteSource::Agent, &text).await), "{text} by an agent");
            let outcomes = said(&world, &lead, NoteSource::Agent, &text).await;
            assert!(is_committed(&outcomes[0]), "{text}: {outcomes:?}");
        }
        said(&world, &lead, NoteSource::Agent, "constraint max_cost: 10 euros").await;
        said(&world, &lead, NoteSource::Agent, "resolve db_outage?").await;
        assert_eq!(world.row(Bucket::Issues, "db_outage").await.status, "open");
        let outcomes = said(&world, &lead, NoteSource::Agent, "invalidate max_cost").await;
        assert!(is_committed(&outcomes[0]), "{outcomes:?}");
    }

    async fn a_rebuild_puts_names_right_and_says_so(world) {
        world.tell(serde_json::json!({ "bucket": "issues", "operation": "upsert", "target_id": "a",
            "payload": { "title": "one" }, "candidate_aliases": ["the first"] })).await;
        assert!(world.ledger.rebuild().await.unwrap().agrees());
        for sql in [
            "UPDATE aliases SET trust = 'person'",
            "UPDATE aliases SET alias_norm = 'the other'",
            "DELETE FROM aliases",
            "INSERT INTO aliases (bucket, target_id, alias_norm, kind, source_event, trust) \
             VALUES ('issues', 'zzz', 'poison', 'given', 1, 'person')",
        ] {
            world.sql(sql).await.unwrap();
            assert!(!world.ledger.rebuild().await.unwrap().agrees(), "{sql}");
            assert!(world.ledger.rebuild().await.unwrap().agrees(), "{sql}");
            assert_eq!(world.count("aliases").await, 1, "{sql}");
        }
    }

    async fn no_insertion_takes_the_place_of_an_event(world) {
        if world.store.given.contains("postgres:") {
            return;
        }
        world.open_issue("a", "one").await;
        for column in ["seq", "event_id", "idempotency_key"] {
            let other = ["seq", "event_id", "idempotency_key"].map(|name| match name {
                _ if name == column => name.to_owned(),
                "seq" => "seq + 100".to_owned(),
                _ => format!("{name} || 'x'"),
            });
            let rest = "observed_at, recorded_at, 'eve', source_run, trust, note_id, causation_pending_id, bucket, target_id, \
                        operation, expected_rev, payload_json, source_ref, raw_digest, target_digest, content_digest, prev_hash, hash";
            let sql = format!("INSERT OR REPLACE INTO events_memory SELECT {}, {rest} FROM events_memory", other.join(", "));
            assert!(world.sql(&sql).await.is_err(), "{column}");
        }
        assert_eq!(world.count("events_memory").await, 1);
        world.sound().await;
    }
}
