//! GOV-43 to GOV-46: what is forgotten, including what was derived from it.

use memory_core::ErrorKind;
use memory_core::sql::SqlValue;
use memory_governed::{Bucket, NoteSource, PendingStatus};
use serde_json::json;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_kind, expect_some};
use crate::cx::shared::{Shared, agent, append, authority, having, pending_of, person, resolve, upsert};

pub(crate) const CASES: &[Case] = &[
    case!("gov.forget.derived", [Sql, HostTables], ["GOV-43", "GOV-44"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        let private = having(
            upsert("issues", "ottilie_case", json!({ "title": "Ottilie lost a laptop" })),
            "candidate_aliases",
            json!(["the Quedlinburg affair"]),
        );
        shared.ask_by(&person("pat"), private).await?;
        shared
            .ask(append(
                "learnings",
                "lesson",
                json!({ "statement": "lock laptops", "source_issue_id": "ottilie_case" }),
            ))
            .await?;
        shared
            .ask(upsert(
                "issues",
                "db_outage",
                json!({ "description": "as Ottilie said", "severity": "high" }),
            ))
            .await?;
        let told = expect_some!(shared.state.notes("ada").await?.pop(), "the note with the description");
        shared.ask(upsert("issues", "db_outage", json!({ "severity": "low" }))).await?;
        let waits = shared.write("The earlier blocker is resolved.").await?;
        let waits = pending_of(&waits)?;
        let offered =
            expect_some!(shared.state.deferred(waits).await?, "the deferred write").candidates.len();
        expect_eq!(offered, 2, "rows that the deferred write may mean");

        // A row that others also wrote about loses only what this note gave it.
        shared.state.forget(&told.id, &person("pat")).await?;
        let row = shared.row(Bucket::Issues, "db_outage").await?;
        expect_eq!(
            (row.text("description"), row.text("severity")),
            (None, Some("low")),
            "what others said of the row"
        );
        nothing_is_left(&shared, &["as ottilie said"]).await?;

        // A row with no other source is gone, with its id, its names, and whatever depends on it.
        let opened = expect_some!(shared.state.notes("pat").await?.pop(), "the note that opened the issue");
        let forgotten = shared.state.forget(&opened.id, &person("pat")).await?;
        let gone: Vec<&str> = forgotten.rows.iter().map(|(_, id)| id.as_str()).collect();
        expect_eq!(gone, ["ottilie_case", "lesson"], "rows that are gone");
        nothing_is_left(&shared, &["ottilie", "quedlinburg", "lock laptops"]).await?;
        expect_eq!(shared.state.rows(Bucket::Learnings, true).await?.len(), 0, "what was derived");
        let waits = expect_some!(shared.state.deferred(waits).await?, "the deferred write");
        expect_eq!(waits.status, PendingStatus::NeedsReview, "a deferred write with one candidate less");
        expect_eq!(waits.candidates.len(), 1, "rows that it may still mean");
    }),
    case!("gov.forget.tombstones", [Sql, HostTables], ["GOV-45", "GOV-46"], |cx| {
        let shared = cx.shared().await?;
        let note =
            shared.note(&agent("ada"), NoteSource::Agent, "issue db_outage: Database outage", None).await?;
        shared.promoted().await?;
        shared.ask(resolve("db_outage")).await?;
        let anchor = shared.state.anchor().await?;
        expect_kind!(
            shared.state.forget(&note.id, &agent("ada")).await,
            ErrorKind::Forbidden,
            "an agent that forgets"
        );
        let theirs = shared
            .note(&person("pat"), NoteSource::Agent, "constraint budget: at most 10 euros", None)
            .await?;
        shared.promoted().await?;
        expect_kind!(
            shared.state.forget(&theirs.id, &authority("bob")).await,
            ErrorKind::Forbidden,
            "an agent that forgets what a person wrote"
        );
        expect_kind!(
            shared.state.forget_row(Bucket::Constraints, "budget", &authority("bob"), false).await,
            ErrorKind::Forbidden,
            "an agent that forgets a person's row"
        );
        let trial = shared.state.forget_row(Bucket::Issues, "db_outage", &person("pat"), true).await?;
        expect_eq!(
            (trial.events.len(), trial.notes.len(), trial.rows.len()),
            (2, 2, 1),
            "what would be forgotten"
        );
        expect_eq!(shared.issue("db_outage").await?, "resolved", "the row after a trial");
        expect_eq!(shared.count("tombstones").await?, 0, "tombstones of a trial");
        let forgotten = shared.state.forget_row(Bucket::Issues, "db_outage", &person("pat"), false).await?;
        expect_eq!(forgotten, trial, "what was forgotten, and what a trial said");
        let verified = shared.state.verify(Some(&anchor)).await?;
        expect_eq!((verified.events, verified.erased), (3, 2), "the chain after a row was forgotten");
        expect_eq!(
            shared.count("tombstones WHERE agent = 'pat' AND forgotten_at > 0").await?,
            5,
            "tombstones of two events, two notes and a row"
        );
        expect_kind!(
            shared.tables.exec("DELETE FROM tombstones").await,
            ErrorKind::InvalidArgument,
            "a tombstone that is removed"
        );
        // What is missing without a tombstone was not forgotten.
        shared.write("issue disk_full: no space left").await?;
        shared
            .tables
            .exec("UPDATE events_raw SET salt = NULL, raw_input = NULL WHERE raw_input IS NOT NULL")
            .await?;
        expect_kind!(
            shared.state.verify(None).await,
            ErrorKind::Corrupt,
            "words that were removed without a tombstone"
        );
    }),
];

/// None of these words is left in any table, now or after a rebuild, and the chain still verifies.
async fn nothing_is_left(shared: &Shared<'_>, words: &[&str]) -> CaseResult {
    for when in ["after forgetting", "after a rebuild"] {
        for table in shared.tables.tables().await?.into_iter().map(|table| table.name) {
            for cell in shared.tables.rows(&format!("SELECT * FROM {table}")).await?.concat() {
                if let SqlValue::Text(text) = cell {
                    let text = text.to_lowercase();
                    check!(!words.iter().any(|word| text.contains(word)), "{when}, {table} has: {text}");
                }
            }
        }
        shared.is_sound().await?;
    }
    Ok(())
}
