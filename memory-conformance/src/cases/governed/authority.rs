//! GOV-17, GOV-18: who may end or change a row.

use memory_core::ErrorKind;
use memory_governed::{Actor, Bucket, NoteSource, Trust};

use crate::case::{Case, case};
use crate::check::{expect_eq, expect_kind};
use crate::cx::shared::{agent, authority, kind, only, pending_of, person};

pub(crate) const CASES: &[Case] = &[
    case!("gov.authority.tools", [Sql, HostTables], ["GOV-17"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        let untrusted = Actor { trust: Trust::Untrusted, ..agent("fetch") };
        // Even if the agent that opened the issue, or a person, passes on a tool's words.
        for (by, source) in [
            (agent("ada"), NoteSource::ToolResult),
            (person("ada"), NoteSource::ToolResult),
            (untrusted.clone(), NoteSource::ToolResult),
            (untrusted, NoteSource::Agent),
        ] {
            let text = "db_outage is resolved";
            shared.note(&by, source, text, None).await?;
            expect_eq!(
                kind(&only(shared.promoted().await?, text)?),
                "deferred",
                "`{text}` by {by:?} from {source:?}"
            );
        }
        shared.later(3_600).await?;
        expect_eq!(shared.issue("db_outage").await?, "open");
        expect_eq!(
            kind(&shared.write("db_outage is resolved").await?),
            "applied",
            "the same, said by the agent itself"
        );
        // It does not change existing rows either; but it may add, and report a task's state.
        for (text, other, again) in [
            (
                "constraint budget: at most 10 euros a day",
                "constraint budget: at most 1000 euros a day",
                "deferred",
            ),
            ("plan: ship on Monday", "plan: ship on Sunday", "deferred"),
            ("issue disk_full: no space left", "issue disk_full: all is well", "deferred"),
            ("task build: done", "task build: failed", "applied"),
        ] {
            for (text, became) in [(text, "applied"), (other, again)] {
                shared.note(&agent("ada"), NoteSource::ToolResult, text, None).await?;
                expect_eq!(kind(&only(shared.promoted().await?, text)?), became, "`{text}`, said by a tool");
            }
        }
        let budget = shared.row(Bucket::Constraints, "budget").await?;
        expect_eq!(
            budget.text("text"),
            Some("at most 10 euros a day"),
            "a constraint after what a tool said of it"
        );
    }),
    case!("gov.authority.writers", [Sql, HostTables], ["GOV-18"], |cx| {
        let shared = cx.shared().await?;
        for (at, (opener, ender, became)) in [
            (agent("ada"), agent("bob"), "deferred"),
            (agent("ada"), agent("ada"), "applied"),
            (agent("ada"), authority("bob"), "applied"),
            (agent("ada"), person("pat"), "applied"),
            (person("pat"), agent("ada"), "deferred"),
            (person("pat"), authority("bob"), "deferred"),
            (person("pat"), person("kim"), "applied"),
        ]
        .into_iter()
        .enumerate()
        {
            let id = format!("db_outage_{at}");
            shared.write_by(&opener, &format!("issue {id}: Database outage in the region {at}")).await?;
            let outcome = shared.write_by(&ender, &format!("{id} is resolved")).await?;
            expect_eq!(
                kind(&outcome),
                became,
                "the end of what {opener:?} opened, by {ender:?}: {outcome:?}"
            );
            let expected = if became == "applied" { "resolved" } else { "open" };
            expect_eq!(shared.issue(&id).await?, expected, "what {opener:?} opened, after {ender:?}");
            if opener.trust > ender.trust && ender.trust >= Trust::Authority {
                let waits = pending_of(&outcome)?;
                expect_kind!(
                    shared.state.bind(waits, &id, &ender).await,
                    ErrorKind::Forbidden,
                    "its own note about what {opener:?} opened, decided by {ender:?}"
                );
                expect_eq!(
                    shared.issue(&id).await?,
                    "open",
                    "what {opener:?} opened, after {ender:?} decided"
                );
            }
        }
        // The plan and a constraint bind others: they are changed by writers of their trust.
        for (first, then) in [
            ("constraint budget: at most 10 euros", "constraint budget: at most 1000 euros"),
            ("plan: one", "plan: two"),
        ] {
            expect_eq!(
                kind(&shared.write_by(&person("pat"), first).await?),
                "applied",
                "`{first}` by a person"
            );
            for by in [agent("ada"), authority("bob")] {
                expect_eq!(kind(&shared.write_by(&by, then).await?), "deferred", "`{then}` by {by:?}");
            }
            expect_eq!(
                kind(&shared.write_by(&person("kim"), then).await?),
                "applied",
                "`{then}` by another person"
            );
        }
        shared.is_sound().await?;
    }),
];
