//! Notes that were once committed although they say something else, each with clear neighbours that are committed: read
//! by the rules, on both stores.

use std::sync::Arc;

use async_trait::async_trait;
use memory_governed::interpret::Rules;
use memory_governed::{
    Actor, Bucket, Calibrated, Context, Decision, Interpretation, Interpreter, Note, NoteSource, Outcome,
    PromotionPipeline, Trust, WriteRequest,
};
use serde_json::{Value, json};

use crate::support::*;

/// The outcomes of the writes of a note read by the rules.
pub(crate) async fn said_by(world: &World, by: &Actor, text: &str) -> Vec<Outcome> {
    world.clock.advance(std::time::Duration::from_secs(1));
    let pipeline = PromotionPipeline::new(&world.space, Arc::new(Rules), Arc::new(Calibrated::new()));
    world.notes.note(by, NoteSource::Agent, text, None).await.unwrap();
    pipeline.promote_one().await.unwrap().unwrap().outcomes
}

async fn said(world: &World, text: &str) -> Vec<Outcome> {
    said_by(world, &lead(), text).await
}

fn lead() -> Actor {
    actor("lead", Trust::Authority)
}

pub(crate) async fn begin(world: &World, notes: &[&str]) {
    for note in notes {
        let outcomes = said(world, note).await;
        assert!(outcomes.iter().all(is_committed) && !outcomes.is_empty(), "{note}: {outcomes:?}");
    }
}

/// None of these notes changes anything.
pub(crate) async fn change_nothing(world: &World, notes: &[&str]) {
    let before = world.count("events_memory").await;
    for note in notes {
        let outcomes = said(world, note).await;
        let is_harmless = |one: &Outcome| matches!(one, Outcome::Deferred { .. } | Outcome::Rejected { .. });
        assert!(outcomes.iter().all(is_harmless), "{note}: {outcomes:?}");
        assert_eq!(world.count("events_memory").await, before, "{note}");
    }
}

/// Each of these notes is committed in a separate space: `N` is a number, and the text before `=>` creates its row.
async fn are_committed(world: &World, notes: &[&str]) {
    for (n, note) in notes.iter().enumerate() {
        let (first, text) = note.split_once(" => ").unwrap();
        let with = |text: &str| text.replace('N', &format!("n{n}"));
        begin(world, &[&with(first)]).await;
        let outcomes = said(world, &with(text)).await;
        assert!(outcomes.iter().all(is_committed) && !outcomes.is_empty(), "{text}: {outcomes:?}");
    }
}

/// A note that an interpreter reads as one request.
async fn read_as(world: &World, text: &str, request: Value) -> Vec<Outcome> {
    world.clock.advance(std::time::Duration::from_secs(1));
    let reader = Arc::new(Misreads(serde_json::from_value(request).unwrap()));
    let pipeline = PromotionPipeline::new(&world.space, reader, Arc::new(Calibrated::new()));
    world.notes.note(&lead(), NoteSource::Agent, text, None).await.unwrap();
    pipeline.promote_one().await.unwrap().unwrap().outcomes
}

#[derive(Debug)]
struct Misreads(WriteRequest);

#[async_trait]
impl Interpreter for Misreads {
    fn name(&self) -> &str {
        "misreads-1"
    }

    async fn interpret(&self, _: &Note, _: &Context) -> Interpretation {
        Interpretation::of(Decision::Accept(vec![self.0.clone()]))
    }
}

on_both_stores! {
    /// Regression: each became the new text of a row that it ends, denies or doubts, or a decision that nobody made.
    async fn a_form_that_turns_the_old_text_replaces_nothing(world) {
        begin(&world, &[
            "issue conveyor_jam: Conveyor belt 3 jams when boxes are wet",
            "constraint max_pallet: pallets weigh at most 800 kg",
            "decision use_kafka: we send events over Kafka",
        ]).await;
        change_nothing(&world, &[
            "issue conveyor_jam: Conveyor belt 3 no longer jams when boxes are wet",
            "issue conveyor_jam: Conveyor belt 3 jams when boxes are wet (resolved)",
            "issue conveyor_jam: Conveyor belt 3 jams when boxes are wet is fixed",
            "constraint max_pallet: pallets weigh at most 800 kg, lifted today",
            "constraint max_pallet: pallets weigh at most 800 kg is wrong",
            "constraint max_pallet: maybe pallets weigh at most 900 kg",
            "constraint max_pallet: do pallets weigh at most 800 kg? no",
            "decision use_kafka: we no longer send events over Kafka",
            "decision: should we pack by weight? I think yes",
            "decision pack: if Bob agrees, we pack by weight",
            "constraint pack: maybe pack by weight",
        ]).await;
        begin(&world, &[
            "issue conveyor_jam: Conveyor belts 3 and 4 jam when boxes are wet",
            "issue conveyor_jam: title: Conveyor belt 3 no longer jams, belt 4 does",
            "constraint max_pallet: pallets weigh at most 900 kg",
            "constraint no_deploy: no deploys if tests fail",
            "decision use_kafka: we send events over Kafka in batches",
        ]).await;
    }

    /// Regression: the whole note was rejected because of the prose below.
    async fn prose_below_a_state_or_a_number_is_read(world) {
        begin(&world, &[
            "issue db_down: The database is down\ntask pick_route: done\nAll tests pass.",
            "result: recall = 0.71\nMeasured on 40 queries.",
            "task label is blocked\nRestarted the printer.",
        ]).await;
        assert_eq!(world.row(Bucket::TaskState, "pick_route").await.status, "done");
        assert_eq!(world.row(Bucket::TaskState, "label").await.status, "blocked");
        change_nothing(&world, &[
            "task label: done\nNot really.",
            "task label: done\nThe first half, that is",
            "task label: done\n- kidding",
            "task label: done\nIt is not finished on arm",
            "task label: done\nBob says so",
            "task label: done\nIs it?",
            "task label is done\nNo, it failed",
            "result: recall = 0.9\nI made that up, it is not measured",
            "task label: done\n```\nnot true\n```",
        ]).await;
    }

    /// Regression: each was rejected, so nobody saw that a row may have ended.
    async fn an_end_in_other_words_waits(world) {
        begin(&world, &[
            "issue jam: Conveyor belt 3 jams",
            "issue scan_1: The scanner is mute",
            "decision use_kafka: events go over Kafka",
            "decision use_nats: events go over NATS",
            "issue old_1: The dock leaks",
            "old_1 is fixed",
        ]).await;
        let before = world.count("events_memory").await;
        for text in [
            "We managed to fix scan_1",
            "We were able to fix scan_1",
            "Set scan_1 to resolved",
            "scan_1: status changed to resolved",
            "please close scan_1",
            "scan_1 is fixed once and for all",
            "scan_1 is sorted",
            "scan_1 was handled",
            "use_kafka is replaced by use_nats",
            "use_nats supersedes use_kafka",
            "use_kafka is void",
            "use_kafka was rolled back",
            "please reopen old_1",
            "Reopening old_1",
        ] {
            let outcomes = said(&world, text).await;
            assert!(matches!(outcomes.as_slice(), [Outcome::Deferred { .. }]), "{text}: {outcomes:?}");
            assert_eq!(world.count("events_memory").await, before, "{text}");
        }
        for text in ["Is scan_1 fixed?", "We were not able to fix scan_1", "I will fix scan_1", "Handled load_rows in the parser"] {
            assert!(said(&world, text).await.is_empty(), "{text}");
        }
    }

    /// Regression: what a title denies, supposes or promises was taken as the note's own statement.
    async fn a_whole_title_turns_no_statement(world) {
        begin(&world, &[
            "issue beep: The scanner does not beep on success",
            "issue jam: Conveyor belt 3 jams when boxes are wet",
            "issue labels: Labels should be printed twice",
        ]).await;
        change_nothing(&world, &[
            "The scanner does not beep on success is not fixed",
            "Fixed: The scanner does not beep on success, maybe",
            "Conveyor belt 3 jams when boxes are wet: fixed when boxes are dry",
            "Will be fixed: Labels should be printed twice",
            "The scanner does not beep on success",
        ]).await;
        begin(&world, &[
            "Fixed: The scanner does not beep on success",
            "Conveyor belt 3 jams when boxes are wet: fixed",
            "Resolved: \"Labels should be printed twice\"",
        ]).await;
    }

    /// Regression: the name then ended the row that the note only asked about, or kept the row with that id from
    /// ending.
    async fn a_name_is_given_plainly(world) {
        begin(&world, &["issue conveyor_jam: The conveyor jams", "issue scan_1: The scanner is mute"]).await;
        change_nothing(&world, &[
            "conveyor_jam is also called scanner trouble?",
            "conveyor_jam is also called \"scanner trouble?\"",
            "conveyor_jam is also called scanner trouble, or maybe not",
            "conveyor_jam is also called scanner trouble if Bob agrees",
            "conveyor_jam is also called not scanner trouble",
            "conveyor_jam is also called scanner trouble (by Bob)",
            "conveyor_jam is also called scanner trouble; scan_1 too",
            "conveyor_jam is also called scanner\ntrouble",
            "conveyor_jam is also called scan_1",
            "conveyor_jam is also called SCAN_1",
        ]).await;
        let called = json!({ "bucket": "issues", "operation": "upsert", "target_id": "conveyor_jam",
            "payload": { "severity": "high" }, "candidate_aliases": ["belt trouble"] });
        let outcomes = read_as(&world, "Is conveyor_jam also called belt trouble?", called).await;
        assert!(matches!(outcomes.as_slice(), [Outcome::Deferred { .. }]), "{outcomes:?}");
        // A writer who may only propose names cannot give a row the id of another either.
        let ada = actor("ada", Trust::Agent);
        for (name, is_given) in [("scan_1", false), ("SCAN_1", false), ("scanner trouble", true)] {
            let outcomes = said_by(&world, &ada, &format!("conveyor_jam is also called {name}")).await;
            assert_eq!(outcomes.iter().all(is_committed), is_given, "{name}: {outcomes:?}");
        }
        begin(&world, &["scan_1 is fixed", "conveyor_jam is also called \"belt trouble\"", "The belt trouble is fixed"]).await;
    }

    /// Text that is not understood may introduce the end, even below a form.
    async fn an_end_below_prose_waits_though_it_stands_in_a_line_of_its_own(world) {
        begin(&world, &["issue db_outage: The primary is down"]).await;
        for (n, prose) in ["It was seen on host 7.", "The team expects this", "Seen on host 7.\n\nWhat we hope to say soon"].into_iter().enumerate() {
            let outcomes = said(&world, &format!("issue disk_{n}: no space left\n{prose}\nResolves db_outage")).await;
            assert!(matches!(outcomes.as_slice(), [Outcome::Committed { .. }, Outcome::Deferred { .. }]), "{prose}: {outcomes:?}");
            assert_eq!(world.row(Bucket::Issues, "db_outage").await.status, "open", "{prose}");
        }
        begin(&world, &["issue disk_9: no space left\nRestarted the primary. Tests pass.\nResolves db_outage"]).await;
        assert_eq!(world.row(Bucket::Issues, "db_outage").await.status, "resolved");
    }

    /// Regression: a line of a list named another row for every other line, or for those after it.
    async fn a_line_that_ends_a_row_does_not_keep_another_from_its_end(world) {
        begin(&world, &[
            "issue scan_1: The scanner is mute\nissue scan_10: The scale drifts\nissue scan_2: The lift rattles\nissue scan_3: The dock leaks",
            "issue new_a: The door sticks\nscan_1 is fixed",
            "issue scan_10: fixed\nissue scan_2: fixed",
        ]).await;
        change_nothing(&world, &[
            "new_a is fixed\nscan_3 is fixed\nNo, it came back",
            "new_a is fixed\nscan_3 is not fixed, and neither is new_a",
            "If the tests pass:\nnew_a is fixed\nscan_3 is fixed",
            "Fixed new_a and scan_3",
        ]).await;
        begin(&world, &["- new_a is fixed\n- Resolved: scan_3"]).await;
    }

    /// Rules and models see the 100 latest rows of a kind. Regression: other ids were taken for ids of no row.
    async fn a_row_is_named_however_many_are_newer(world) {
        begin(&world, &[
            "issue old_export: Add a CSV export to the shipment report",
            "issue router_a: The router drops packets",
            "decision use_kafka: events go over Kafka",
            "constraint dock_load: at most 800 kg",
        ]).await;
        for n in 0..14 {
            let lines: Vec<String> = (0..8)
                .flat_map(|m| [format!("issue n{n}_{m}: The lift {n} rattles on dock {m}"), format!("decision d{n}_{m}: take lift {n} to {m}")])
                .collect();
            begin(&world, &[&lines.join("\n")]).await;
        }
        begin(&world, &[
            "router_a is also called edge trouble",
            "The edge trouble is fixed",
            "use_kafka is revoked",
            "dock_load is lifted",
            "Added a CSV export to the shipment report.",
        ]).await;
    }

    async fn a_quotation_beside_a_statement_is_not_read_away(world) {
        begin(&world, &[
            "issue db_outage: the primary database is down",
            "issue img: Docker image is too large",
            "constraint no_deploy: no deploys on friday",
            "decision use_pg: use postgres",
            "decision use_redis: use redis",
            "task import: pending",
        ]).await;
        change_nothing(&world, &[
            "db_outage is \"not\" resolved",
            "db_outage is ‘not’ resolved",
            "db_outage is “partially” resolved",
            "db_outage is 'almost' fixed",
            "db_outage is «temporarily» fixed",
            "\"Hopefully\" db_outage is resolved",
            "\"I doubt\" db_outage is resolved",
            "\"If\" db_outage is resolved",
            "db_outage is resolved “once PR 12 lands”",
            "db_outage \"will be\" resolved",
            "\"Bob:\" db_outage is resolved",
            "\"Never\" resolve db_outage",
            "```\nnot true\n```\ndb_outage is resolved",
            "> not true\ndb_outage is resolved",
            "Docker image is too large is \"not\" fixed",
            "\"Not\" fixed: the Docker image that is too large",
            "no_deploy is \"not\" lifted",
            "use_pg was \"never\" revoked",
            "use_pg is \"not\" superseded by use_redis",
            "task import is \"not\" done",
            "Added \"no\" retries to the upload worker",
        ]).await;
        are_committed(&world, &[
            "issue issue_N: Upload N fails => issue_N \"Upload N fails\" is fixed",
            "issue issue_N: Upload N fails => The issue \"Upload N fails\" is fixed",
            "issue issue_N: Upload N fails => `issue_N` is **fixed**",
            "task task_N: pending => task task_N is done",
        ]).await;
    }

    async fn a_decision_that_is_done_was_carried_out(world) {
        begin(&world, &["constraint no_deploy: no deploys on friday", "decision use_pg: use postgres", "decision use_redis: use redis"]).await;
        change_nothing(&world, &[
            "use_pg is done, deployed to production",
            "use_pg is completed, all services moved",
            "Finished use_pg",
            "We have completed use_pg",
            "Completed use_pg in PR 12",
            "use_pg: done",
            "decision use_pg: done",
            "We are done with use_pg",
            "Closing use_pg",
            "Checked use_pg, it is done",
            "Fixed the no_deploy constraint",
            "We fixed no_deploy by adding a check",
            "no_deploy is done",
            "Fixed no_deploy, the limit was lifted",
            "no_deploy is lifted this week",
            "no_deploy is lifted this afternoon",
            "no_deploy is lifted today",
            "use_pg is superseded by use_redis this week",
        ]).await;
        are_committed(&world, &[
            "constraint limit_N: at most N euros => limit_N is lifted",
            "constraint limit_N: at most N euros => limit_N was lifted this morning",
            "constraint limit_N: at most N euros => limit_N is lifted because the outage is fixed",
            "constraint limit_N: at most N euros => constraint limit_N: lifted",
            "constraint limit_N: at most N euros => invalidate limit_N",
            "decision plan_N: use N => plan_N is revoked",
            "decision plan_N: use N => decision plan_N: revoked",
            "decision plan_N: use N => decision plan_N: superseded by use_redis",
            "decision plan_N: use N => plan_N is superseded by use_redis",
            "issue issue_N: Upload N fails => issue_N is done, deployed to production",
        ]).await;
        world.sound().await;
    }

    /// Regression: whichever row the words fit best was taken.
    async fn an_id_of_several_kinds_is_not_guessed(world) {
        begin(&world, &["issue a_b: one", "decision a_b: two", "constraint a_b: three", "task a_b: pending", "issue c_d: four", "task c_d: in progress", "issue e_f: five", "task e_f: done"]).await;
        change_nothing(&world, &["a_b is done", "a_b is resolved", "a_b is lifted", "Fixed a_b", "c_d is done", "resolve c_d"]).await;
        begin(&world, &["issue a_b is resolved", "the constraint a_b is lifted", "decision a_b is revoked", "e_f is done"]).await;
        assert_eq!(world.row(Bucket::TaskState, "a_b").await.status, "pending");
    }

    /// Regression: it ended a row with words like those of the new one, or waited forever.
    async fn a_new_row_may_begin_with_a_verb_of_ending(world) {
        begin(&world, &[
            "issue db_outage: Crash when opening an empty CSV file",
            "issue newcrash: Fix crash when opening an empty TSV file",
            "issue t1: Fix the memory leak",
            "issue t2: Close idle connections",
            "constraint c4: Fixed IP addresses only",
            "problem t4: Done button missing",
            "decision d5: Dropped packets are retried",
        ]).await;
        assert_eq!(world.row(Bucket::Issues, "newcrash").await.text("title"), Some("Fix crash when opening an empty TSV file"));
        assert_eq!(world.row(Bucket::Issues, "db_outage").await.status, "open");
        change_nothing(&world, &["issue t9: fixed", "issue t9: resolved in PR 12", "decision d9: revoked", "issue t1: fixed only on arm"]).await;
        begin(&world, &["issue t1: fixed in PR 12", "bug t2: done"]).await;
        assert_eq!(world.row(Bucket::Issues, "t1").await.status, "resolved");
    }

    async fn what_tells_how_a_row_stands_does_not_replace_what_it_is(world) {
        begin(&world, &[
            "issue db_outage: the primary database is down",
            "constraint no_deploy: no deploys on friday",
            "decision use_pg: use postgres",
            "plan: ship on monday",
        ]).await;
        change_nothing(&world, &[
            "issue db_outage: restarted",
            "issue db_outage: still down",
            "issue db_outage: assigned to Bob",
            "issue db_outage: not resolved yet",
            "issue db_outage: has been fixed",
            "issue db_outage: duplicate of lint_step",
            "issue db_outage: ok",
            "issue db_outage: fixed on staging",
            "constraint no_deploy: waived",
            "constraint no_deploy: no longer applies",
            "constraint no_deploy: is lifted",
            "constraint no_deploy: suspended until Monday",
            "plan: done",
            "plan: on hold",
            "plan: unchanged",
            "plan: see wiki",
            "plan: same as before",
            "plan: cancelled",
            "decision use_pg: reverted",
            "decision: not yet made",
            "issue: no new issues",
        ]).await;
        begin(&world, &[
            "issue db_outage: the primary database is down in Frankfurt and Paris",
            "issue db_outage: title: Failover of Frankfurt is broken",
            "constraint no_deploy: no deploys on weekends",
            "constraint no_deploy: text: releases need two reviews",
            "plan: ship v2",
            "plan: 1. build\n2. ship",
            "plan: {\"status\": \"on hold\"}",
        ]).await;
        let issue = world.row(Bucket::Issues, "db_outage").await;
        assert_eq!(issue.text("title"), Some("Failover of Frankfurt is broken"));
        world.sound().await;
    }

    /// Regression: a leader changed it by binding its own note, which was deferred for that very reason.
    async fn who_may_not_change_what_binds_others_does_not_do_it_by_review(world) {
        begin(&world, &["constraint no_deploy: no deploys on friday", "plan: ship on monday"]).await;
        for (text, of, target) in [
            ("constraint no_deploy: no deploys at all", "constraint no_deploy: deploys on monday", "no_deploy"),
            ("plan: ship on tuesday", "plan: ship whenever you like", "main"),
        ] {
            assert!(is_committed(&said_by(&world, &person(), text).await[0]));
            let waiting = said(&world, of).await;
            let pending = pending_of(&waiting[0]);
            let refused = world.review.bind(pending, target, &lead()).await.unwrap_err();
            assert_eq!(refused.kind(), memory_core::ErrorKind::Forbidden, "{of}");
            assert!(is_committed(&world.review.bind(pending, target, &person()).await.unwrap()), "{of}");
        }
    }

    async fn what_stands_around_a_form_must_be_understood(world) {
        begin(&world, &["task import: pending", "issue db_outage: the primary is down"]).await;
        let leads = [
            "The following is wrong", "This is a lie", "Untrue", "Outdated", "Expected outcome", "Acceptance criteria",
            "Sprint goals", "Target state", "Wish list", "I wish", "Backlog", "Deadline Friday", "From Bob",
            "Copied from the old wiki", "Unit test fixture", "Nicht wahr", "Ziel bis Freitag", "\"Not true\"",
        ];
        for lead in leads {
            change_nothing(&world, &[&format!("{lead}\ntask import: done")]).await;
        }
        change_nothing(&world, &[
            "task import: done\nissue: new thing\nSorry, import is not done",
            "task import: done\nlearning: x\nCorrection: the first line is wrong",
            "task import was blocked",
            "task import was pending",
        ]).await;
        for text in ["db_outage is resolved\nBlocker: still failing on arm", "db_outage is resolved\nlearning: that was a lie"] {
            said(&world, text).await;
            assert_eq!(world.row(Bucket::Issues, "db_outage").await.status, "open", "{text}");
        }
        are_committed(&world, &[
            "task task_N: pending => Hi team,\ntask task_N: done",
            "task task_N: pending => Restarted the primary. Tests pass.\ntask task_N: done",
            "task task_N: pending => ## Status of today\n- task task_N: done",
            "task task_N: pending => task task_N was done",
            "task task_N: pending => task task_N: done\nissue disk_N: no space left\nIt is not seen on host 7",
            "issue issue_N: Upload N fails => issue_N is resolved\nBlocker: the importer fails on empty files of N",
            "issue issue_N: Upload N fails => issue_N is resolved\nissue disk_N: still no space left",
            "issue issue_N: Upload N fails => Fixed issue_N in PR 12.\ntask task_N: done",
        ]).await;
    }

    async fn a_reopening_may_be_turned_by_its_reason(world) {
        begin(&world, &["issue db_outage: the primary is down", "db_outage is resolved"]).await;
        change_nothing(&world, &["reopen db_outage: only if it fails again", "reopen db_outage: not yet", "reopen db_outage: should we?"]).await;
        begin(&world, &["reopen db_outage: not fixed on arm"]).await;
    }

    /// A model that misreads. Regression: each of these notes was committed as the request next to it.
    async fn what_a_model_reads_must_be_said(world) {
        begin(&world, &[
            "issue db_outage: the primary database is down",
            "issue lint_step: Lint fails in CI",
            "constraint no_deploy: no deploys on friday",
            "task import: pending",
            "plan: ship v1",
        ]).await;
        let plan = |plan: &str| upsert("plan", "main", json!({ "plan_json": plan }));
        let task = upsert("task_state", "import", json!({ "status": "done" }));
        let titled = upsert("issues", "db_outage", json!({ "title": "the primary database fails lint" }));
        let constraint = upsert("constraints", "no_deploy", json!({ "text": "no deploys on thursday" }));
        let before = world.count("events_memory").await;
        for (text, request) in [
            ("hello world", plan("hacked")),
            ("should we change the plan to ship v2?", plan("ship v2")),
            ("is task import done?", task.clone()),
            ("import is not done", task.clone()),
            ("if the import is done we can go home", task.clone()),
            ("the import will be done tomorrow", task.clone()),
            ("Bob says the import is done", task.clone()),
            ("hello", task.clone()),
            ("lint fails, unrelated to db_outage", titled.clone()),
            ("the log says \"db_outage\"", titled.clone()),
            ("db_outage is bad", upsert("issues", "db_outage", json!({ "title": "bad" }))),
            ("no_deploy might be changed to thursdays", constraint.clone()),
            ("Lint fails in CI. Changed nothing.", resolve("lint_step")),
            ("Tested. Lint fails in CI", resolve("lint_step")),
            ("We monitored it and lint fails in CI again and again", resolve("lint_step")),
        ] {
            let outcomes = read_as(&world, text, request).await;
            assert!(outcomes.iter().all(|one| matches!(one, Outcome::Deferred { .. })), "{text}: {outcomes:?}");
            assert_eq!(world.count("events_memory").await, before, "{text}");
        }
        for (text, request) in [
            ("The import is done.", task),
            ("The plan is now to ship v2", plan("ship v2")),
            ("db_outage got worse, the database is down on both hosts", upsert("issues", "db_outage", json!({ "title": "the primary database is down on both hosts" }))),
            ("no_deploy is now: no deploys on thursday", constraint),
            ("Lint fails in CI is fixed", resolve("lint_step")),
        ] {
            let outcomes = read_as(&world, text, request).await;
            assert!(outcomes.iter().all(is_committed), "{text}: {outcomes:?}");
        }
        world.sound().await;
    }

    async fn siblings_and_parts_of_an_issue_end_nothing(world) {
        let titles = [
            "Add dark mode to the settings page", "Upgrade PostgreSQL driver to version 5", "Fix memory leak in the image resizer",
            "Document the snapshot restore procedure", "Migrate user table to UUID keys", "Add retry logic to the upload worker",
            "Implement rate limiting for the public API", "Remove deprecated login endpoint", "Password reset mail lands in spam",
        ];
        for title in titles {
            begin(&world, &[&format!("issue: {title}")]).await;
        }
        change_nothing(&world, &[
            "Added dark mode to the login page",
            "Added dark mode to the settings page on a branch",
            "Upgraded PostgreSQL driver to version 4",
            "Upgraded PostgreSQL driver to version 5 in the sandbox",
            "Fixed the memory leak in the image loader",
            "Documented the backup restore procedure",
            "Migrated 3 of 10 shards of the user table to UUID keys",
            "Migrated user table to UUID keys in dev",
            "Added an issue for retry logic to the upload worker",
            "Added retry logic to the upload worker in staging",
            "Implemented rate limiting for the public API docs",
            "Implemented rate limiting for the public API behind a disabled flag",
            "Removed the link to the deprecated login endpoint",
            "Removed deprecated login endpoint from the docs",
            "Implemented burst limiting for the public API",
            "Fixed another memory leak in the image resizer",
            "Fixed memory leak in the image resizer, another is left",
            "Added dark mode to the settings page. Ida reverted it.",
            "Added dark mode to the settings page. Then removed it.",
            "Added dark mode to the settings page. QA found bugs.",
            "Added dark mode to the settings page - WIP",
            "Added dark mode to the settings page; review requested",
            "Added dark mode to the settings page as a ticket",
            "Added dark mode to the settings page to Jira",
        ]).await;
        for index in 0..60 {
            begin(&world, &[&format!("issue other_{index}: Component {index} of tier {} is unstable", index % 7)]).await;
        }
        begin(&world, &[
            "Added dark mode to the settings page",
            "Upgraded PostgreSQL driver to version 5 in PR 44",
            "Documented the snapshot restore procedure",
            "Added retry logic to the upload worker; tests pass",
            "Implemented rate limiting for the public API as requested",
            "Removed deprecated login endpoint",
        ]).await;
    }
}
