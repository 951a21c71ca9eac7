//! The rows that a note may refer to.

use memory_core::Result;

use crate::bucket::Bucket;
use crate::columns::{columns, id_column, main_text, rev_column, table};
use crate::interpret::{Context, MOST_ROWS};
use crate::note::Note;
use crate::projection::{Row, is_live, read};
use crate::request::WriteRequest;
use crate::resolve::speech::{has_verb_of_ending, states_an_end, tokens};
use crate::resolve::{names, possible_ids, report};
use crate::seams::Candidate;
use crate::store::{Cells, Session, int, text};

/// Buckets whose rows notes refer to.
pub(super) const REFERRED: [Bucket; 3] = [Bucket::Constraints, Bucket::Issues, Bucket::Decisions];
const LIVE: &str = "status IN ('open', 'active')";
/// Buckets whose rows end, and the statuses of ended rows.
const LIFECYCLE: [Bucket; 4] = [Bucket::Constraints, Bucket::Issues, Bucket::Decisions, Bucket::TaskState];
const ENDED_STATES: &str = "'resolved', 'invalidated', 'superseded', 'done', 'failed'";

/// How many of the latest ended rows are compared by their words.
const ENDED: u64 = 400;
/// How many ids of a note are looked up.
const MOST_IDS: usize = 64;
/// Rows read at a time.
const PAGE: u64 = 1_000;

/// Open issues, active constraints and active decisions of the note's time: the latest of each, those whose ids the
/// note contains, and the issues whose work it reports.
pub(super) async fn context(session: &Session<'_>, note: &Note) -> Result<Context> {
    let (ids, report) = (possible_ids(&note.text, MOST_IDS), report(&note.text));
    let marks = vec!["?"; ids.len()].join(", ");
    let (mut latest, mut named, mut args, mut wanted) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for (at, bucket) in REFERRED.into_iter().enumerate() {
        let (id, title, table) = (id_column(bucket), main_text(bucket).unwrap_or("''"), table(bucket));
        let rows = format!("{id}, {title}, valid_from FROM {table} WHERE {LIVE} AND valid_from <= ?");
        latest.push(format!(
            "SELECT * FROM (SELECT {at}, 0, {rows} ORDER BY valid_from DESC, {id} LIMIT ?) AS of_{at}"
        ));
        let most = if bucket == Bucket::Issues && report.is_some() { PAGE } else { MOST_ROWS.into() };
        args.extend([int(note.observed_at.as_millis()), int(most)]);
        if !ids.is_empty() {
            named.push(format!("SELECT {at}, 1, {rows} AND {id} IN ({marks})"));
            wanted.push(int(note.observed_at.as_millis()));
            wanted.extend(ids.iter().map(text));
        }
    }
    let (sql, args) = ([latest, named].concat().join(" UNION ALL "), [args, wanted].concat());
    let mut live = Vec::new();
    for mut cells in session.query(&sql, &args).await? {
        let bucket = usize::try_from(cells.int()?).ok().and_then(|at| REFERRED.get(at).copied());
        let is_named = cells.int()? == 1;
        if let Some(bucket) = bucket {
            live.push((bucket, is_named, cells.text()?, cells.text()?, cells.time()?));
        }
    }
    let latest = live.iter().filter(|(_, is_named, ..)| !is_named);
    let latest = latest.map(|(bucket, _, id, title, at)| (*bucket, id.as_str(), title.as_str(), *at));
    let mut context = Context::of(latest, note.observed_at);
    let is_reported = |title: &str| report.as_ref().is_some_and(|one| one.repeats(title).is_some());
    for (bucket, is_named, id, title, _) in &live {
        if *is_named || (*bucket == Bucket::Issues && is_reported(title)) {
            context.add(*bucket, id, title);
        }
    }
    Ok(context)
}

/// The live rows of a request's bucket, the latest that have ended, and the row it names, by id.
pub(super) async fn candidates(session: &Session<'_>, request: &WriteRequest) -> Result<Vec<Candidate>> {
    let bucket = request.bucket;
    let (table, id, rev) = (table(bucket), id_column(bucket), rev_column(bucket));
    let title = main_text(bucket).unwrap_or("''");
    let has = |name: &&str| columns(bucket).iter().any(|column| column.name == *name);
    let described: String = ["description", "rationale", "scope"]
        .into_iter()
        .filter(has)
        .map(|name| format!("{name}, "))
        .collect();
    let sql = format!(
        "SELECT {id}, {rev}, status, {title}, COALESCE({described}'', ''), \
         reference_memory_json, valid_from, valid_to, created_by, trust FROM {table} WHERE ({LIVE} OR {id} = ? OR {id} IN \
         (SELECT {id} FROM {table} WHERE status NOT IN ('open', 'active') ORDER BY last_event DESC LIMIT ?)) AND {id} > ? \
         ORDER BY {id} LIMIT ?"
    );
    let named = request.target_id.as_deref().unwrap_or_default();
    let mut found = Vec::<Candidate>::new();
    loop {
        // There may be more than one read returns.
        let last = found.last().map(|row| row.id.clone()).unwrap_or_default();
        let page = session.query(&sql, &[text(named), int(ENDED), text(last), int(PAGE)]).await?;
        let is_last = (page.len() as u64) < PAGE;
        for cells in page {
            found.push(candidate(bucket, cells)?);
        }
        if is_last {
            return Ok(found);
        }
    }
}

/// Whether a live row of another kind has the id of `row`, and the note does not say which kind it means.
pub(super) async fn shares_its_id(session: &Session<'_>, row: &Candidate, note: &str) -> Result<bool> {
    let words = tokens(note);
    let says = |bucket: Bucket| words.iter().any(|word| kinds(bucket).contains(&word.as_str()));
    let others: Vec<Bucket> = LIFECYCLE.into_iter().filter(|bucket| *bucket != row.bucket).collect();
    let sql: Vec<String> = others
        .iter()
        .enumerate()
        .map(|(at, bucket)| {
            let (table, id) = (table(*bucket), id_column(*bucket));
            format!("SELECT {at} FROM {table} WHERE {id} = ? AND status NOT IN ({ENDED_STATES})")
        })
        .collect();
    let args = vec![text(&row.id); others.len()];
    let mut is_doubtful = false;
    for mut cells in session.query(&sql.join(" UNION ALL "), &args).await? {
        let other = usize::try_from(cells.int()?).ok().and_then(|at| others.get(at).copied());
        is_doubtful |= !says(row.bucket) || other.is_some_and(says);
    }
    Ok(is_doubtful)
}

/// The row, of any kind, that the words of a new one may be news about: they start with its id, or name it and state or
/// command an end. Ended rows count too, so that having ended makes no difference here.
pub(super) async fn spoken_of(session: &Session<'_>, said: &str) -> Result<Option<Row>> {
    let words = tokens(said);
    let first = words.first().map(String::as_str).unwrap_or_default();
    let tells = COMMANDS.contains(&first) || (has_verb_of_ending(said) && states_an_end(said).is_none());
    let is_name = |id: &String| id.contains(|c: char| !c.is_ascii_lowercase());
    for id in possible_ids(said, MOST_IDS).into_iter().filter(is_name) {
        if !(tells || first == id) || !names(said, &id) {
            continue;
        }
        for bucket in REFERRED {
            if let Some(row) = read(session, bucket, &id).await? {
                return Ok(Some(row));
            }
        }
    }
    Ok(None)
}

/// First words of a command to end, or to open again.
const COMMANDS: [&str; 12] = [
    "resolve",
    "close",
    "fix",
    "finish",
    "invalidate",
    "revoke",
    "lift",
    "drop",
    "withdraw",
    "retire",
    "rescind",
    "reopen",
];

/// Words that say which kind of row is meant.
const fn kinds(bucket: Bucket) -> &'static [&'static str] {
    match bucket {
        Bucket::Issues => &["issue", "issues", "problem", "blocker", "bug", "incident", "ticket"],
        Bucket::Constraints => &["constraint", "constraints", "restriction"],
        Bucket::Decisions => &["decision", "decisions"],
        Bucket::TaskState => &["task", "tasks"],
        _ => &[],
    }
}

fn candidate(bucket: Bucket, mut cells: Cells) -> Result<Candidate> {
    Ok(Candidate {
        bucket,
        id: cells.text()?,
        rev: cells.count()?,
        is_live: is_live(bucket, &cells.text()?),
        title: cells.text()?,
        description: cells.text()?,
        aliases: cells.json()?,
        opened_at: cells.time()?,
        ended_at: cells.maybe_time()?,
        opened_by: cells.text()?,
        trust: cells.word()?,
    })
}
