//! GOV-26, GOV-27, GOV-29: what is left after a failure.

use memory_governed::{Bucket, PendingStatus};
use serde_json::json;

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::Cx;
use crate::cx::shared::{Shared, agent, authority, having, kind, pending_of, second, upsert};

pub(crate) const CASES: &[Case] = &[
    case!("gov.ledger.projection-fault", [Sql, HostTables], ["GOV-26"], |cx| {
        let shared = cx.shared().await?;
        // The names of a row are written after the row: the projection fails in its middle.
        let fault = Fault { table: "aliases", column: "alias_norm", value: "boom" };
        fault.begin(cx, &shared).await?;
        let mut request = upsert("issues", "disk_full", json!({ "title": "Disk is full" }));
        request = having(request, "candidate_aliases", json!(["boom"]));
        let outcome = shared.read_as(&agent("ada"), "disk_full, also called boom", request).await?;
        expect_eq!(kind(&outcome), "failed", "an event whose projection fails: {outcome:?}");
        check!(shared.state.row(Bucket::Issues, "disk_full").await?.is_none(), "half a projection stayed");
        expect_eq!(shared.count("events_memory").await?, 1, "events: the one whose projection failed");
        expect_eq!(shared.state.verify(None).await?.events, 1, "events of the chain");
        let why = shared.state.why(Bucket::Issues, "disk_full").await?;
        expect_eq!(
            why.events.first().map(|one| one.projection.as_str()),
            Some("failed"),
            "what `why` says of the event"
        );
        expect_eq!(
            kind(&shared.write("issue net_down: Network is down").await?),
            "applied",
            "another row meanwhile"
        );
        fault.end(cx, &shared).await?;
        let rebuilt = shared.state.rebuild().await?;
        expect_eq!((rebuilt.agrees(), rebuilt.repaired, rebuilt.rows), (false, 1, 2), "the rebuild");
        expect_eq!(shared.row(Bucket::Issues, "disk_full").await?.text("title"), Some("Disk is full"));
        shared.is_sound().await?;
    }),
    case!("gov.ledger.behind-a-fault", [Sql, HostTables], ["GOV-27"], |cx| {
        let shared = cx.shared().await?;
        let fault = Fault { table: "shared_issues", column: "title", value: "boom" };
        fault.begin(cx, &shared).await?;
        expect_eq!(kind(&shared.write("issue disk_full: boom").await?), "failed");
        let behind = upsert("issues", "disk_full", json!({ "title": "boom", "severity": "low" }));
        expect_eq!(kind(&shared.ask(behind).await?), "blocked", "a later write of the row that failed");
        expect_eq!(
            kind(&shared.write("issue net_down: Network is down").await?),
            "applied",
            "a write of another row"
        );
        expect_eq!(
            kind(&shared.write("disk_full is resolved").await?),
            "deferred",
            "the end of a row that is not there yet"
        );
        shared.later(10).await?;
        check!(
            shared.state.row(Bucket::Issues, "disk_full").await?.is_none(),
            "the fault lasts, and there is a row"
        );
        fault.end(cx, &shared).await?;
        for _ in 0..3 {
            shared.later(120).await?;
        }
        let row = shared.row(Bucket::Issues, "disk_full").await?;
        expect_eq!(
            (row.status.as_str(), row.text("severity"), row.rev),
            ("resolved", Some("low"), 3),
            "the row after the fault: opened, changed and resolved, in that order"
        );
        shared.is_sound().await?;
    }),
    case!("gov.pending.crash-while-committing", [Sql, HostTables], ["GOV-29"], |cx| {
        let shared = cx.shared().await?;
        cx.advance_ms(100_000);
        let waits = shared.write_by(&authority("eve"), "cache_trouble is fixed").await?;
        let waits = pending_of(&waits)?;
        // The deferred write cannot be marked: its event must not stay either.
        let fault = Fault { table: "pending_memory_events", column: "status", value: "resolved" };
        fault.begin(cx, &shared).await?;
        let text = "issue cache_trouble: The cache is in trouble";
        shared.note(&agent("ada"), memory_governed::NoteSource::Agent, text, Some(second(50))).await?;
        drop(shared.state.promote_one().await);
        expect_eq!(shared.issue("cache_trouble").await?, "open", "the row whose end could not be committed");
        expect_eq!(
            shared.count("events_memory").await?,
            1,
            "events after half a commit: the one that opened the issue"
        );
        fault.end(cx, &shared).await?;
        shared.later(600).await?;
        expect_eq!(shared.issue("cache_trouble").await?, "resolved");
        let resolved = expect_some!(shared.state.deferred(waits).await?, "the deferred write");
        let event = expect_some!(resolved.resolved_event, "the event that it became");
        // As if the process had died between the two steps: the event exists, and the write still waits.
        shared
            .tables
            .exec("UPDATE pending_memory_events SET status = 'waiting', resolved_event = NULL")
            .await?;
        shared.later(600).await?;
        let again = expect_some!(shared.state.deferred(waits).await?, "the deferred write");
        expect_eq!(
            (again.status, again.resolved_event),
            (PendingStatus::Resolved, Some(event)),
            "the write after a crash"
        );
        expect_eq!(shared.count("events_memory").await?, 2, "events: opened, resolved once");
        shared.is_sound().await?;
    }),
];

/// A table that refuses one value: a fault of the store in the middle of a transaction.
struct Fault {
    table: &'static str,
    column: &'static str,
    value: &'static str,
}

impl Fault {
    async fn begin(&self, cx: &Cx, shared: &Shared<'_>) -> CaseResult {
        let Self { table, column, value } = self;
        let trigger = |event: &str| {
            format!(
                "CREATE TRIGGER broken_{event} BEFORE {event} ON {table} WHEN NEW.{column} = '{value}' \
                 BEGIN SELECT RAISE(ABORT, 'broken'); END"
            )
        };
        let check = format!("ALTER TABLE {table} ADD CONSTRAINT broken CHECK ({column} <> '{value}')");
        for statement in cx.in_dialect(vec![trigger("INSERT"), trigger("UPDATE")], vec![check]) {
            shared.tables.exec(&statement).await?;
        }
        Ok(())
    }

    async fn end(&self, cx: &Cx, shared: &Shared<'_>) -> CaseResult {
        let check = format!("ALTER TABLE {} DROP CONSTRAINT broken", self.table);
        let triggers = vec!["DROP TRIGGER broken_INSERT".to_owned(), "DROP TRIGGER broken_UPDATE".to_owned()];
        for statement in cx.in_dialect(triggers, vec![check]) {
            shared.tables.exec(&statement).await?;
        }
        Ok(())
    }
}
