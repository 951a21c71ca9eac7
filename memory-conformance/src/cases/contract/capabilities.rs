//! CAP: exactly what is advertised is served.

use memory_core::{Capabilities, HealthStatus};

use crate::case::{Case, Need, case};
use crate::check::{check, expect_eq};
use crate::refusals;

pub(crate) const CASES: &[Case] = &[
    case!("cap.flags.constant", [], ["CAP-2", "CAP-5"], |cx| {
        let first = cx.raw().capabilities();
        cx.raw().health().await?;
        expect_eq!(cx.raw().capabilities(), first, "the second answer");
        expect_eq!(cx.provider().capabilities(), first, "the answer through Checked");
        let text = serde_json::to_string(&first)?;
        let back: Capabilities = serde_json::from_str(&text)?;
        expect_eq!(back, first, "after a JSON round trip");
        let contradictions = first.contradictions();
        check!(contradictions.is_empty(), "the flags contradict each other: {contradictions:?}");
    }),
    case!("cap.facets.match-flags", [], ["CAP-1"], |cx| {
        let flags = cx.capabilities();
        for (provider, via) in
            [(cx.provider(), "called through Checked"), (cx.raw(), "called on the provider itself")]
        {
            expect_eq!(
                provider.backend().is_some(),
                flags.kv,
                "`backend()` {via}, compared with the flag `kv`"
            );
            expect_eq!(
                provider.layer().is_some(),
                flags.memory_layer,
                "`layer()` {via}, compared with the flag `memory_layer`"
            );
            expect_eq!(provider.sql().is_some(), flags.sql, "`sql()` {via}, compared with the flag `sql`");
        }
    }),
    case!("cap.unadvertised.refused", [], ["CAP-3", "CAP-4"], |cx| {
        let capabilities = cx.capabilities();
        // Without a facet everything in it is refused.
        let stands = |need: Need| match need {
            Need::Kv | Need::Sql | Need::Layer => true,
            need if need.is_sql() => capabilities.sql,
            need if need.is_layer() => capabilities.memory_layer,
            _ => capabilities.kv,
        };
        for need in Need::ALL.iter().copied().filter(|need| !need.is_met(&capabilities) && stands(*need)) {
            refusals::prove(cx, need).await?;
        }
    }),
    case!("cap.health.ok", [], ["CAP-6"], |cx| {
        let health = cx.provider().health().await?;
        expect_eq!(
            health.status,
            HealthStatus::Ok,
            "the health of a provider that was just opened, `{}`",
            health.message
        );
    }),
];
