//! GOV-25: every input has a size.

use memory_core::ErrorKind;
use memory_governed::NoteSource;
use serde_json::{Value, json};

use crate::case::{Case, case};
use crate::check::{expect_eq, expect_kind};
use crate::cx::shared::{agent, append, having, kind, upsert};

pub(crate) const CASES: &[Case] = &[case!("gov.limits.floods", [Sql, HostTables], ["GOV-25"], |cx| {
    let shared = cx.shared().await?;
    let with = |member: &str, value: Value| {
        let mut request = upsert("issues", "disk_full", json!({ "title": "Disk is full" }));
        request = having(request, member, value);
        request
    };
    let names = |count: usize| json!((0..count).map(|n| format!("name {n}")).collect::<Vec<_>>());
    for (what, request) in [
        (
            "a title of 8 KiB and a byte",
            upsert("issues", "disk_full", json!({ "title": "x".repeat((8 << 10) + 1) })),
        ),
        (
            "a plan of 33 KiB",
            json!({ "bucket": "plan", "operation": "upsert", "payload": { "plan_json": "x".repeat(33 << 10) } }),
        ),
        ("an id of 65 letters", upsert("issues", &"a".repeat(65), json!({ "title": "t" }))),
        ("nine names", with("candidate_aliases", names(9))),
        ("a name of 201 bytes", with("candidate_aliases", json!(["x".repeat(201)]))),
        ("a blank title", upsert("issues", "disk_full", json!({ "title": " " }))),
        ("a title with a NUL", upsert("issues", "disk_full", json!({ "title": "a\0b" }))),
        (
            "a member that there is not",
            upsert("issues", "disk_full", json!({ "title": "t", "status": "resolved" })),
        ),
        ("a member of the host", upsert("issues", "disk_full", json!({ "title": "t", "trust": "person" }))),
        ("a number for a text", upsert("issues", "disk_full", json!({ "title": 7 }))),
        ("a text for a number", append("results", "r", json!({ "metric_name": "m", "metric_value": "7" }))),
    ] {
        let outcome = shared.read_as(&agent("ada"), what, request).await?;
        expect_eq!(kind(&outcome), "rejected", "{what}: {outcome:?}");
    }
    let flood: Vec<Value> = (0..17)
        .map(|n| append("results", &format!("r_{n}"), json!({ "metric_name": "m", "metric_value": n })))
        .collect();
    shared.is_read_as("a flood", serde_json::from_value(Value::Array(flood))?);
    expect_eq!(shared.say("a flood").await?.outcomes.len(), 0, "what became of 17 writes of one note");
    let long = shared.state.note(&agent("ada"), NoteSource::Agent, &"x".repeat((16 << 10) + 1), None).await;
    expect_kind!(long, ErrorKind::TooLarge, "a note of 16 KiB and a byte");
    for blank in [" \n", "a\0b"] {
        let noted = shared.state.note(&agent("ada"), NoteSource::Agent, blank, None).await;
        expect_kind!(noted, ErrorKind::InvalidArgument, "the note {blank:?}");
    }
    expect_eq!(shared.count("events_memory").await?, 0, "events");
    expect_eq!(shared.count("pending_memory_events").await?, 0, "deferred writes");
    // What just fits is taken.
    let title = format!("{:.<8192}", "Disk is full");
    let fits = upsert("issues", "disk_full", json!({ "title": title }));
    expect_eq!(kind(&shared.read_as(&agent("ada"), "a title of 8 KiB", fits).await?), "applied");
    let named =
        shared.read_as(&agent("ada"), "disk_full: eight names", with("candidate_aliases", names(8))).await?;
    expect_eq!(kind(&named), "applied", "eight names: {named:?}");
    shared.is_sound().await?;
})];
