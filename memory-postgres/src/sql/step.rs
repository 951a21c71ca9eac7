//! One statement on a session: the types of its arguments found, itself run, its room counted.

use std::sync::Arc;

use memory_core::Error;
use memory_core::sql::SqlValue;

use super::arguments::{depends_on_types, first_types, is_about_types, literal_types, second_types};
use super::fault;
use super::plans::{Plans, Shape};
use super::talk::{Broken, Heard, Talk, Why};
use super::values::Sink;
use super::wire::{Fault, Oid};

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
pub(crate) struct Opening {
    pub(crate) first: String,
    /// After a try that may have failed, and was not closed.
    pub(crate) again: String,
    /// What follows at once, whatever becomes of the statement.
    pub(crate) closing: &'static [&'static str],
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

/// Runs the statement; the closing's answers are left unheard.
///
/// # Errors
/// As the engine refuses it; the session's transaction is then failed, or closed by the closing.
pub(crate) async fn run(
    talk: &mut Talk<'_>,
    plans: &Plans,
    opening: &Opening,
    asked: &Asked,
) -> Result<(Heard, Sink), Failed> {
    let shape = (!asked.args.is_empty()).then(|| Shape::new(&asked.text, &asked.args));
    let known = shape.as_ref().and_then(|shape| plans.get(shape));
    let was_known = known.is_some();
    let (mut types, mut is_parsed) = (known.unwrap_or_else(|| first_types(&asked.args)), false);
    if !was_known && depends_on_types(&asked.args) {
        types = find(talk, opening, asked).await?;
        is_parsed = true;
    }
    let (heard, sink) = fly(talk, opening, asked, &types, is_parsed).await?;
    let Some(refused) = &heard.fault else {
        if let (Some(shape), false) = (shape, was_known) {
            plans.put(shape, types);
        }
        return Ok((heard, sink));
    };
    let literal = literal_types(&asked.args);
    if asked.args.is_empty() || !is_about_types(&refused.state) || literal == types {
        return Ok((heard, sink));
    }
    // A remembered plan may be another scope's; and what the engine could not find it can be told.
    hear_closing(talk, opening).await?;
    let first = if opening.closing.is_empty() { &opening.again } else { &opening.first };
    let again = Opening { first: first.clone(), again: opening.again.clone(), closing: opening.closing };
    let types = if was_known && depends_on_types(&asked.args) {
        find(talk, &again, asked).await
    } else {
        Ok(literal)
    };
    let tried = match types {
        Ok(types) => {
            let is_parsed = was_known && depends_on_types(&asked.args);
            fly(talk, &again, asked, &types, is_parsed).await.map(|done| (done, types))
        }
        Err(Failed::Statement(_)) => {
            // Both tries need their closing.
            for closing in opening.closing {
                talk.session.query(closing);
            }
            talk.send().await?;
            return Ok((heard, sink));
        }
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

/// Hears the answers to the closing.
///
/// # Errors
/// The session is lost.
pub(crate) async fn hear_closing(talk: &mut Talk<'_>, opening: &Opening) -> Result<Option<Heard>, Failed> {
    let mut last = None;
    for _ in opening.closing {
        last = Some(talk.hear(&mut Sink::default()).await?);
    }
    Ok(last)
}

/// Sends the statement with all around it, and hears its answer.
async fn fly(
    talk: &mut Talk<'_>,
    opening: &Opening,
    asked: &Asked,
    types: &[Oid],
    is_parsed: bool,
) -> Result<(Heard, Sink), Failed> {
    let session = &mut *talk.session;
    if !is_parsed {
        session.query(&opening.first);
        session.parse(&asked.text, types);
    }
    session.bind(&asked.values);
    session.describe_portal();
    session.execute(asked.limit());
    if let Some(room) = asked.room {
        session.parse("SELECT mem_sql.settle($1, $2)", &[INT8, BOOL]);
        let quota = room.quota.map(|quota| i64::try_from(quota).unwrap_or(i64::MAX).to_string().into_bytes());
        session.bind(&[quota, Some(room.frees.to_string().into_bytes())]);
        session.execute(0);
    }
    session.sync();
    for closing in opening.closing {
        session.query(closing);
    }
    talk.send().await?;
    if !is_parsed {
        opened(talk).await?;
    }
    let mut sink = asked.sink();
    let heard = talk.hear(&mut sink).await?;
    Ok((heard, sink))
}

async fn opened(talk: &mut Talk<'_>) -> Result<(), Failed> {
    match talk.hear(&mut Sink::default()).await?.fault {
        Some(fault) => {
            // What was sent behind it fails for that; its answer is to be heard where there is one.
            Err(Failed::Opening(fault))
        }
        None => Ok(()),
    }
}

/// Parses the statement, and finds with which types.
async fn find(talk: &mut Talk<'_>, opening: &Opening, asked: &Asked) -> Result<Vec<Oid>, Failed> {
    let first = first_types(&asked.args);
    let heard = parse(talk, &opening.first, asked, &first).await?;
    if let Some(refused) = heard.fault {
        let literal = literal_types(&asked.args);
        if is_about_types(&refused.state)
            && literal != first
            && parse(talk, &opening.again, asked, &literal).await?.fault.is_none()
        {
            return Ok(literal);
        }
        return Err(Failed::Statement(fault::statement(&refused)));
    }
    let Some(second) = second_types(&asked.args, &first, &heard.parameters) else { return Ok(first) };
    if parse(talk, &opening.again, asked, &second).await?.fault.is_none() {
        return Ok(second);
    }
    match parse(talk, &opening.again, asked, &first).await?.fault {
        None => Ok(first),
        Some(refused) => Err(Failed::Statement(fault::statement(&refused))),
    }
}

async fn parse(talk: &mut Talk<'_>, opening: &str, asked: &Asked, types: &[Oid]) -> Result<Heard, Failed> {
    let session = &mut *talk.session;
    session.query(opening);
    session.parse(&asked.text, types);
    session.describe_statement();
    session.sync();
    talk.send().await?;
    opened(talk).await?;
    Ok(talk.hear(&mut Sink::default()).await?)
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
