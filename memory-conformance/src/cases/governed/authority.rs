//! GOV-17, GOV-18: who may end a row.

use memory_governed::{Actor, NoteSource, Trust};

use crate::case::{Case, case};
use crate::check::expect_eq;
use crate::cx::shared::{agent, authority, kind, only, person};

pub(crate) const CASES: &[Case] = &[
    case!("gov.authority.tools", [Sql, HostTables], ["GOV-17"], |cx| {
        let shared = cx.shared().await?;
        shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
        let untrusted = Actor { trust: Trust::Untrusted, ..agent("fetch") };
        // Even what a tool said to the agent that opened the issue, or to a person.
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
        }
        shared.is_sound().await?;
    }),
];
