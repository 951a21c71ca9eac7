//! GOV-1 to GOV-7, GOV-37 and GOV-51 to GOV-53: the state machine of each bucket.

use memory_governed::{Bucket, NoteSource, Outcome};
use serde_json::{Value, json};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq};
use crate::cx::shared::{
    Shared, agent, append, authority, having, invalidate, kind, only, person, resolve, second, upsert,
};

pub(crate) const CASES: &[Case] = &[
    case!("gov.plan.replaced-as-a-whole", [Sql, HostTables], ["GOV-1"], |cx| {
        let shared = cx.shared().await?;
        let plan = |plan: Value| json!({ "bucket": "plan", "operation": "upsert", "payload": { "plan_json": plan } });
        for (goal, became, version) in [
            (json!({ "goal": "ship", "by": "May" }), "applied", 1),
            (json!({ "goal": "ship", "by": "May" }), "no_op", 1),
            (json!({ "goal": "rest" }), "applied", 2),
            (json!("free text"), "applied", 3),
        ] {
            expect_eq!(kind(&shared.ask(plan(goal.clone())).await?), became, "the plan {goal}");
            let row = shared.row(Bucket::Plan, "main").await?;
            expect_eq!(
                (row.rev, row.fields.get("plan_json")),
                (version, Some(&goal)),
                "the plan after {goal}"
            );
        }
        expect_eq!(shared.count("shared_plan").await?, 1, "how many plans there are");
        expect_eq!(kind(&shared.ask(plan(Value::Null)).await?), "rejected", "a plan of nothing");
        let ended = json!({ "bucket": "plan", "operation": "resolve", "target_id": "main" });
        rejects(&shared, &[ended, append("plan", "main", json!({ "plan_json": { "goal": "add" } }))]).await?;
        expect_eq!(shared.count("events_memory").await?, 3, "a plan that is the same leaves no event");
        shared.is_sound().await?;
    }),
    case!("gov.constraints.all-their-states", [Sql, HostTables], ["GOV-2"], |cx| {
        let shared = cx.shared().await?;
        let (one, scoped) = (json!({ "text": "spend 5" }), json!({ "scope": "team" }));
        let steps = [
            (invalidate("constraints", "day_budget"), "deferred", None),
            (upsert("constraints", "day_budget", scoped.clone()), "rejected", None),
            (upsert("constraints", "day_budget", one.clone()), "applied", Some(("active", 1))),
            (upsert("constraints", "day_budget", one), "no_op", Some(("active", 1))),
            (upsert("constraints", "day_budget", scoped), "applied", Some(("active", 2))),
            (invalidate("constraints", "day_budget"), "applied", Some(("invalidated", 3))),
            (invalidate("constraints", "day_budget"), "no_op", Some(("invalidated", 3))),
            (
                upsert("constraints", "day_budget", json!({ "text": "spend 9" })),
                "deferred",
                Some(("invalidated", 3)),
            ),
        ];
        walk(&shared, Bucket::Constraints, "day_budget", steps).await?;
        let row = shared.row(Bucket::Constraints, "day_budget").await?;
        expect_eq!(
            (row.text("text"), row.text("scope")),
            (Some("spend 5"), Some("team")),
            "the constraint's members"
        );
        check!(row.valid_to.is_some(), "it is not known when the constraint ended");
        expect_eq!(shared.state.rows(Bucket::Constraints, false).await?.len(), 0, "constraints in force");
        let text = json!({ "text": "t" });
        rejects(
            &shared,
            &[
                append("constraints", "other", text),
                json!({ "bucket": "constraints", "operation": "resolve" }),
            ],
        )
        .await?;
        shared.is_sound().await?;
    }),
    case!("gov.issues.all-their-states", [Sql, HostTables], ["GOV-3"], |cx| {
        let shared = cx.shared().await?;
        let whole = json!({ "title": "redis times out", "severity": "high", "description": "since noon" });
        let steps = [
            (resolve("redis_timeout"), "deferred", None),
            (upsert("issues", "redis_timeout", json!({ "severity": "low" })), "rejected", None),
            (upsert("issues", "redis_timeout", whole.clone()), "applied", Some(("open", 1))),
            (upsert("issues", "redis_timeout", whole.clone()), "no_op", Some(("open", 1))),
            (
                upsert("issues", "redis_timeout", json!({ "title": "redis times out", "severity": "low" })),
                "applied",
                Some(("open", 2)),
            ),
            (resolve("redis_timeout"), "applied", Some(("resolved", 3))),
            (resolve("redis_timeout"), "no_op", Some(("resolved", 3))),
            (upsert("issues", "redis_timeout", whole), "deferred", Some(("resolved", 3))),
        ];
        walk(&shared, Bucket::Issues, "redis_timeout", steps).await?;
        let row = shared.row(Bucket::Issues, "redis_timeout").await?;
        expect_eq!(
            (row.text("severity"), row.text("description")),
            (Some("low"), Some("since noon")),
            "the issue's members"
        );
        check!(row.valid_to.is_some(), "it is not known when the issue was resolved");
        let lead = authority("lead");
        shared.write_by(&lead, "issue belt_jam: Conveyor belt 3 jams when boxes are wet").await?;
        for text in [
            "issue belt_jam: Conveyor belt 3 no longer jams when boxes are wet",
            "issue belt_jam: Conveyor belt 3 jams when boxes are wet (resolved)",
            "issue belt_jam: Conveyor belt 3 jams when boxes are wet? maybe when dry",
            "issue belt_jam: Conveyor belt 3 does not jam when boxes are wet",
        ] {
            expect_eq!(kind(&shared.write_by(&lead, text).await?), "deferred", "`{text}`");
        }
        let wider = "issue belt_jam: Conveyor belts 3 and 4 jam when boxes are wet";
        expect_eq!(kind(&shared.write_by(&lead, wider).await?), "applied", "`{wider}`");
        rejects(
            &shared,
            &[append("issues", "other", json!({ "title": "t" })), invalidate("issues", "redis_timeout")],
        )
        .await?;
        shared.is_sound().await?;
    }),
    case!("gov.rows.news-begins-none", [Sql, HostTables], ["GOV-52"], |cx| {
        let shared = cx.shared().await?;
        let lead = authority("lead");
        shared.write("issue belt_jam: Conveyor belt 3 jams when boxes are wet").await?;
        shared.write("constraint no_night: No shift at night").await?;
        shared.write("decision use_rollers: Boxes go over rollers").await?;
        let before = shared.count("events_memory").await?;
        for text in [
            "issue: belt_jam is fixed",
            "issue: belt_jam is back",
            "bug: resolve belt_jam",
            "constraint: no_night is lifted",
            "decision: use_rollers is revoked",
            "decision: revoke use_rollers",
            "blocker: resolved",
            "problem: solved by the night shift",
        ] {
            expect_eq!(kind(&shared.write_by(&lead, text).await?), "deferred", "`{text}`");
        }
        expect_eq!(shared.issue("belt_jam").await?, "open", "after its news");
        expect_eq!(shared.count("events_memory").await?, before, "events after news of rows");
        for text in ["issue: Boxes fall off, as told in belt_jam", "issue: Closed gates are not locked"] {
            expect_eq!(kind(&shared.write_by(&lead, text).await?), "applied", "`{text}`");
        }
        shared.is_sound().await?;
    }),
    case!("gov.tasks.one-state-a-note", [Sql, HostTables], ["GOV-53"], |cx| {
        let shared = cx.shared().await?;
        shared.write("task build: pending").await?;
        for (text, became, now) in [
            ("task build: done\ntask build: failed", "deferred", "pending"),
            ("task build: done\ntask ship: failed", "applied", "done"),
        ] {
            let outcomes = shared.say_by(&agent("ada"), text).await?.outcomes;
            expect_eq!(outcomes.iter().map(kind).collect::<Vec<_>>(), [became; 2], "`{text}`");
            expect_eq!(shared.row(Bucket::TaskState, "build").await?.status, now, "after `{text}`");
        }
        shared.is_sound().await?;
    }),
    case!("gov.issues.reopened", [Sql, HostTables], ["GOV-51"], |cx| {
        let shared = cx.shared().await?;
        let reopen = json!({ "bucket": "issues", "operation": "reopen", "target_id": "db_outage" });
        let lead = authority("lead");
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        expect_eq!(kind(&shared.write_by(&lead, "reopen db_outage").await?), "no_op", "of one that is open");
        shared.write("db_outage is resolved").await?;
        for (by, text) in [
            (agent("ada"), "reopen db_outage"),
            (lead.clone(), "do not reopen db_outage"),
            (lead.clone(), "should we reopen db_outage?"),
            (lead.clone(), "Bob: reopen db_outage"),
            (lead.clone(), "db_outage fails again"),
        ] {
            let outcome = shared.read_as(&by, text, reopen.clone()).await?;
            expect_eq!(kind(&outcome), "deferred", "`{text}` by {by:?}: {outcome:?}");
            expect_eq!(shared.issue("db_outage").await?, "resolved", "after `{text}` by {by:?}");
        }
        shared.note(&lead, NoteSource::ToolResult, "reopen db_outage", None).await?;
        expect_eq!(kind(&only(shared.promoted().await?, "a tool")?), "deferred", "what a tool said");
        let ended = shared.row(Bucket::Issues, "db_outage").await?;
        shared.note(&lead, NoteSource::Agent, "reopen db_outage", Some(second(1))).await?;
        expect_eq!(kind(&only(shared.promoted().await?, "before")?), "deferred", "observed before the end");
        let outcome =
            shared.write_by(&lead, "reopen db_outage: it fails again, as it was never fixed").await?;
        expect_eq!(kind(&outcome), "applied", "by a writer with authority: {outcome:?}");
        let row = shared.row(Bucket::Issues, "db_outage").await?;
        expect_eq!((row.status.as_str(), row.valid_to), ("open", None), "the row");
        expect_eq!((row.fields, row.rev), (ended.fields, ended.rev + 1), "its members");
        let stale = shared.write_at("db_outage is resolved", second(2)).await?;
        expect_eq!(kind(&stale), "deferred", "an end that was observed before: {stale:?}");
        shared.later(3_600).await?;
        expect_eq!(shared.issue("db_outage").await?, "open");
        expect_eq!(kind(&shared.write("db_outage is resolved").await?), "applied", "another end");
        // A writer less trusted than the one who started it leaves it ended.
        for (by, text, became) in [
            (person("pat"), "issue disk_full: no space left", "applied"),
            (person("pat"), "disk_full is resolved", "applied"),
            (lead, "reopen disk_full", "deferred"),
            (person("kim"), "reopen disk_full", "applied"),
        ] {
            expect_eq!(kind(&shared.write_by(&by, text).await?), became, "`{text}` by {by:?}");
        }
        shared.is_sound().await?;
    }),
    case!("gov.decisions.all-their-states", [Sql, HostTables], ["GOV-4"], |cx| {
        let shared = cx.shared().await?;
        let said = |statement: &str| append("decisions", "storage_choice", json!({ "statement": statement }));
        let steps = [
            (invalidate("decisions", "storage_choice"), "deferred", None),
            (said("use sqlite"), "applied", Some(("active", 1))),
            (said("use sqlite"), "no_op", Some(("active", 1))),
            (said("use postgres"), "applied", Some(("active", 1))),
            (said("use postgres"), "no_op", Some(("active", 1))),
            (invalidate("decisions", "storage_choice"), "applied", Some(("superseded", 2))),
            (invalidate("decisions", "storage_choice"), "no_op", Some(("superseded", 2))),
        ];
        walk(&shared, Bucket::Decisions, "storage_choice", steps).await?;
        let first = shared.row(Bucket::Decisions, "storage_choice").await?;
        expect_eq!(first.text("statement"), Some("use sqlite"), "the first decision");
        let active = shared.state.rows(Bucket::Decisions, false).await?;
        let statements: Vec<_> = active.iter().map(|row| row.text("statement")).collect();
        expect_eq!(statements, [Some("use postgres")], "the decisions in force");
        shared.write("decision use_kafka: events go over Kafka").await?;
        for text in [
            "decision use_kafka: events no longer go over Kafka",
            "decision: should we pack by weight? I think yes",
            "decision pack: if Bob agrees, we pack by weight",
            "constraint pack: maybe pack by weight",
        ] {
            expect_eq!(kind(&shared.write(text).await?), "deferred", "`{text}`");
        }
        rejects(
            &shared,
            &[
                upsert("decisions", "other", json!({ "statement": "s" })),
                append("decisions", "other", json!({})),
            ],
        )
        .await?;
        shared.is_sound().await?;
    }),
    case!("gov.decisions.successors", [Sql, HostTables], ["GOV-47"], |cx| {
        let shared = cx.shared().await?;
        for id in ["use_sqlite", "use_postgres", "use_both"] {
            shared.write(&format!("decision {id}: {}", id.replace('_', " "))).await?;
        }
        expect_eq!(kind(&shared.write("use_sqlite is superseded by use_postgres").await?), "applied");
        let first = shared.row(Bucket::Decisions, "use_sqlite").await?;
        expect_eq!(
            (first.status.as_str(), first.superseded_by.as_deref()),
            ("superseded", Some("use_postgres"))
        );
        let by = |id: &str, successor: &str| {
            having(invalidate("decisions", id), "payload", json!({ "superseded_by": successor }))
        };
        for (text, id, successor) in [
            ("use_postgres is superseded by use_sqlite", "use_postgres", "use_sqlite"),
            ("use_postgres is superseded by use_postgres", "use_postgres", "use_postgres"),
            ("use_postgres is superseded by use_nothing", "use_postgres", "use_nothing"),
            ("use_postgres is superseded", "use_postgres", "use_both"),
        ] {
            let outcome = shared.read_as(&agent("ada"), text, by(id, successor)).await?;
            expect_eq!(kind(&outcome), "deferred", "`{text}`, by {successor}");
        }
        for text in [
            "use_postgres is superseded by use_nothing",
            "decision use_postgres is superseded by a better one",
        ] {
            expect_eq!(kind(&shared.write(text).await?), "deferred", "`{text}`");
            let read = shared.read_as(&agent("ada"), text, invalidate("decisions", "use_postgres")).await?;
            expect_eq!(kind(&read), "deferred", "`{text}`, read without what takes its place");
        }
        expect_eq!(shared.row(Bucket::Decisions, "use_postgres").await?.status, "active");
        // A chain: each row names its direct successor.
        expect_eq!(kind(&shared.write("use_postgres is superseded by use_both").await?), "applied");
        let why = shared.state.why(Bucket::Decisions, "use_postgres").await?;
        expect_eq!(why.row.and_then(|row| row.superseded_by).as_deref(), Some("use_both"));
        shared.is_sound().await?;
    }),
    case!("gov.results.only-added", [Sql, HostTables], ["GOV-5"], |cx| {
        let shared = cx.shared().await?;
        for value in [json!(1.5), json!(1.5), json!(7)] {
            let payload = json!({ "metric_name": "p50", "metric_value": value, "baseline_value": null });
            let measured = append("results", "latency", payload);
            expect_eq!(kind(&shared.ask(measured).await?), "applied", "a measurement of {value}");
        }
        let mut values: Vec<f64> = Vec::new();
        for row in shared.state.rows(Bucket::Results, false).await? {
            values.extend(row.fields.get("metric_value").and_then(Value::as_f64));
        }
        values.sort_by(f64::total_cmp);
        expect_eq!(values, [1.5, 1.5, 7.0], "every measurement under one id");
        rejects(
            &shared,
            &[
                append("results", "latency", json!({ "metric_name": "p50" })),
                append("results", "latency", json!({ "metric_name": "p50", "metric_value": "1.5" })),
                upsert("results", "latency", json!({ "metric_name": "p50", "metric_value": 1 })),
                json!({ "bucket": "results", "operation": "resolve", "target_id": "latency" }),
            ],
        )
        .await?;
        shared.is_sound().await?;
    }),
    case!("gov.tasks.all-their-states", [Sql, HostTables], ["GOV-6"], |cx| {
        let shared = cx.shared().await?;
        let states = ["pending", "in_progress", "blocked", "done", "failed"];
        let mut rev = 0;
        for from in states {
            for to in states {
                for state in [from, to] {
                    shared.ask(upsert("task_state", "build", json!({ "status": state }))).await?;
                    let row = shared.row(Bucket::TaskState, "build").await?;
                    expect_eq!(row.status, state, "the task's state after {from} and {to}");
                    rev = rev.max(row.rev);
                }
            }
        }
        check!(rev >= 20, "a task's revision counts its changes, and is {rev} after 50 of them");
        let blocked = json!({ "status": "blocked", "phase": "two", "blockers_json": ["disk"] });
        shared.ask(upsert("task_state", "build", blocked)).await?;
        shared.ask(upsert("task_state", "build", json!({ "status": "done" }))).await?;
        let row = shared.row(Bucket::TaskState, "build").await?;
        expect_eq!(
            (row.status.as_str(), row.text("phase")),
            ("done", Some("two")),
            "members that are not given stay"
        );
        expect_eq!(
            shared.state.rows(Bucket::TaskState, false).await?.len(),
            1,
            "a task that is done is still listed"
        );
        rejects(
            &shared,
            &[
                upsert("task_state", "build", json!({ "status": "finished" })),
                upsert("task_state", "build", json!({ "status": "Done" })),
                upsert("task_state", "other", json!({})),
                json!({ "bucket": "task_state", "operation": "upsert", "payload": { "status": "done" } }),
                json!({ "bucket": "task_state", "operation": "resolve", "target_id": "build" }),
            ],
        )
        .await?;
        shared.is_sound().await?;
    }),
    case!("gov.learnings.known-once", [Sql, HostTables], ["GOV-7"], |cx| {
        let shared = cx.shared().await?;
        let said =
            |id: &str, what: &str| append("learnings", id, json!({ "statement": what, "confidence": 0.5 }));
        expect_eq!(kind(&shared.ask(said("one", "retries hide faults")).await?), "applied");
        expect_eq!(
            kind(&shared.ask(said("two", "retries hide faults")).await?),
            "no_op",
            "the same under another id"
        );
        expect_eq!(
            kind(&shared.ask(said("one", "clocks lie")).await?),
            "applied",
            "another under the same id"
        );
        let nameless = json!({ "bucket": "learnings", "operation": "append", "payload": { "statement": "Measure first." } });
        expect_eq!(kind(&shared.ask(nameless.clone()).await?), "applied", "one without an id");
        expect_eq!(kind(&shared.ask(nameless).await?), "no_op", "the same without an id");
        let rows = shared.state.rows(Bucket::Learnings, false).await?;
        let mut known: Vec<_> = rows.iter().filter_map(|row| row.text("statement")).collect();
        known.sort_unstable();
        expect_eq!(known, ["Measure first.", "clocks lie", "retries hide faults"], "what is known");
        let unsure = json!({ "statement": "s", "confidence": "very" });
        rejects(
            &shared,
            &[append("learnings", "x", unsure), upsert("learnings", "x", json!({ "statement": "s" }))],
        )
        .await?;
        shared.is_sound().await?;
    }),
    case!("gov.tasks.latest-observation", [Sql, HostTables], ["GOV-37"], |cx| {
        let shared = cx.shared().await?;
        cx.advance_ms(3_600_000);
        for (text, at, became, now) in [
            ("task build: in progress", 10, "applied", "in_progress"),
            ("task build: done", 30, "applied", "done"),
            ("task build: blocked", 20, "recorded", "done"),
            // If the same state is observed again later, it outlasts what was observed in between.
            ("task build: done", 40, "applied", "done"),
            ("task build: failed", 35, "recorded", "done"),
            ("task build: failed", 50, "applied", "failed"),
        ] {
            expect_eq!(
                kind(&shared.write_at(text, second(at)).await?),
                became,
                "`{text}`, observed at {at} s"
            );
            expect_eq!(
                shared.row(Bucket::TaskState, "build").await?.status,
                now,
                "after `{text}`, observed at {at} s"
            );
        }
        expect_eq!(shared.count("events_memory").await?, 6, "late notes are part of the history");
        shared.is_sound().await?;
    }),
];

/// A request, what becomes of it, and the row's status and revision then.
type Step<'a> = (Value, &'a str, Option<(&'a str, u64)>);

/// Performs the steps in turn. Each checks the outcome, then the row's status and revision; `None` if there is no row.
async fn walk<const N: usize>(
    shared: &Shared<'_>,
    bucket: Bucket,
    id: &str,
    steps: [Step<'_>; N],
) -> CaseResult {
    for (at, (request, became, row)) in steps.into_iter().enumerate() {
        let outcome = shared.ask(request.clone()).await?;
        expect_eq!(kind(&outcome), became, "step {at}, {request}: {outcome:?}");
        let found = shared.state.row(bucket, id).await?;
        let found = found.as_ref().map(|row| (row.status.as_str(), row.rev));
        expect_eq!(found, row, "the row after step {at}, {request}");
    }
    Ok(())
}

/// None of these makes sense: each is rejected, and leaves neither an event nor a deferred write.
async fn rejects(shared: &Shared<'_>, requests: &[Value]) -> CaseResult {
    let before = (shared.count("events_memory").await?, shared.count("pending_memory_events").await?);
    for request in requests {
        let outcome = shared.ask(request.clone()).await?;
        check!(matches!(outcome, Outcome::Rejected { .. }), "{request} became {outcome:?}");
    }
    let after = (shared.count("events_memory").await?, shared.count("pending_memory_events").await?);
    expect_eq!(after, before, "events and deferred writes after requests that make no sense");
    Ok(())
}
