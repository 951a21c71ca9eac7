//! GOV-11 to GOV-13, GOV-36, GOV-40: notes that refer to a row by words.

use memory_core::ErrorKind;
use memory_governed::{Bucket, PendingStatus, Scored};
use serde_json::json;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::shared::{Shared, agent, having, kind, pending_of, person, second, upsert};

pub(crate) const CASES: &[Case] = &[
    case!("gov.words.two-alike", [Sql, HostTables], ["GOV-11"], |cx| {
        let shared = cx.shared().await?;
        outages(&shared).await?;
        for text in ["The database outage is resolved.", "Fixed the outage of the database in that region."] {
            let outcome = shared.write(text).await?;
            expect_eq!(kind(&outcome), "deferred", "`{text}`");
            let waits =
                expect_some!(shared.state.deferred(pending_of(&outcome)?).await?, "the deferred write");
            let offered: Vec<&str> = waits.candidates.iter().map(|one| one.id.as_str()).collect();
            check!(
                offered.contains(&"outage_a") && offered.contains(&"outage_b"),
                "`{text}` is offered {offered:?}, without both that are alike"
            );
        }
        shared.later(3_600).await?;
        expect_eq!(
            (shared.issue("outage_a").await?, shared.issue("outage_b").await?),
            ("open".into(), "open".into())
        );
        expect_eq!(shared.count("events_memory").await?, 3, "events: the three that opened the issues");
    }),
    case!("gov.words.opened-later", [Sql, HostTables], ["GOV-12"], |cx| {
        let shared = cx.shared().await?;
        let vague = shared.write("The earlier blocker is fixed.").await?;
        expect_eq!(kind(&vague), "deferred");
        cx.advance_ms(60_000);
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        for text in ["db_outage is resolved", "Resolved the database outage in the Frankfurt region."] {
            let outcome = shared.write_at(text, second(30)).await?;
            expect_eq!(kind(&outcome), "deferred", "`{text}`, observed before the row was opened");
        }
        for _ in 0..6 {
            shared.later(600).await?;
        }
        expect_eq!(
            shared.issue("db_outage").await?,
            "open",
            "a row that was opened after all these were observed"
        );
        expect_eq!(kind(&shared.write("db_outage is resolved").await?), "applied", "observed now");
        shared.write_at("issue disk_full: The disk of the Berlin worker is full", second(90)).await?;
        let ended = shared.write_at("disk_full is resolved", second(90)).await?;
        expect_eq!(kind(&ended), "applied", "observed at the moment when the row was opened");
    }),
    case!("gov.words.elimination", [Sql, HostTables], ["GOV-13"], |cx| {
        let shared = cx.shared().await?;
        outages(&shared).await?;
        let vague = shared.write("The database outage is resolved.").await?;
        let vague = pending_of(&vague)?;
        expect_eq!(kind(&shared.write("outage_a is resolved").await?), "applied");
        for _ in 0..4 {
            shared.later(900).await?;
        }
        expect_eq!(shared.issue("outage_b").await?, "open", "the candidate that is left");
        let waits = expect_some!(shared.state.deferred(vague).await?, "the deferred write");
        expect_eq!(waits.status, PendingStatus::NeedsReview, "a write one of whose candidates has ended");
        let bound = shared.state.bind(vague, "outage_b", &person("pat")).await?;
        expect_eq!(kind(&bound), "applied", "what a person decides");
        shared.is_sound().await?;
    }),
    case!("gov.words.stale-mention", [Sql, HostTables], ["GOV-36"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        shared.write("db_outage is resolved").await?;
        cx.advance_ms(100_000);
        // It happens again: neither a note nor a person can revive the row, so this is another row.
        let again = shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        let again = pending_of(&again)?;
        expect_eq!(
            shared.issue("db_outage").await?,
            "resolved",
            "a row that has ended, after a note about it"
        );
        let revived = shared.state.bind(again, "db_outage", &person("pat")).await;
        expect_kind!(revived, ErrorKind::Conflict, "a person revives a row that has ended");
        shared.write("issue db_outage_2: Database outage in the Frankfurt region").await?;
        for text in ["db_outage_2 is resolved", "Resolved the database outage in the Frankfurt region."] {
            let stale = shared.write_at(text, second(50)).await?;
            check!(matches!(kind(&stale), "deferred" | "no_op"), "a stale `{text}` became {stale:?}");
        }
        expect_eq!(
            kind(&shared.write_at("db_outage is resolved", second(50)).await?),
            "no_op",
            "a stale note, by id"
        );
        shared.later(3_600).await?;
        expect_eq!(
            (shared.issue("db_outage").await?, shared.issue("db_outage_2").await?),
            ("resolved".into(), "open".into())
        );
        shared.is_sound().await?;
    }),
    case!("gov.words.names-do-not-dilute", [Sql, HostTables], ["GOV-40"], |cx| {
        let shared = cx.shared().await?;
        outages(&shared).await?;
        cx.advance_ms(1_000_000);
        let before = scores(&shared).await?;
        check!(before.len() >= 2, "the vague note is offered {before:?}");
        for round in 0..4 {
            for id in ["outage_a", "outage_b"] {
                let mut called = upsert("issues", id, json!({ "severity": format!("level {round}") }));
                let names: Vec<String> =
                    (0..8).map(|n| format!("nickname {n} of {id}, round {round}")).collect();
                called = having(called, "candidate_aliases", json!(names));
                expect_eq!(
                    kind(&shared.read_as(&agent("ada"), &format!("{id} is also called so"), called).await?),
                    "applied"
                );
            }
        }
        let grown = shared.row(Bucket::Issues, "outage_a").await?;
        expect_eq!(grown.aliases.len(), 32, "names of the row");
        expect_eq!(
            scores(&shared).await?,
            before,
            "the candidates and their scores, after the rows got 32 names each"
        );
    }),
];

/// Two nearly identical issues, and a different one.
async fn outages(shared: &Shared<'_>) -> CaseResult {
    shared.write("issue outage_a: Database outage in the Frankfurt region").await?;
    shared.write("issue outage_b: Database outage in the Dublin region").await?;
    shared.write("issue csv_export: CSV export drops the last column of wide reports").await?;
    Ok(())
}

/// The candidates of a vague note, and how well each fits.
async fn scores(shared: &Shared<'_>) -> CaseResult<Vec<(String, f64)>> {
    let vague = shared.write_at("The database outage is resolved.", second(500)).await?;
    let waits = expect_some!(shared.state.deferred(pending_of(&vague)?).await?, "the deferred write");
    Ok(waits.candidates.into_iter().map(|Scored { id, score, .. }| (id, score)).collect())
}
