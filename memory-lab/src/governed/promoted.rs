//! The whole way of a note: what a pipeline on a fresh SQLite file makes of it, from its words to the row.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use memory::Registry;
use memory_core::{Error, Result, TenantId, Timestamp};
use memory_eval::Share;
use memory_governed::{
    Actor, Bucket, Calibrated, Candidate, Context, Decision, Interpretation, Interpreter, Note, NoteSource,
    Operation, Outcome, Promotion, PromotionPipeline, Resolution, Resolver, Space, Trust, WorkingMemory,
    WriteRequest, is_id,
};
use memory_server::terminal::Progress;
use serde::Serialize;

use super::data::{Id, Item, Tracker};

/// What became of notes.
#[derive(Clone, Debug, Default)]
pub(super) struct Tally {
    notes: usize,
    right: usize,
    wrong: usize,
    wrong_without: usize,
    deferred: BTreeMap<String, usize>,
    rejected: BTreeMap<String, usize>,
}

/// The figures of a tally.
#[derive(Debug, Serialize)]
pub(super) struct Promoted {
    pub(super) precision: Share,
    pub(super) recall: Share,
    /// Binds where the right issue was removed.
    pub(super) wrong_binds: Share,
    /// Notes that wait, by reason.
    pub(super) deferred: BTreeMap<String, usize>,
    /// Notes that left nothing, by reason.
    pub(super) rejected: BTreeMap<String, usize>,
}

impl Tally {
    pub(super) fn add(&mut self, other: &Self) {
        self.notes += other.notes;
        self.right += other.right;
        self.wrong += other.wrong;
        self.wrong_without += other.wrong_without;
        for (mine, others) in [(&mut self.deferred, &other.deferred), (&mut self.rejected, &other.rejected)] {
            for (reason, notes) in others {
                *mine.entry(reason.clone()).or_default() += notes;
            }
        }
    }

    pub(super) fn figures(self) -> Promoted {
        Promoted {
            precision: Share::new(self.right, self.right + self.wrong),
            recall: Share::new(self.right, self.notes),
            wrong_binds: Share::new(self.wrong_without, self.notes),
            deferred: self.deferred,
            rejected: self.rejected,
        }
    }
}

/// Hands every note of a tracker to a pipeline twice: with the issue it closed, and without it. No note changes anything; each
/// issue is opened in its time, and closed once no later note knows it as open.
pub(super) async fn promote(
    interpreter: &Arc<dyn Interpreter>,
    tracker: &Tracker,
    mut progress: Progress,
) -> Result<Tally> {
    progress.set_length(tracker.cases.len() as u64);
    let folder = crate::stores::temporary()?;
    let memory = Registry::default().open(&crate::stores::fresh(&folder)?).await?;
    let space = memory::governed::open(&memory, &TenantId::new("lab")?, "tracker").await?;
    let resolver: Arc<dyn Resolver> = Arc::new(Calibrated::new());
    let mut last_open: HashMap<&str, usize> = HashMap::new();
    for (at, case) in tracker.cases.iter().enumerate() {
        last_open.extend(case.open.iter().map(|Id(id)| (id.as_str(), at)));
    }
    let slugs = slugs(&tracker.items);
    // `load` leaves out cases of issues that are not there.
    let slug = |id: &str| slugs.get(id).cloned().unwrap_or_default();
    let mut items = tracker.items.iter().peekable();
    let (mut open, mut tally): (Vec<&str>, _) = (Vec::new(), Tally::default());
    for (at, case) in tracker.cases.iter().enumerate() {
        while let Some(item) = items.next_if(|item| item.created_at <= case.observed_at) {
            write(&space, opening(item, slug(&item.id)), item.created_at).await?;
            open.push(&item.id);
        }
        let is_open = |id: &&str| last_open.get(id).is_some_and(|last| *last >= at);
        let (still, closed): (Vec<&str>, Vec<&str>) = open.into_iter().partition(is_open);
        open = still;
        for id in closed {
            let closing = WriteRequest::new(Bucket::Issues, Operation::Resolve).with_target(slug(id));
            write(&space, closing, case.observed_at).await?;
        }
        let note = Note {
            id: case.case.clone(),
            actor: writer(),
            source: NoteSource::Agent,
            observed_at: case.observed_at,
            text: case.note.clone(),
        };
        let mut rows: BTreeSet<String> = case.open.iter().map(|Id(id)| slug(id)).collect();
        let rehearse = async |rows: &BTreeSet<String>| {
            let (interpreter, resolver) = (Arc::clone(interpreter), Arc::clone(&resolver));
            let among = Arc::new(Among { rows: rows.clone(), interpreter, resolver });
            PromotionPipeline::new(&space, among.clone(), among).rehearse(&note).await
        };
        let (gold, present) = (slug(&case.gold), rehearse(&rows).await?);
        tally.count(&gold, &rows, present);
        rows.remove(&gold);
        let removed = rehearse(&rows).await?;
        tally.wrong_without += usize::from(bound(&removed, &rows).is_some());
        progress.update(at as u64 + 1, || {
            format!("{}: {} of {} notes", tracker.name, at + 1, tracker.cases.len())
        });
    }
    progress.finish();
    Ok(tally)
}

impl Tally {
    fn count(&mut self, gold: &str, rows: &BTreeSet<String>, promotion: Promotion) {
        self.notes += 1;
        match bound(&promotion, rows) {
            Some(id) if id == gold => self.right += 1,
            Some(_) => self.wrong += 1,
            None => {
                let deferred = promotion.outcomes.iter().find_map(|outcome| match outcome {
                    Outcome::Deferred { reason, .. } => Some(reason.clone()),
                    _ => None,
                });
                let (of, reason) = match deferred {
                    Some(reason) => (&mut self.deferred, reason),
                    None => (
                        &mut self.rejected,
                        promotion.reason.unwrap_or_else(|| "it ends no issue".to_owned()),
                    ),
                };
                // An id within it would make each the only one of its kind.
                let reason = match reason.split_once(" has the id ") {
                    Some((who, _)) => format!("{who} has the id that it names"),
                    None => reason,
                };
                *of.entry(reason).or_default() += 1;
            }
        }
    }
}

/// The row of the tracker that a note ended or changed.
fn bound<'a>(promotion: &'a Promotion, rows: &BTreeSet<String>) -> Option<&'a str> {
    promotion.outcomes.iter().find_map(|outcome| match outcome {
        Outcome::Committed { target_id, .. } if rows.contains(target_id) => Some(target_id.as_str()),
        _ => None,
    })
}

/// An interpreter and a resolver that know only these of the open issues.
struct Among {
    rows: BTreeSet<String>,
    interpreter: Arc<dyn Interpreter>,
    resolver: Arc<dyn Resolver>,
}

impl fmt::Debug for Among {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Among").field("rows", &self.rows).finish_non_exhaustive()
    }
}

#[async_trait]
impl Interpreter for Among {
    fn name(&self) -> &str {
        self.interpreter.name()
    }

    async fn interpret(&self, note: &Note, context: &Context) -> Interpretation {
        let mut context = context.clone();
        context.issues.retain(|row| self.rows.contains(&row.id));
        self.interpreter.interpret(note, &context).await
    }
}

impl Resolver for Among {
    fn resolve(&self, request: &WriteRequest, note: &Note, candidates: &[Candidate]) -> Resolution {
        let known = |row: &&Candidate| !row.is_live || self.rows.contains(&row.id);
        let candidates: Vec<Candidate> = candidates.iter().filter(known).cloned().collect();
        self.resolver.resolve(request, note, &candidates)
    }

    fn version(&self) -> String {
        self.resolver.version()
    }
}

/// Reads a note as the JSON of its write, and binds that to the row it names.
#[derive(Debug)]
struct Literal;

#[async_trait]
impl Interpreter for Literal {
    fn name(&self) -> &'static str {
        "tracker"
    }

    async fn interpret(&self, note: &Note, _: &Context) -> Interpretation {
        Interpretation::of(match serde_json::from_str(&note.text) {
            Ok(request) => Decision::Accept(vec![request]),
            Err(error) => Decision::Reject(error.to_string()),
        })
    }
}

impl Resolver for Literal {
    fn resolve(&self, request: &WriteRequest, _: &Note, _: &[Candidate]) -> Resolution {
        let target = request.target_id.clone().unwrap_or_default();
        Resolution::Bind { target, candidates: Vec::new(), reason: "the tracker's".to_owned() }
    }

    fn version(&self) -> String {
        "tracker".to_owned()
    }
}

/// Commits a change of the tracker.
async fn write(space: &Space, request: WriteRequest, at: Timestamp) -> Result<()> {
    let words = serde_json::to_string(&request).map_err(|error| Error::internal(error.to_string()))?;
    let note = WorkingMemory::new(space).note(&writer(), NoteSource::Agent, &words, Some(at)).await?;
    let literal = Arc::new(Literal);
    let promoted = PromotionPipeline::new(space, literal.clone(), literal).promote_note(&note.id).await?;
    match promoted.as_ref().map(|promotion| promotion.outcomes.as_slice()) {
        Some([Outcome::Committed { projection: "applied", .. }]) => Ok(()),
        _ => {
            Err(Error::invalid(format!("an issue cannot be written as shared state: {words}: {promoted:?}")))
        }
    }
}

/// An issue with what a row can hold of it. One without a title is called by its id.
fn opening(item: &Item, id: String) -> WriteRequest {
    let words = |text: &str, most| text.replace('\0', " ").chars().take(most).collect::<String>();
    let (title, description) = (words(&item.title, TITLED), words(&item.description, DESCRIBED));
    let title = if title.trim().is_empty() { id.clone() } else { title };
    let request = WriteRequest::new(Bucket::Issues, Operation::Upsert).with_target(id).with("title", title);
    if description.trim().is_empty() { request } else { request.with("description", description) }
}

/// Characters of a title and of a description that are written; the resolver reads fewer of the latter.
const TITLED: usize = 2_000;
const DESCRIBED: usize = 1_000;

fn writer() -> Actor {
    Actor { agent: "lab".to_owned(), run: "lab".to_owned(), trust: Trust::Authority }
}

/// The ids of a tracker as those of shared state: in lower case, other marks replaced; `i-N` where that is none or another's.
fn slugs(items: &[Item]) -> HashMap<&str, String> {
    let mut taken = BTreeSet::new();
    let mut slugs = HashMap::new();
    for item in items {
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let mut slug = item.id.to_lowercase().replace(|c: char| !plain(c), "_");
        let mut n = slugs.len();
        while !is_id(&slug) || taken.contains(&slug) {
            n += 1;
            slug = format!("i-{n}");
        }
        taken.insert(slug.clone());
        slugs.insert(item.id.as_str(), slug);
    }
    slugs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_issue_can_be_written() {
        let item = |id: &str, title: &str| Item {
            id: id.to_owned(),
            title: title.to_owned(),
            description: "a\0b".to_owned(),
            created_at: Timestamp::from_millis_clamped(0),
            closed_at: None,
        };
        let items = [
            item("a-1", "one"),
            item("A-1", ""),
            item("101", &"é".repeat(9_000)),
            item("1st", "\0"),
            item("é", "x"),
            item(&"x".repeat(65), "x"),
            item("i-2", "x"),
            item("b.2", "x"),
        ];
        let slugs = slugs(&items);
        assert_eq!((slugs["a-1"].as_str(), slugs["b.2"].as_str()), ("a-1", "b_2"));
        assert_eq!(slugs.values().collect::<BTreeSet<_>>().len(), items.len());
        for item in &items {
            let request = opening(item, slugs[item.id.as_str()].clone());
            assert!(request.check().is_ok(), "{}: {:?}", item.id, request.check());
        }
    }
}
