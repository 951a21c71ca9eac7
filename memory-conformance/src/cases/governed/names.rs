//! GOV-8 to GOV-10, GOV-14, GOV-15, GOV-23, GOV-24: ids and other names.

use memory_governed::Bucket;
use serde_json::json;

use crate::case::{Case, case};
use crate::check::{check, expect_eq};
use crate::cx::shared::{agent, authority, having, kind, resolve, upsert};

pub(crate) const CASES: &[Case] = &[
    case!("gov.names.unknown", [Sql, HostTables], ["GOV-8"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue redis_timeout: Redis times out under load").await?;
        let before = shared.row(Bucket::Issues, "redis_timeout").await?;
        for text in
            ["postgres_timeout is fixed", "Resolved postgres_timeout.", "Fixed redis_timeouts and redeployed"]
        {
            expect_eq!(kind(&shared.write(text).await?), "deferred", "`{text}`");
        }
        // A model names a row that does not exist, while its words match another.
        let guessed =
            shared.read_as(&agent("ada"), "The Redis timeout is fixed", resolve("postgres_timeout")).await?;
        expect_eq!(kind(&guessed), "deferred", "an unknown id of a model");
        shared.later(3_600).await?;
        expect_eq!(
            shared.state.rows(Bucket::Issues, true).await?,
            [before],
            "the only row, neither ended nor renamed"
        );
        shared.is_sound().await?;
    }),
    case!("gov.names.whole-tokens", [Sql, HostTables], ["GOV-9"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue issue_1: Disk is full").await?;
        shared.write("issue issue_10: Queue is stuck").await?;
        for text in ["issue_100 is resolved", "my_issue_1 is resolved"] {
            expect_eq!(kind(&shared.write(text).await?), "deferred", "`{text}`");
        }
        expect_eq!(kind(&shared.write("issue_10 is resolved").await?), "applied");
        expect_eq!(
            (shared.issue("issue_1").await?, shared.issue("issue_10").await?),
            ("open".into(), "resolved".into())
        );
        expect_eq!(kind(&shared.write("Resolved issue_1.").await?), "applied");
        expect_eq!(shared.issue("issue_1").await?, "resolved");
    }),
    case!("gov.names.of-bucket-and-tenant", [Sql, HostTables], ["GOV-10"], |cx| {
        let tenant = cx.other_tenant()?;
        let (shared, other) = (cx.shared().await?, cx.shared_with(move |setup| setup.tenant = tenant).await?);
        shared.write("issue cold_cache: The cache is cold").await?;
        shared.write("constraint cold_cache: Stay under 1 GB").await?;
        other.write("issue cold_cache: Ours is cold too").await?;
        expect_eq!(kind(&shared.write("cold_cache is resolved").await?), "deferred", "an id of two kinds");
        expect_eq!(kind(&shared.write("issue cold_cache is resolved").await?), "applied");
        expect_eq!(shared.issue("cold_cache").await?, "resolved");
        expect_eq!(
            shared.row(Bucket::Constraints, "cold_cache").await?.status,
            "active",
            "the constraint of that id"
        );
        let theirs = other.row(Bucket::Issues, "cold_cache").await?;
        expect_eq!(
            (theirs.status.as_str(), theirs.text("title")),
            ("open", Some("Ours is cold too")),
            "another tenant's"
        );
        expect_eq!(other.count("events_memory").await?, 1, "events of the other tenant");
        shared.is_sound().await?;
    }),
    case!("gov.names.mention-is-no-alias", [Sql, HostTables], ["GOV-14"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        shared.write("issue lint_errors: The lint job fails, unrelated to db_outage").await?;
        let lint = shared.row(Bucket::Issues, "lint_errors").await?;
        check!(lint.aliases.is_empty(), "what a note mentions became a name of its row: {:?}", lint.aliases);
        let aside = shared.write("Fixed the lint job, unrelated to db_outage").await?;
        expect_eq!(kind(&aside), "deferred", "a row that is named in passing");
        expect_eq!(
            (shared.issue("db_outage").await?, shared.issue("lint_errors").await?),
            ("open".into(), "open".into())
        );
        expect_eq!(kind(&shared.write("db_outage is resolved").await?), "applied");
        expect_eq!(shared.issue("lint_errors").await?, "open", "the row whose note mentioned the other");
    }),
    case!("gov.names.hints-of-a-model", [Sql, HostTables], ["GOV-15"], |cx| {
        let (shared, ada) = (cx.shared().await?, agent("ada"));
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        shared.write("issue lint_errors: Lint errors in the billing service").await?;
        let hints = json!({ "bucket": "issues", "operation": "resolve", "reference_text": "db_outage",
            "candidate_aliases": ["db_outage", "the earlier blocker"], "confidence": 1.0, "rationale": "surely db_outage" });
        let named = resolve("db_outage");
        for (text, request) in
            [("The earlier blocker is fixed.", hints), ("The thing from yesterday is fixed.", named)]
        {
            expect_eq!(
                kind(&shared.read_as(&ada, text, request).await?),
                "deferred",
                "`{text}` with a model's hints"
            );
        }
        let mut called = upsert("issues", "lint_errors", json!({ "severity": "low" }));
        called = having(called, "candidate_aliases", json!(["the outage of Monday"]));
        expect_eq!(kind(&shared.read_as(&ada, "lint_errors is minor", called.clone()).await?), "applied");
        expect_eq!(
            kind(&shared.write("The outage of Monday is fixed.").await?),
            "deferred",
            "a name that a model gave"
        );
        expect_eq!(
            (shared.issue("db_outage").await?, shared.issue("lint_errors").await?),
            ("open".into(), "open".into())
        );
        // Nor does a model change a row that the note does not name.
        let before = shared.row(Bucket::Issues, "db_outage").await?;
        let other = upsert("issues", "db_outage", json!({ "title": "The printer is out of paper" }));
        expect_eq!(
            kind(&shared.read_as(&ada, "The printer is out of paper", other).await?),
            "deferred",
            "a change of a row that only the model names"
        );
        expect_eq!(
            shared.row(Bucket::Issues, "db_outage").await?,
            before,
            "the row that only the model names"
        );
        // A name that only the model gives is not confirmed, even for a writer with authority.
        called = upsert("issues", "lint_errors", json!({ "severity": "high" }));
        called = having(called, "candidate_aliases", json!(["the printer jam"]));
        expect_eq!(
            kind(&shared.read_as(&authority("eve"), "lint_errors is minor", called.clone()).await?),
            "applied"
        );
        let jam = shared.write("The printer jam is fixed.").await?;
        expect_eq!(kind(&jam), "deferred", "a name that a model gave to a writer with authority");
        // A name in the note of a writer with authority is confirmed.
        called = having(called, "candidate_aliases", json!(["the billing mess"]));
        shared.read_as(&authority("eve"), "lint_errors is the billing mess", called).await?;
        expect_eq!(kind(&shared.write("The billing mess is fixed.").await?), "applied", "a confirmed name");
        expect_eq!(
            (shared.issue("db_outage").await?, shared.issue("lint_errors").await?),
            ("open".into(), "resolved".into())
        );
    }),
    case!("gov.names.two-ids", [Sql, HostTables], ["GOV-23"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        shared.write("issue csv_export: CSV export drops the last column").await?;
        expect_eq!(kind(&shared.write("Fixed db_outage and csv_export").await?), "deferred");
        // A model picks one of the two, or one that the note does not name.
        for text in ["Fixed csv_export while looking at db_outage", "csv_export is fixed"] {
            let outcome = shared.read_as(&agent("ada"), text, resolve("db_outage")).await?;
            expect_eq!(kind(&outcome), "deferred", "`{text}`, read as the end of db_outage");
        }
        expect_eq!(
            (shared.issue("db_outage").await?, shared.issue("csv_export").await?),
            ("open".into(), "open".into())
        );
        let each = "db_outage is fixed\ncsv_export is resolved";
        expect_eq!(kind(&shared.read_as(&agent("ada"), each, resolve("csv_export")).await?), "applied");
        expect_eq!(
            (shared.issue("db_outage").await?, shared.issue("csv_export").await?),
            ("open".into(), "resolved".into())
        );
    }),
    case!("gov.names.look-alikes", [Sql, HostTables], ["GOV-24"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        // Cyrillic о, a zero-width space, an accent, another low line.
        for text in [
            "db_\u{43e}utage is resolved",
            "db_\u{200b}outage is resolved",
            "db_o\u{301}utage is resolved",
            "db\u{203f}outage is resolved",
        ] {
            expect_eq!(kind(&shared.write(text).await?), "deferred", "{}", text.escape_unicode());
        }
        for id in ["db_\u{43e}utage", "DB_OUTAGE", "db_\u{ff4f}utage", "db outage", "1_db", ""] {
            let made = shared.ask(upsert("issues", id, json!({ "title": "t" }))).await?;
            expect_eq!(kind(&made), "rejected", "a new row `{}`", id.escape_unicode());
        }
        expect_eq!(shared.state.rows(Bucket::Issues, true).await?.len(), 1, "rows");
        for (at, text) in [
            "DB_OUTAGE is resolved",
            "\u{ff44}\u{ff42}\u{ff3f}\u{ff4f}\u{ff55}\u{ff54}\u{ff41}\u{ff47}\u{ff45} is resolved",
        ]
        .into_iter()
        .enumerate()
        {
            let became = if at == 0 { "applied" } else { "no_op" };
            expect_eq!(
                kind(&shared.write(text).await?),
                became,
                "another case or width of the same id: `{text}`"
            );
        }
    }),
];
