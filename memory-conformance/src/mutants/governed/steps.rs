//! Stages that do something other than they are asked.

use async_trait::async_trait;
use memory_core::host::text;
use memory_core::{Result, Timestamp};
use memory_governed::{
    Actor, Anchor, Bucket, Forgotten, Note, NoteSource, Outcome, PendingStatus, Promotion, Rebuilt, Report,
    Trust, Verified,
};

use crate::governed::{SharedState, Stages};
use crate::mutants::mutant::mutants;

mutants! {
    |memory, request, next|
    "gov.revives-constraints": ["GOV-2"] needs [Sql, HostTables], "an upsert revives a constraint that has ended"
        => stages(|setup| setup.wrap = |stages| Box::new(Revives(stages, Bucket::Constraints)));
    "gov.revives-issues": ["GOV-3", "GOV-36"] needs [Sql, HostTables], "an upsert reopens an issue that was resolved"
        => stages(|setup| setup.wrap = |stages| Box::new(Revives(stages, Bucket::Issues)));
    "gov.renames-the-row": ["GOV-8"] needs [Sql, HostTables], "an id that no row has becomes that of a row"
        => stages(|setup| setup.wrap = |stages| Box::new(Renames(stages)));
    "gov.ends-in-every-bucket": ["GOV-10"] needs [Sql, HostTables], "the end of an issue ends what has its id in other buckets"
        => stages(|setup| setup.wrap = |stages| Box::new(EndsAll(stages)));
    "gov.notes-are-of-now": ["GOV-12", "GOV-36", "GOV-37"] needs [Sql, HostTables], "a note is observed when it is noted"
        => stages(|setup| setup.wrap = |stages| Box::new(NotedNow(stages)));
    "gov.binds-by-elimination": ["GOV-13"] needs [Sql, HostTables], "once a candidate has ended, the likeliest of those left is bound"
        => stages(|setup| setup.wrap = |stages| Box::new(Eliminates(stages)));
    "gov.tools-are-agents": ["GOV-17"] needs [Sql, HostTables], "what a tool says counts as said by the agent that asked it"
        => stages(|setup| setup.wrap = |stages| Box::new(SourceLost(stages)));
    "gov.anchor-unread": ["GOV-38"] needs [Sql, HostTables], "the anchor is not compared, so that the end may be cut off"
        => stages(|setup| setup.wrap = |stages| Box::new(NoAnchor(stages)));
    "gov.erases-the-note-alone": ["GOV-39"] needs [Sql, HostTables], "erased words stay with events and deferred writes"
        => stages(|setup| setup.wrap = |stages| Box::new(ErasesNote(stages)));
    "gov.erasing-breaks-the-chain": ["GOV-39"] needs [Sql, HostTables], "erased words are replaced, and no longer fit their digest"
        => stages(|setup| setup.wrap = |stages| Box::new(Blanks(stages)));
    "gov.anybody-forgets": ["GOV-46"] needs [Sql, HostTables], "whoever asks has a note forgotten"
        => stages(|setup| setup.wrap = |stages| Box::new(AnyoneForgets(stages)));
    "gov.changes-what-a-model-names": ["GOV-15"] needs [Sql, HostTables], "a row that only the model names is changed"
        => stages(|setup| setup.wrap = |stages| Box::new(Decides(stages, "the id is not in the note")));
    "gov.tools-change-rows": ["GOV-17"] needs [Sql, HostTables], "what a tool says changes rows that are there"
        => stages(|setup| setup.wrap = |stages| Box::new(Decides(stages, "changes no row by itself")));
    "gov.anybody-changes": ["GOV-18"] needs [Sql, HostTables], "whoever writes changes a person's constraint"
        => stages(|setup| setup.wrap = |stages| Box::new(Decides(stages, "may not change")));
    "gov.anybody-reopens": ["GOV-51"] needs [Sql, HostTables], "whoever writes reopens an issue that was resolved"
        => stages(|setup| setup.wrap = |stages| Box::new(Decides(stages, "may not reopen")));
    "gov.news-is-a-change": ["GOV-52"] needs [Sql, HostTables], "what may be news of a row is written into it"
        => stages(|setup| setup.wrap = |stages| Box::new(Decides(stages, "it may be news of the row")));
    "gov.last-state-wins": ["GOV-53"] needs [Sql, HostTables], "of two states that a note gives a task, one is taken"
        => stages(|setup| setup.wrap = |stages| Box::new(Decides(stages, "two things of one row")));
    "gov.review-lends-authority": ["GOV-18"] needs [Sql, HostTables], "who may not end a row decides that its own note meant it"
        => stages(|setup| setup.wrap = |stages| Box::new(ReviewsAll(stages)));
    "gov.rebuild-verifies-last": ["GOV-49"] needs [Sql, HostTables], "a rebuild refuses once the tables are changed"
        => stages(|setup| setup.wrap = |stages| Box::new(VerifiesLast(stages)));
    "gov.trial-forgets": ["GOV-46"] needs [Sql, HostTables], "a trial forgets"
        => stages(|setup| setup.wrap = |stages| Box::new(NoTrials(stages)));
}

/// Stages with some steps replaced.
macro_rules! steps {
    ($($name:ident($stages:ident $(, $more:ty)?) { $($methods:tt)* })+) => {$(
        struct $name($stages $(, $more)?);

        #[async_trait]
        impl SharedState for $name {
            fn stages(&self) -> &Stages {
                &self.0
            }

            $($methods)*
        }
    )+};
}

steps! {
    Revives(Stages, Bucket) {
        async fn promote_one(&self) -> Result<Option<Promotion>> {
            let promotion = self.0.promote_one().await?;
            for waits in self.0.pending(PendingStatus::Waiting).await? {
                let Some(request) = waits.request.filter(|write| write.bucket == self.1 && !write.operation.is_lifecycle()) else {
                    continue;
                };
                let live = if self.1 == Bucket::Issues { "open" } else { "active" };
                let sql = format!("UPDATE shared_{} SET status = '{live}', valid_to = NULL WHERE id = ?", self.1);
                self.0.behind().exec(&sql, &[text(request.target_id.unwrap_or_default())]).await?;
            }
            Ok(promotion)
        }
    }

    Renames(Stages) {
        async fn promote_one(&self) -> Result<Option<Promotion>> {
            let promotion = self.0.promote_one().await?;
            for waits in self.0.pending(PendingStatus::Waiting).await? {
                if let Some((_, id)) = waits.reason.split_once("no row has the id ") {
                    let sql = "UPDATE shared_issues SET id = ? WHERE id = (SELECT min(id) FROM shared_issues)";
                    self.0.behind().exec(sql, &[text(id)]).await?;
                }
            }
            Ok(promotion)
        }
    }

    EndsAll(Stages) {
        async fn promote_one(&self) -> Result<Option<Promotion>> {
            let promotion = self.0.promote_one().await?;
            for outcome in promotion.iter().flat_map(|promotion| &promotion.outcomes) {
                if let Outcome::Committed { bucket: Bucket::Issues, target_id, .. } = outcome
                    && self.0.row(Bucket::Issues, target_id).await?.is_some_and(|row| row.valid_to.is_some())
                {
                    let sql = "UPDATE shared_constraints SET status = 'invalidated' WHERE id = ?";
                    self.0.behind().exec(sql, &[text(target_id)]).await?;
                }
            }
            Ok(promotion)
        }
    }

    NotedNow(Stages) {
        async fn note(&self, by: &Actor, source: NoteSource, words: &str, _: Option<Timestamp>) -> Result<Note> {
            self.0.note(by, source, words, None).await
        }
    }

    Eliminates(Stages) {
        async fn promote(&self, most: usize) -> Result<Report> {
            let report = self.0.promote(most).await?;
            for waits in self.0.pending(PendingStatus::NeedsReview).await? {
                let live = self.0.rows(Bucket::Issues, false).await?;
                let mut left = waits.candidates.iter().filter(|one| live.iter().any(|row| row.id == one.id));
                if let Some(likeliest) = left.next() {
                    let by = Actor { trust: Trust::Authority, ..waits.actor.clone() };
                    self.0.bind(&waits.id, &likeliest.id, &by).await?;
                }
            }
            Ok(report)
        }
    }

    SourceLost(Stages) {
        async fn note(&self, by: &Actor, _: NoteSource, words: &str, at: Option<Timestamp>) -> Result<Note> {
            self.0.note(by, NoteSource::Agent, words, at).await
        }
    }

    NoAnchor(Stages) {
        async fn verify(&self, _: Option<&Anchor>) -> Result<Verified> {
            self.0.verify(None).await
        }
    }

    ErasesNote(Stages) {
        async fn forget(&self, note_id: &str, _: &Actor) -> Result<Forgotten> {
            let sql = "UPDATE notes SET text = NULL, state = 'done', result = NULL WHERE note_id = ?";
            let mut done = Forgotten::default();
            if self.0.behind().exec(sql, &[text(note_id)]).await? > 0 {
                done.notes.insert(note_id.to_owned());
            }
            Ok(done)
        }
    }

    Blanks(Stages) {
        async fn forget(&self, note_id: &str, by: &Actor) -> Result<Forgotten> {
            let kept = "SELECT r.event_id, r.salt FROM events_raw r JOIN events_memory e ON e.event_id = r.event_id \
                        WHERE e.note_id = ?";
            let mut raw = Vec::new();
            for mut cells in self.0.behind().query(kept, &[text(note_id)]).await? {
                raw.push((cells.text()?, cells.text()?));
            }
            let found = self.0.forget(note_id, by).await?;
            for (event, salt) in raw {
                let sql = "UPDATE events_raw SET salt = ?, raw_input = '' WHERE event_id = ?";
                self.0.behind().exec(sql, &[text(salt), text(event)]).await?;
            }
            Ok(found)
        }
    }

    AnyoneForgets(Stages) {
        async fn forget(&self, note_id: &str, by: &Actor) -> Result<Forgotten> {
            self.0.forget(note_id, &Actor { trust: Trust::Person, ..by.clone() }).await
        }
    }

    Decides(Stages, &'static str) {
        async fn promote_one(&self) -> Result<Option<Promotion>> {
            let promotion = self.0.promote_one().await?;
            for waits in self.0.pending(PendingStatus::Waiting).await? {
                if let Some(row) = waits.candidates.first().filter(|_| waits.reason.contains(self.1)) {
                    let by = Actor { trust: Trust::Person, ..waits.actor.clone() };
                    self.0.bind(&waits.id, &row.id, &by).await?;
                }
            }
            Ok(promotion)
        }
    }

    VerifiesLast(Stages) {
        async fn rebuild(&self) -> Result<Rebuilt> {
            if self.0.verify(None).await.is_err() {
                self.0.behind().exec("DELETE FROM shared_issues WHERE id = 'disk_2'", &[]).await?;
            }
            self.0.rebuild().await
        }
    }

    ReviewsAll(Stages) {
        async fn bind(&self, id: &str, target: &str, by: &Actor) -> Result<Outcome> {
            self.0.bind(id, target, &Actor { trust: Trust::Person, ..by.clone() }).await
        }
    }

    NoTrials(Stages) {
        async fn forget_row(&self, bucket: Bucket, id: &str, by: &Actor, _: bool) -> Result<Forgotten> {
            self.0.forget_row(bucket, id, by, false).await
        }
    }
}
