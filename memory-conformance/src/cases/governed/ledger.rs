//! GOV-28, GOV-30, GOV-38, GOV-39, GOV-41, GOV-42, GOV-49: the ledger, and what becomes of notes.

use memory_core::{Error, ErrorKind};
use memory_governed::{Anchor, Bucket};
use serde_json::{Value, json};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind};
use crate::cx::shared::{agent, append, invalidate, kind, person, resolve, upsert};

pub(crate) const CASES: &[Case] = &[
    case!("gov.ledger.rebuild-is-live", [Sql, HostTables], ["GOV-28"], |cx| {
        let (shared, mut random) = (cx.shared().await?, cx.random());
        for step in 0..60_u32 {
            let (id, word) = (format!("id_{}", random.below(4)), format!("word {}", random.below(3)));
            let request = match random.below(9) {
                0 => {
                    json!({ "bucket": "plan", "operation": "upsert", "payload": { "plan_json": { "step": word } } })
                }
                1 => upsert("constraints", &id, json!({ "text": word })),
                2 => invalidate("constraints", &id),
                3 => upsert("issues", &id, json!({ "title": word, "severity": "low" })),
                4 => resolve(&id),
                5 => append("decisions", &id, json!({ "statement": word })),
                6 => upsert("task_state", &id, json!({ "status": "done", "blockers_json": ["b", step] })),
                7 => append("learnings", &id, json!({ "statement": word, "confidence": 0.1 })),
                _ => append(
                    "results",
                    &id,
                    json!({ "metric_name": "m", "metric_value": f64::from(step) / 3.0 }),
                ),
            };
            shared.ask_by(&agent(if random.one_in(3) { "bob" } else { "ada" }), request).await?;
        }
        check!(shared.count("events_memory").await? > 20, "too few events to tell anything");
        let live = shared.state.digest().await?;
        shared.is_sound().await?;
        expect_eq!(shared.state.digest().await?, live, "the tables after a rebuild");
        // If somebody changes a table behind the ledger's back, the events prevail.
        shared.tables.exec("DELETE FROM shared_results").await?;
        let rebuilt = shared.state.rebuild().await?;
        check!(!rebuilt.agrees(), "a rebuild does not notice that rows were missing");
        expect_eq!(shared.state.digest().await?, live, "the tables, made anew from the events");
    }),
    case!("gov.ledger.rebuild-of-what-was-edited", [Sql, HostTables], ["GOV-49"], |cx| {
        let shared = cx.shared().await?;
        for n in 0..3 {
            shared.write(&format!("issue disk_{n}: Disk {n} is full")).await?;
        }
        shared.tables.exec("DELETE FROM shared_issues WHERE id = 'disk_0'").await?;
        let live = shared.state.digest().await?;
        shared.tables.exec_all(without_triggers(cx)).await?;
        shared.tables.exec("UPDATE events_memory SET target_id = 'x' WHERE seq = 2").await?;
        is_broken_at(shared.state.rebuild().await, 2, "an event that was edited before a rebuild")?;
        expect_eq!(shared.state.digest().await?, live, "the tables after a rebuild that was refused");
        shared.tables.exec("UPDATE events_memory SET target_id = 'disk_1' WHERE seq = 2").await?;
        check!(!shared.state.rebuild().await?.agrees(), "a rebuild of a ledger that holds changes nothing");
        expect_eq!(shared.state.rows(Bucket::Issues, false).await?.len(), 3, "rows made anew");
    }),
    case!("gov.ledger.same-note-twice", [Sql, HostTables], ["GOV-30"], |cx| {
        let shared = cx.shared().await?;
        let text = "result: recall = 0.5";
        expect_eq!(kind(&shared.write(text).await?), "applied");
        check!(shared.state.promote_one().await?.is_none(), "a note was promoted twice");
        // Simulates a pipeline that died before it marked the note, or anybody who hands the note out again.
        for state in ["new", "leased"] {
            shared.tables.exec(&format!("UPDATE notes SET state = '{state}', lease_until = 0")).await?;
            cx.advance_ms(120_000);
            shared.promoted().await?;
        }
        expect_eq!(
            shared.count("events_memory").await?,
            1,
            "events of one note that was handed out three times"
        );
        expect_eq!(shared.state.rows(Bucket::Results, false).await?.len(), 1, "measurements");
        // The same words again are another note, and another measurement.
        expect_eq!(kind(&shared.write(text).await?), "applied");
        expect_eq!(shared.state.rows(Bucket::Results, false).await?.len(), 2, "measurements of two notes");
        shared.is_sound().await?;
    }),
    case!("gov.ledger.edits-and-cuts", [Sql, HostTables], ["GOV-38"], |cx| {
        let shared = cx.shared().await?;
        for n in 0..4 {
            shared.write(&format!("issue disk_{n}: Disk {n} is full")).await?;
        }
        let anchor = shared.state.anchor().await?;
        expect_eq!(shared.state.verify(Some(&anchor)).await?.anchor, anchor, "the end of the ledger");
        let tables = &shared.tables;
        for sql in [
            "UPDATE events_memory SET source_agent = 'eve'",
            "DELETE FROM events_memory",
            "DELETE FROM events_memory WHERE seq = 4",
            "DELETE FROM events_raw",
        ] {
            expect_kind!(tables.exec(sql).await, ErrorKind::InvalidArgument, "`{sql}`");
        }
        // Whoever owns the database can switch the triggers off.
        tables.exec_all(without_triggers(cx)).await?;
        tables.exec("UPDATE events_memory SET source_agent = 'eve' WHERE seq = 2").await?;
        is_broken_at(shared.state.verify(None).await, 2, "an event whose writer was changed")?;
        tables.exec("UPDATE events_memory SET source_agent = 'ada' WHERE seq = 2").await?;
        tables.exec("UPDATE events_memory SET target_id = 'x' WHERE seq = 3").await?;
        is_broken_at(shared.state.verify(None).await, 3, "an event whose row was changed")?;
        tables.exec("UPDATE events_memory SET target_id = 'disk_2' WHERE seq = 3").await?;
        shared.state.verify(Some(&anchor)).await?;
        tables.exec("UPDATE events_raw SET raw_input = raw_input || '!'").await?;
        is_broken_at(shared.state.verify(None).await, 1, "words that were changed")?;
        tables.exec("UPDATE events_raw SET raw_input = substr(raw_input, 1, length(raw_input) - 1)").await?;
        shared.state.verify(Some(&anchor)).await?;
        let foreign = Anchor { seq: 1, hash: "0".repeat(64) };
        is_broken_at(shared.state.verify(Some(&foreign)).await, 1, "an anchor of another ledger")?;
        tables.exec("DELETE FROM events_memory WHERE seq = 4").await?;
        is_broken_at(shared.state.verify(Some(&anchor)).await, 4, "a ledger whose end was cut off")?;
        expect_eq!(
            shared.state.verify(None).await?.events,
            3,
            "the chain alone does not tell that its end is missing"
        );
        tables.exec("DELETE FROM events_memory WHERE seq = 2").await?;
        is_broken_at(shared.state.verify(None).await, 2, "an event that was removed")?;
        tables.exec("DELETE FROM events_raw").await?;
        is_broken_at(shared.state.verify(None).await, 1, "words that are gone without a tombstone")?;
    }),
    case!("gov.ledger.erased-words", [Sql, HostTables], ["GOV-39"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        let ada = agent("ada");
        let said = [
            "db_outage is resolved, my sister Ottilie repaired it",
            "What Ottilie complained about is fixed.",
            "Ottilie again, which is noise",
        ];
        let mut notes = Vec::new();
        for text in said {
            notes.push(shared.note(&ada, memory_governed::NoteSource::Agent, text, None).await?);
            shared.promoted().await?;
        }
        notes.push(
            shared.note(&ada, memory_governed::NoteSource::Agent, "Ottilie, not promoted yet", None).await?,
        );
        let events = shared.count("events_memory").await?;
        for note in &notes {
            let forgotten = shared.state.forget(&note.id, &person("pat")).await?;
            check!(forgotten.notes.contains(&note.id), "there was no note to forget");
        }
        let nothing = shared.state.forget("nobody", &person("pat")).await?;
        check!(nothing.is_nothing(), "a note that there is not was forgotten");
        for (table, words) in [
            ("notes", "coalesce(text, '') || coalesce(result, '')"),
            ("events_memory", "payload_json || source_ref"),
            ("events_raw", "coalesce(raw_input, '') || coalesce(reference_text, '')"),
            ("pending_memory_events", "coalesce(text, '') || request_json || reason || candidates_json"),
        ] {
            let left = shared.count(&format!("{table} WHERE {words} LIKE '%Ottilie%'")).await?;
            expect_eq!(left, 0, "rows of {table} with words that were erased");
        }
        let verified = shared.state.verify(None).await?;
        expect_eq!((verified.events, verified.erased), (2, 1), "the chain after words were erased");
        expect_eq!(shared.count("events_memory").await?, events, "events");
        expect_eq!(shared.issue("db_outage").await?, "resolved", "what the erased note did");
        check!(shared.state.promote_one().await?.is_none(), "a forgotten note is promoted");
        shared.is_sound().await?;
    }),
    case!("gov.ledger.rejections", [Sql, HostTables], ["GOV-41"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        let before = shared.state.digest().await?;
        for text in [
            "Looking at the logs now.",
            "hello",
            "task build: nearly done",
            "result: recall = good",
            "issue: is the disk full?",
        ] {
            let promotion = shared.say(text).await?;
            check!(promotion.outcomes.is_empty() && !promotion.is_retried, "`{text}` became {promotion:?}");
            check!(promotion.reason.is_some(), "`{text}` is rejected without a reason");
        }
        let nonsense = upsert("results", "r", json!({ "metric_name": "m", "metric_value": 1 }));
        expect_eq!(kind(&shared.ask(nonsense).await?), "rejected");
        expect_eq!(shared.count("events_memory").await?, 1, "events");
        expect_eq!(shared.count("pending_memory_events").await?, 0, "deferred writes");
        expect_eq!(shared.state.digest().await?, before, "the tables");
        let notes = shared.state.notes("ada").await?;
        check!(
            notes.iter().all(|note| note.state == "done" && note.result.is_some()),
            "notes are not done: {notes:?}"
        );
        let rejected = notes.get(1).and_then(|note| note.result.as_deref()).unwrap_or_default();
        let said: Value = serde_json::from_str(rejected)?;
        check!(said.get("rejected").is_some(), "the note does not say that it was rejected: {said}");
    }),
    case!("gov.ledger.second-run", [Sql, HostTables], ["GOV-42"], |cx| {
        let shared = cx.shared().await?;
        let ada = agent("ada");
        let mut noted = 0;
        for run in 0..3 {
            for n in 0..2 {
                let text = format!("result: run {run} = {n}");
                shared.note(&ada, memory_governed::NoteSource::Agent, &text, None).await?;
                noted += 1;
            }
            let report = shared.state.promote(10).await?;
            expect_eq!((report.notes, report.committed), (2, 2), "run {run}");
            let states: Vec<String> =
                shared.state.notes("ada").await?.into_iter().map(|note| note.state).collect();
            expect_eq!(states, vec!["done"; noted], "the notes after run {run}");
        }
        cx.advance_ms(3_600_000);
        expect_eq!(shared.state.promote(10).await?.notes, 0, "notes of a run with nothing new");
        expect_eq!(shared.state.rows(Bucket::Results, false).await?.len(), 6, "measurements");
        shared.is_sound().await?;
    }),
];

/// What the database's owner can do to change events.
fn without_triggers(cx: &crate::cx::Cx) -> &'static [&'static str] {
    cx.in_dialect(
        &[
            "DROP TRIGGER events_memory_UPDATE",
            "DROP TRIGGER events_memory_DELETE",
            "DROP TRIGGER events_raw_DELETE",
        ],
        &["ALTER TABLE events_memory DISABLE TRIGGER USER", "ALTER TABLE events_raw DISABLE TRIGGER USER"],
    )
}

/// Verification must have found the ledger broken at that event.
fn is_broken_at<T: std::fmt::Debug>(verified: Result<T, Error>, seq: u64, what: &str) -> CaseResult {
    let error = expect_kind!(verified, ErrorKind::Corrupt, "{what}");
    expect_eq!(
        error.details().get("seq").and_then(Value::as_u64),
        Some(seq),
        "where the ledger is broken by {what}"
    );
    Ok(())
}
