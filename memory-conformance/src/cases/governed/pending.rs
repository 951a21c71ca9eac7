//! GOV-32 to GOV-34: what waits.

use memory_governed::{Bucket, NoteSource, PendingStatus};

use crate::case::{Case, case};
use crate::check::{CaseResult, check, expect_eq, expect_some};
use crate::cx::shared::{Shared, agent, authority, kind, pending_of, resolve, second};

pub(crate) const CASES: &[Case] = &[
    case!("gov.pending.starvation", [Sql, HostTables], ["GOV-32"], |cx| {
        // A low limit, so that a few writes already exceed it.
        let shared = cx.shared_with(|setup| setup.options.replay_limit = 4).await?;
        cx.advance_ms(100_000);
        for n in 0..20 {
            // Each names the row, so opening it wakes all of them; none can be bound.
            let text = format!("Is cache_trouble fixed? Asked {n} times");
            expect_eq!(
                kind(&shared.read_as(&agent("ada"), &text, resolve("cache_trouble")).await?),
                "deferred"
            );
        }
        let last = shared.write("cache_trouble is fixed").await?;
        let last = pending_of(&last)?;
        shared.write_at("issue cache_trouble: The cache is in trouble", second(50)).await?;
        let mut rounds = 0;
        while state(&shared, last).await? == PendingStatus::Waiting {
            rounds += 1;
            check!(rounds <= 20, "a write that can be bound starves behind twenty that cannot");
            shared.later(2).await?;
        }
        expect_eq!(state(&shared, last).await?, PendingStatus::Resolved);
        expect_eq!(shared.issue("cache_trouble").await?, "resolved");
        shared.is_sound().await?;
    }),
    case!("gov.pending.backoff-and-expiry", [Sql, HostTables], ["GOV-33"], |cx| {
        let shared = cx.shared().await?;
        let hopeless = shared.write("The earlier blocker is fixed.").await?;
        let hopeless = pending_of(&hopeless)?;
        let (mut tried, mut pauses, mut since) = (0, Vec::new(), 0);
        for second in 1..=600 {
            shared.later(1).await?;
            let now = expect_some!(shared.state.deferred(hopeless).await?, "the deferred write");
            if now.attempts != tried || now.status != PendingStatus::Waiting {
                pauses.push(second - since);
                (tried, since) = (now.attempts, second);
            }
            if now.status != PendingStatus::Waiting {
                break;
            }
        }
        expect_eq!(
            state(&shared, hopeless).await?,
            PendingStatus::NeedsReview,
            "after ten minutes of trying"
        );
        check!(pauses.len() == 8, "it was tried {} times, after pauses of {pauses:?} s", pauses.len());
        check!(
            pauses.iter().zip(pauses.iter().skip(1)).skip(1).all(|(one, next)| next > one),
            "the pauses do not grow: {pauses:?} s"
        );
        // A write that is not retried asks for a person after waiting too long.
        let waits = shared.write("That thing is fixed.").await?;
        let waits = pending_of(&waits)?;
        shared.later(15 * 24 * 3_600).await?;
        expect_eq!(state(&shared, waits).await?, PendingStatus::NeedsReview, "after fifteen days");
        expect_eq!(shared.count("events_memory").await?, 0, "events");
    }),
    case!("gov.pending.keeps-its-writer", [Sql, HostTables], ["GOV-34"], |cx| {
        let shared = cx.shared().await?;
        cx.advance_ms(100_000);
        let eve = shared.write_by(&authority("eve"), "cache_trouble is fixed").await?;
        let observed = cx.now();
        let bob = shared.write_by(&agent("bob"), "queue_trouble is fixed").await?;
        let (eve, bob) = (pending_of(&eve)?, pending_of(&bob)?);
        // The one who opens the rows triggers the replay, and may end them; but the earlier writer's rights decide.
        for id in ["cache_trouble", "queue_trouble"] {
            let text = format!("issue {id}: Something is in trouble");
            shared.note(&authority("ada"), NoteSource::Agent, &text, Some(second(50))).await?;
            shared.promoted().await?;
        }
        for _ in 0..3 {
            shared.later(120).await?;
        }
        expect_eq!(shared.issue("cache_trouble").await?, "resolved", "what eve's deferred write ends");
        let why = shared.state.why(Bucket::Issues, "cache_trouble").await?;
        let end = &expect_some!(why.events.last(), "the event that ended the issue").event;
        expect_eq!(end.actor, authority("eve"), "whose event it is");
        expect_eq!(end.observed_at, observed, "when it was observed: when eve wrote, not when the row came");
        expect_eq!(
            end.causation_pending_id.as_deref(),
            Some(eve),
            "the deferred write that the event came of"
        );
        expect_eq!(shared.issue("queue_trouble").await?, "open", "a row that bob, who wrote, may not end");
        expect_eq!(state(&shared, bob).await?, PendingStatus::Waiting);
        shared.is_sound().await?;
    }),
];

/// What a deferred write waits for.
async fn state(shared: &Shared<'_>, id: &str) -> CaseResult<PendingStatus> {
    Ok(expect_some!(shared.state.deferred(id).await?, "the deferred write").status)
}
