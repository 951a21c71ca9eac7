//! GOV-31: several pipelines.

use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use memory_governed::interpret::Rules;
use memory_governed::{Bucket, Context, Interpretation, Interpreter, Note, NoteSource, Promotion};

use crate::case::{Case, case};
use crate::check::{check, expect_eq};
use crate::cx::shared::{agent, kind};
use crate::governed::SharedState;

pub(crate) const CASES: &[Case] = &[case!("gov.race.one-issue", [Sql, HostTables], ["GOV-31"], |cx| {
    let (shared, other) = (cx.shared().await?, cx.shared().await?);
    shared.write("issue db_outage: Database outage in the Frankfurt region").await?;
    let ada = agent("ada");
    for _ in 0..2 {
        shared.note(&ada, NoteSource::Agent, "db_outage is resolved", None).await?;
    }
    // While the first pipeline is busy with its note, the second takes the other note, and then finds none.
    let meanwhile = Arc::new(Meanwhile { other: other.state, promoted: Mutex::default() });
    let slow = Arc::clone(&meanwhile) as Arc<dyn Interpreter>;
    let first = cx.shared_with(move |setup| setup.interpreter = slow).await?;
    let promotion = first.promoted().await?;
    let seconds = std::mem::take(&mut *meanwhile.promoted.lock().unwrap_or_else(PoisonError::into_inner));
    expect_eq!(seconds.len(), 1, "the notes of the second pipeline, while the first had one of the two");
    let kinds = |promotion: &Promotion| promotion.outcomes.iter().map(kind).collect::<Vec<_>>();
    expect_eq!(seconds.iter().map(kinds).collect::<Vec<_>>(), [["applied"]], "the one that was faster");
    expect_eq!(
        kinds(&promotion),
        ["no_op"],
        "the one that read the rows before: it decides by the rows as they are"
    );
    expect_eq!(
        (shared.issue("db_outage").await?, shared.row(Bucket::Issues, "db_outage").await?.rev),
        ("resolved".into(), 2)
    );
    // All at once, each with its own handle on the space.
    shared.write("issue disk_full: The disk is full").await?;
    let mut pipelines = Vec::new();
    for n in 0..4 {
        shared.note(&ada, NoteSource::Agent, "disk_full is resolved", None).await?;
        shared.note(&ada, NoteSource::Agent, &format!("result: run = {n}"), None).await?;
        pipelines.push(cx.shared().await?);
    }
    let all = cx.threads(
        pipelines
            .iter()
            .map(|one| {
                Box::pin(async move { one.state.promote(20).await })
                    as crate::harness::executor::BoxFuture<'_, _>
            })
            .collect(),
    )?;
    let (mut notes, mut committed) = (0, 0);
    for report in all {
        let report: memory_governed::Report = report?;
        (notes, committed) = (notes + report.notes, committed + report.committed);
    }
    expect_eq!((notes, committed), (8, 5), "notes promoted, and events, by four pipelines at once");
    expect_eq!(shared.row(Bucket::Issues, "disk_full").await?.rev, 2, "the issue that four notes end");
    check!(shared.state.promote_one().await?.is_none(), "a note is left");
    shared.is_sound().await?;
})];

/// Lets another pipeline promote what there is before it answers.
struct Meanwhile {
    other: Box<dyn SharedState>,
    promoted: Mutex<Vec<Promotion>>,
}

impl std::fmt::Debug for Meanwhile {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Meanwhile")
    }
}

#[async_trait]
impl Interpreter for Meanwhile {
    fn name(&self) -> &'static str {
        "meanwhile-1"
    }

    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation {
        while let Ok(Some(promotion)) = self.other.promote_one().await {
            self.promoted.lock().unwrap_or_else(PoisonError::into_inner).push(promotion);
        }
        Interpretation::of(Rules::decide(&note.text, context))
    }
}
