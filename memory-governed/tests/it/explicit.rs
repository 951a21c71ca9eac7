//! Ids named in a note.

use memory_governed::resolve::{BoundBy, DeferReason, Resolution, resolve};
use memory_governed::{Bucket, Operation, WriteRequest};

use crate::space::{bound, busy, day, deferred, end, ends, issue, note, space};

#[test]
fn an_id_in_the_note_binds_whatever_the_words_say() {
    let resolution = end(&busy(), "csv_export is fixed, the Redis load was to blame");
    assert_eq!(bound(&resolution), "csv_export");
    let Resolution::Bind(binding) = resolution else { unreachable!() };
    assert_eq!((binding.by, binding.score), (BoundBy::Id, 1.0));
}

/// The note does not wait for other rows that its words fit.
#[test]
fn a_deferral_of_a_note_that_names_a_row_offers_that_row_alone() {
    for text in [
        "Finally! csv_export is fixed. It was the Redis load.",
        "Is csv_export fixed? The Redis load is gone",
    ] {
        let Resolution::Defer(deferral) = end(&busy(), text) else { panic!("{text}") };
        let offered: Vec<&str> = deferral.candidates.iter().map(|row| row.id.as_str()).collect();
        assert_eq!(offered, ["csv_export"], "{text}");
    }
}

/// The original closed and renamed the Redis row.
#[test]
fn an_unknown_id_never_ends_its_neighbour() {
    let space = space([issue("redis_timeout", "Redis timeout")]);
    for text in [
        "postgres_timeout is fixed",
        "Resolved postgres_timeout.",
        "Fixed postgres_timeout and redeployed",
        "The postgres_timeout issue is fixed",
        "Fixed the postgres_timeout issue",
        "Closed issue postgres_timeout",
        "postgres_timeout resolved",
    ] {
        assert_eq!(
            deferred(&end(&space, text)),
            &DeferReason::UnknownId("postgres_timeout".to_owned()),
            "{text}"
        );
    }
    let request = ends().with_target("postgres_timeout");
    let resolution = resolve(&space, &request, &note("The Redis timeout is fixed"), &[]);
    assert_eq!(deferred(&resolution), &DeferReason::UnknownId("postgres_timeout".to_owned()));
}

#[test]
fn an_id_is_a_whole_token() {
    let space = space([issue("issue_1", "Disk is full"), issue("issue_10", "Queue is stuck")]);
    assert_eq!(bound(&end(&space, "issue_10 is resolved")), "issue_10");
    assert_eq!(bound(&end(&space, "Resolved issue_1.")), "issue_1");
    assert!(matches!(end(&space, "issue_100 is resolved"), Resolution::Defer(_)));
    assert!(matches!(end(&space, "my_issue_1 is resolved"), Resolution::Defer(_)));
}

#[test]
fn the_same_id_in_another_bucket_is_another_row() {
    let mut constraint = issue("budget", "At most 10 euros a day");
    constraint.bucket = Bucket::Constraints;
    let space = space([issue("budget", "The budget is overspent"), constraint]);
    let request = WriteRequest::new(Bucket::Constraints, Operation::Invalidate).with_target("budget");
    assert_eq!(bound(&resolve(&space, &request, &note("constraint budget is lifted"), &[])), "budget");
    let request = WriteRequest::new(Bucket::Decisions, Operation::Invalidate).with_target("budget");
    let resolution = resolve(&space, &request, &note("decision budget is revoked"), &[]);
    assert_eq!(deferred(&resolution), &DeferReason::UnknownId("budget".to_owned()));
}

#[test]
fn case_and_width_do_not_matter_and_look_alikes_do_not_bind() {
    for text in ["DB_OUTAGE is resolved", "Db_Outage is resolved", "ｄｂ＿ｏｕｔａｇｅ is resolved"]
    {
        assert_eq!(bound(&end(&busy(), text)), "db_outage", "{text}");
    }
    // Cyrillic о, а zero-width space, an accent, another low line.
    for text in [
        "db_оutage is resolved",
        "db_\u{200b}outage is resolved",
        "db_oútage is resolved",
        "db‿outage is resolved",
    ] {
        assert_eq!(deferred(&end(&busy(), text)), &DeferReason::LookAlike, "{text}");
    }
}

#[test]
fn two_ids_defer() {
    assert_eq!(deferred(&end(&busy(), "Fixed db_outage and csv_export")), &DeferReason::SeveralIds);
    let request = ends().with_target("db_outage");
    let resolution = resolve(&busy(), &request, &note("csv_export is fixed"), &[]);
    assert_eq!(deferred(&resolution), &DeferReason::SeveralIds);
}

#[test]
fn an_ended_row_is_a_no_op_for_an_id() {
    let mut space = busy();
    space.set_live(Bucket::Issues, "db_outage", false);
    assert_eq!(end(&space, "db_outage is resolved"), Resolution::NoOp { id: "db_outage".to_owned() });
}

#[test]
fn a_models_id_must_stand_in_the_note() {
    let request = ends().with_target("redis_timeout");
    let resolution = resolve(&busy(), &request, &note("The thing from yesterday is fixed"), &[]);
    assert_eq!(deferred(&resolution), &DeferReason::IdNotInNote);
    // If the words clearly mean another row, the two disagree.
    let request = ends().with_target("redis_timeout");
    let resolution = resolve(&busy(), &request, &note("Fixed the lint errors in the billing service."), &[]);
    assert_eq!(deferred(&resolution), &DeferReason::IdNotInNote);
}

/// The original made an alias of a slug that a note merely mentioned, and a lint issue then absorbed the end of the
/// outage.
#[test]
fn a_mention_in_passing_binds_nothing() {
    for text in [
        "Fixed the lint job, unrelated to db_outage",
        "Fixed it; not db_outage",
        "The proxy is fixed, still blocked by db_outage",
    ] {
        let resolution = end(&busy(), text);
        assert!(matches!(resolution, Resolution::Defer(_)), "{text}: {resolution:?}");
    }
    assert_eq!(
        deferred(&end(&busy(), "Fixed the lint job, unrelated to db_outage")),
        &DeferReason::NamedAside
    );
}

#[test]
fn names_that_a_model_proposes_bind_nothing() {
    let mut request = ends();
    request.candidate_aliases = vec!["redis_timeout".to_owned(), "db outage".to_owned()];
    request.reference_text = Some("redis_timeout".to_owned());
    request.confidence = Some(1.0);
    let resolution = resolve(&busy(), &request, &note("The earlier blocker is fixed"), &[]);
    assert_eq!(deferred(&resolution), &DeferReason::Uncertain);
}

#[test]
fn confirmed_aliases_bind_as_whole_phrases() {
    let mut row = issue("db_outage", "Primary is down");
    row.aliases = vec!["frankfurt incident".to_owned(), "incident".to_owned()];
    let space = space([row, issue("slow_search", "Search is slow")]);
    let resolution = end(&space, "The Frankfurt incident is resolved.");
    assert!(
        matches!(&resolution, Resolution::Bind(binding) if binding.by == BoundBy::Alias),
        "{resolution:?}"
    );
    assert!(matches!(end(&space, "The Munich incident is resolved."), Resolution::Defer(_)));
}

#[test]
fn an_alias_of_two_rows_defers() {
    let rows = ["one", "two"].map(|id| {
        let mut row = issue(&format!("outage_{id}"), "Down");
        row.aliases = vec!["the big outage".to_owned()];
        row
    });
    assert_eq!(deferred(&end(&space(rows), "the big outage is resolved")), &DeferReason::SeveralIds);
}

#[test]
fn a_plain_word_is_an_id_only_where_it_is_meant() {
    let space = space([issue("auth", "Tokens expire early"), issue("queue", "Jobs are lost")]);
    assert!(matches!(end(&space, "Fixed the auth flow of the mobile client"), Resolution::Defer(_)));
    assert_eq!(bound(&end(&space, "issue auth is fixed")), "auth");
    assert_eq!(bound(&end(&space, "`auth` is fixed")), "auth");
}

#[test]
fn new_rows_get_the_id_asked_for_and_existing_ones_must_be_named() {
    let write = |target: Option<&str>, title: &str| {
        let request = WriteRequest::new(Bucket::Issues, Operation::Upsert).with("title", title);
        target.map_or(request.clone(), |id| request.with_target(id))
    };
    let at = |request: &WriteRequest, text: &str| resolve(&busy(), request, &note(text), &[]);
    let fresh = at(&write(Some("disk_full"), "Disk is full"), "issue disk_full: Disk is full");
    assert_eq!(fresh, Resolution::New { id: Some("disk_full".to_owned()) });
    assert_eq!(bound(&at(&write(Some("db_outage"), "Worse"), "db_outage got worse")), "db_outage");
    let unnamed = at(&write(Some("db_outage"), "Worse"), "it got worse");
    assert_eq!(deferred(&unnamed), &DeferReason::IdNotInNote);
    assert_eq!(bound(&at(&write(None, "redis times out  UNDER load"), "Redis again")), "redis_timeout");
    assert_eq!(at(&write(None, "Disk is full"), "Disk is full"), Resolution::New { id: None });
}

#[test]
fn an_upsert_never_reopens() {
    let mut space = busy();
    space.set_live(Bucket::Issues, "db_outage", false);
    let request =
        WriteRequest::new(Bucket::Issues, Operation::Upsert).with_target("db_outage").with("title", "Back");
    assert_eq!(deferred(&resolve(&space, &request, &note("db_outage is back"), &[])), &DeferReason::Ended);
}

#[test]
fn the_plan_is_main() {
    let mut plan = issue("main", "Ship it");
    plan.bucket = Bucket::Plan;
    let request = WriteRequest::new(Bucket::Plan, Operation::Upsert).with("plan_json", "Ship it well");
    assert_eq!(bound(&resolve(&space([plan]), &request, &note("plan: Ship it well"), &[])), "main");
    let resolution = resolve(&space([]), &request, &note("plan: Ship it well"), &[]);
    assert_eq!(resolution, Resolution::New { id: Some("main".to_owned()) });
}

#[test]
fn a_row_reopened_after_the_note_is_not_ended_by_it() {
    let mut row = issue("db_outage", "Database outage");
    row.opened_at = day(11);
    assert_eq!(deferred(&end(&space([row]), "db_outage is resolved")), &DeferReason::OpenedLater);
}
