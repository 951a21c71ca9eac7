//! One statement on a session: the types of its arguments found, itself run, its room counted.

use std::sync::Arc;

use memory_core::Error;
use memory_core::sql::SqlValue;

use super::arguments::{depends_on_types, first_types, is_about_types, literal_types, second_types};
use super::fault;
use super::plans::{Plans, Shape};
use super::talk::{Broken, Heard, Talk, Why};
use super::values::Sink;
use super::wire::{Fault, LONGEST_KEPT, Oid, Session};

const INT8: Oid = 20;
const BOOL: Oid = 16;

/// What must fit after a statement that wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) quota: Option<u64>,
    pub(crate) frees: bool,
}

/// A statement.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) text: Arc<str>,
    pub(crate) args: Vec<SqlValue>,
    pub(crate) values: Vec<Option<Vec<u8>>>,
    pub(crate) room: Option<Room>,
    pub(crate) max_rows: usize,
    pub(crate) max_bytes: usize,
    pub(crate) only_reads: bool,
    /// A kind of statement that the server may keep for the next time.
    pub(crate) comes_again: bool,
    /// Whether it is looked at afterwards how much room is taken.
    pub(crate) settles: bool,
}

impl Asked {
    /// Rows that are asked for: one more than there may be, to know whether there are more. What writes is run to its end.
    fn limit(&self) -> i32 {
        if self.only_reads { i32::try_from(self.max_rows.saturating_add(1)).unwrap_or(0) } else { 0 }
    }

    pub(crate) fn sink(&self) -> Sink {
        Sink::new(self.max_rows, self.max_bytes, self.only_reads)
    }
}

/// How a statement's surroundings are made.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// Words of the runtime's own.
    Words(String),
    /// A transaction that reads, of the database of this age where that is looked at.
    Read(Option<i64>),
    /// One that writes to the database of this age.
    Write(i64),
    /// A savepoint in a transaction.
    Within { reads: bool },
}

/// What is around a statement.
pub(crate) struct Opening {
    pub(crate) first: Start,
    /// After a try that failed.
    pub(crate) again: Start,
    /// What follows in the same breath where the statement is done, and is passed over where it fails.
    pub(crate) closing: &'static [&'static str],
    /// What is sent behind it all and nobody waits for.
    pub(crate) tail: &'static [&'static str],
}

/// Why a statement did not run to its end.
#[derive(Debug)]
pub(crate) enum Failed {
    /// Its surroundings could not be made.
    Opening(Fault),
    Statement(Error),
    Broken(Broken),
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// The types with which a statement goes, and how they are known.
struct Types {
    oids: Vec<Oid>,
    /// Remembered from another time.
    were_known: bool,
    /// The server has parsed the statement with them just now.
    are_parsed: bool,
}

/// Runs the statement.
///
/// # Errors
/// As the engine refuses it; the session's transaction is then failed.
pub(crate) async fn run(
    talk: &mut Talk<'_>,
    plans: &Plans,
    opening: &Opening,
    asked: &Asked,
) -> Result<(Heard, Sink), Failed> {
    let shape = (!asked.args.is_empty()).then(|| Shape::new(&asked.text, &asked.args));
    let known = shape.as_ref().and_then(|shape| plans.get(shape));
    let types = match known {
        Some(oids) => Types { oids, were_known: true, are_parsed: false },
        None if depends_on_types(&asked.args) => {
            let oids = find(talk, &opening.first, &opening.again, asked).await?;
            Types { oids, were_known: false, are_parsed: true }
        }
        None => Types { oids: first_types(&asked.args), were_known: false, are_parsed: false },
    };
    let was_kept = talk.session.named.knows(&asked.text);
    let (heard, sink) = fly(talk, &opening.first, opening, asked, &types).await?;
    let Some(refused) = &heard.fault else {
        if let (Some(shape), false) = (shape, types.were_known) {
            plans.put(shape, types.oids);
        }
        return Ok((heard, sink));
    };
    let literal = literal_types(&asked.args);
    let is_outdated = was_kept && is_about_kept(&refused.state);
    let may_differ = !asked.args.is_empty() && is_about_types(&refused.state) && literal != types.oids;
    if !(is_outdated || may_differ) {
        return Ok((heard, sink));
    }
    // A remembered plan may be another scope's; what is kept may be of tables that have changed since; and what the
    // engine could not find it can be told.
    talk.session.named.doubt(&asked.text);
    let second = if is_outdated {
        Ok(Types { are_parsed: false, ..types })
    } else if types.were_known && depends_on_types(&asked.args) {
        let found = find(talk, &opening.again, &opening.again, asked).await;
        found.map(|oids| Types { oids, were_known: false, are_parsed: true })
    } else {
        Ok(Types { oids: literal, were_known: false, are_parsed: false })
    };
    let tried = match second {
        Ok(types) => fly(talk, &opening.again, opening, asked, &types).await.map(|done| (done, types.oids)),
        Err(Failed::Statement(_)) => return Ok((heard, sink)),
        Err(failed) => return Err(failed),
    };
    match tried {
        Ok(((second, second_sink), types)) if second.fault.is_none() => {
            if let Some(shape) = shape {
                plans.put(shape, types);
            }
            Ok((second, second_sink))
        }
        // The first refusal says what is wrong.
        Ok(((second, _), _)) => Ok((Heard { status: second.status, ..heard }, sink)),
        Err(failed) => Err(failed),
    }
}

/// `cached plan must not change result type`, and a statement that the session does not know.
fn is_about_kept(state: &str) -> bool {
    matches!(state, "0A000" | "26000")
}

/// Sends the statement with all around it, and hears its answer.
async fn fly(
    talk: &mut Talk<'_>,
    start: &Start,
    opening: &Opening,
    asked: &Asked,
    types: &Types,
) -> Result<(Heard, Sink), Failed> {
    let begun = if types.are_parsed { Begun::default() } else { begin(talk.session, start) };
    let session = &mut *talk.session;
    if types.are_parsed {
        session.bind(&asked.values);
    } else if asked.comes_again && asked.text.len() <= LONGEST_KEPT {
        session.bind_kept(&asked.text, &types.oids, &asked.values);
    } else {
        session.parse(&asked.text, &types.oids);
        session.bind(&asked.values);
    }
    session.describe_portal();
    session.execute(asked.limit());
    if let Some(room) = asked.room.filter(|_| asked.settles) {
        let quota = room.quota.map(|quota| i64::try_from(quota).unwrap_or(i64::MAX).to_string().into_bytes());
        let frees = Some(room.frees.to_string().into_bytes());
        session.own("SELECT mem_sql.settle($1, $2)", &[INT8, BOOL], &[quota, frees]);
    }
    for closing in opening.closing {
        session.own(closing, &[], &[]);
    }
    session.sync();
    if !opening.tail.is_empty() {
        for one in opening.tail {
            session.own(one, &[], &[]);
        }
        session.sync();
    }
    talk.send().await?;
    let mut sink = asked.sink();
    let heard = opened(talk, begun, &mut sink).await?;
    if heard.fault.is_none() {
        talk.session.unread += u32::from(!opening.tail.is_empty());
    } else if !opening.tail.is_empty() {
        // It met the transaction that the statement failed in.
        talk.hear(&mut Sink::default()).await?;
    }
    Ok((heard, sink))
}

/// What was sent ahead of a statement.
#[derive(Default)]
struct Begun {
    /// Answered by itself.
    apart: bool,
    /// Commands that are answered together with the statement.
    leading: u32,
}

/// Sends the beginning.
fn begin(session: &mut Session, start: &Start) -> Begun {
    match start {
        Start::Words(words) => {
            session.query(words);
            Begun { apart: true, leading: 0 }
        }
        Start::Read(age) => {
            session.own("BEGIN READ ONLY", &[], &[]);
            if let Some(age) = age {
                session.own("SELECT mem_sql.look($1)", &[INT8], &[Some(age.to_string().into_bytes())]);
            }
            Begun { apart: false, leading: 1 + u32::from(age.is_some()) }
        }
        Start::Within { reads } => {
            session.own("SAVEPOINT mem_q", &[], &[]);
            if *reads {
                session.own("SET TRANSACTION READ ONLY", &[], &[]);
            }
            Begun { apart: false, leading: 1 + u32::from(*reads) }
        }
        Start::Write(age) => {
            session.own("BEGIN", &[], &[]);
            session.own("SELECT mem_sql.enter($1)", &[INT8], &[Some(age.to_string().into_bytes())]);
            Begun { apart: false, leading: 2 }
        }
    }
}

/// Hears whether what was sent ahead was done, and the answer to what follows.
async fn opened(talk: &mut Talk<'_>, begun: Begun, sink: &mut Sink) -> Result<Heard, Failed> {
    if begun.apart
        && let Some(fault) = talk.hear(&mut Sink::default()).await?.fault
    {
        // What was sent behind it fails for that; its answer is to be heard where there is one.
        return Err(Failed::Opening(fault));
    }
    talk.leading = begun.leading;
    let mut heard = talk.hear(sink).await?;
    match heard.fault.take() {
        Some(fault) if !heard.opened => Err(Failed::Opening(fault)),
        fault => Ok(Heard { fault, ..heard }),
    }
}

/// Parses the statement, and finds with which types.
async fn find(talk: &mut Talk<'_>, start: &Start, again: &Start, asked: &Asked) -> Result<Vec<Oid>, Failed> {
    let first = first_types(&asked.args);
    let heard = parse(talk, start, asked, &first).await?;
    if let Some(refused) = heard.fault {
        let literal = literal_types(&asked.args);
        if is_about_types(&refused.state)
            && literal != first
            && parse(talk, again, asked, &literal).await?.fault.is_none()
        {
            return Ok(literal);
        }
        return Err(Failed::Statement(fault::statement(&refused)));
    }
    let Some(second) = second_types(&asked.args, &first, &heard.parameters) else { return Ok(first) };
    if parse(talk, again, asked, &second).await?.fault.is_none() {
        return Ok(second);
    }
    match parse(talk, again, asked, &first).await?.fault {
        None => Ok(first),
        Some(refused) => Err(Failed::Statement(fault::statement(&refused))),
    }
}

async fn parse(talk: &mut Talk<'_>, start: &Start, asked: &Asked, types: &[Oid]) -> Result<Heard, Failed> {
    let begun = begin(talk.session, start);
    let session = &mut *talk.session;
    session.parse(&asked.text, types);
    session.describe_statement();
    session.sync();
    talk.send().await?;
    opened(talk, begun, &mut Sink::default()).await
}

/// The error of a statement that failed; `None`: it was ended since enough had come.
pub(crate) fn error_of(heard: &Heard, sink: &Sink, talk: &Talk<'_>, asked: &Asked) -> Option<Error> {
    if heard.copied {
        return Some(fault::copies());
    }
    let fault = heard.fault.as_ref()?;
    let quota = asked.room.and_then(|room| room.quota);
    match (fault.state.as_str(), talk.cancel.why(), quota) {
        (fault::NO_ROOM, _, Some(quota)) | ("57014", Some(Why::NoRoom), Some(quota)) => {
            Some(fault::quota_exceeded(quota))
        }
        ("57014", ..) if sink.wants_no_more() => None,
        ("57014", Some(Why::Unwanted), _) => Some(fault::cancelled()),
        _ => Some(fault::statement(fault)),
    }
}
