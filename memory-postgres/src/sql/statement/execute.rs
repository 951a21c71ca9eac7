//! Runs one statement on a session: finds the types of its arguments, runs it, checks its quota.

use std::sync::Arc;

use memory_core::Error;
use memory_core::sql::SqlValue;

use crate::sql::errors;
use crate::sql::protocol::exchange::{Answer, Broken, Exchange, Why};
use crate::sql::protocol::results::Sink;
use crate::sql::protocol::{Fault, LONGEST_KEPT, Oid, Session};
use crate::sql::statement::arguments::{
    depends_on_types, first_types, is_about_types, literal_types, second_types,
};
use crate::sql::statement::parameter_types::{ParameterTypes, Shape};

const INT8: Oid = 20;
const BOOL: Oid = 16;

/// Something was defined in the scope since the session last looked.
const REDEFINED: &str = "MM004";

/// The quota check after a statement that wrote.
#[derive(Clone, Copy, Debug)]
pub(crate) struct QuotaCheck {
    pub(crate) quota: Option<u64>,
    pub(crate) frees: bool,
}

/// A statement to send.
#[derive(Clone, Debug)]
pub(crate) struct Asked {
    pub(crate) text: Arc<str>,
    pub(crate) args: Vec<SqlValue>,
    pub(crate) values: Vec<Option<Vec<u8>>>,
    pub(crate) quota_check: Option<QuotaCheck>,
    pub(crate) max_rows: usize,
    pub(crate) max_bytes: usize,
    pub(crate) only_reads: bool,
    /// Whether this kind of statement is worth preparing.
    pub(crate) comes_again: bool,
    /// Whether it may be kept prepared. With shared schemas it may not: the server would go on reading a shared table
    /// after another session has created the scope's own table with that name.
    pub(crate) may_be_kept: bool,
    /// Whether to check the quota afterwards.
    pub(crate) checks_quota: bool,
}

impl Asked {
    /// Rows to request: one more than the limit, to know whether there are more. A statement that writes runs to its
    /// end.
    fn limit(&self) -> i32 {
        if self.only_reads { i32::try_from(self.max_rows.saturating_add(1)).unwrap_or(0) } else { 0 }
    }

    pub(crate) fn sink(&self) -> Sink {
        Sink::new(self.max_rows, self.max_bytes, self.only_reads)
    }
}

/// What precedes a statement.
#[derive(Clone, Debug)]
pub(crate) enum Start {
    /// Statements of the runtime.
    Words(String),
    /// A read-only transaction, on the database of this generation if one is given.
    Read(Option<i64>),
    /// A transaction that writes to the database of this generation.
    Write(i64),
    /// A savepoint in a transaction.
    Within { reads: bool },
}

/// What is sent around a statement.
pub(crate) struct Opening {
    pub(crate) first: Start,
    /// The start of a second attempt after one that failed.
    pub(crate) again: Start,
    /// Sent with the statement. The server skips it if the statement fails.
    pub(crate) closing: &'static [&'static str],
    /// Sent last; nobody waits for its answer.
    pub(crate) tail: &'static [&'static str],
}

/// Why a statement failed.
#[derive(Debug)]
pub(crate) enum Failed {
    /// What precedes it failed.
    Opening(Fault),
    /// It could not be bound, perhaps because of definitions that were not looked at any more.
    Unbound(Box<Answer>),
    Statement(Error),
    Broken(Broken),
}

impl Failed {
    /// Whether the statement may fail, or have other types, only because of definitions made since the session looked.
    fn may_be_redefined(&self) -> bool {
        match self {
            Self::Opening(fault) => fault.state == REDEFINED,
            Self::Unbound(_) => true,
            Self::Statement(_) | Self::Broken(_) => false,
        }
    }
}

impl From<Broken> for Failed {
    fn from(broken: Broken) -> Self {
        Self::Broken(broken)
    }
}

/// The types of a statement's arguments.
struct Types {
    oids: Vec<Oid>,
    /// The server has just parsed the statement with them.
    are_parsed: bool,
}

/// Runs the statement. Fails with the engine's refusal; the session's transaction has then failed too.
pub(crate) async fn run(
    exchange: &mut Exchange<'_>,
    parameter_types: &ParameterTypes,
    opening: &Opening,
    asked: &Asked,
) -> Result<(Answer, Sink), Failed> {
    let was_kept = exchange.session.named.knows(&asked.text);
    let known = known(exchange.session, parameter_types, asked);
    let sent = match &known {
        None => None,
        Some(types) => match send(exchange, &opening.first, opening, asked, types).await {
            Err(failed) if failed.may_be_redefined() => None,
            done => Some(done?),
        },
    };
    let (types, (heard, sink)) = match (known, sent) {
        (Some(types), Some(done)) => (types, done),
        (known, _) => {
            let start = if known.is_some() { &opening.again } else { &opening.first };
            let types = find(exchange, start, &opening.again, asked).await?;
            let done = send(exchange, start, opening, asked, &types).await?;
            (types, done)
        }
    };
    let shape = exchange
        .session
        .definitions()
        .filter(|_| asked.may_be_kept && !asked.args.is_empty())
        .map(|number| Shape::new(number, &asked.text, &asked.args));
    let Some(refused) = &heard.fault else {
        if let (Some(shape), true) = (shape, types.are_parsed) {
            parameter_types.put(shape, types.oids);
        }
        return Ok((heard, sink));
    };
    let literal = literal_types(&asked.args);
    let is_outdated = was_kept && is_about_kept(&refused.state);
    let may_differ = !asked.args.is_empty() && is_about_types(&refused.state) && literal != types.oids;
    if !(is_outdated || may_differ) {
        return Ok((heard, sink));
    }
    // A prepared statement may return other columns now, and types that the engine could not infer can be declared.
    exchange.session.named.doubt(&asked.text);
    let oids = if is_outdated { types.oids } else { literal };
    let types = Types { oids, are_parsed: false };
    let (second, second_sink) = match send(exchange, &opening.again, opening, asked, &types).await {
        Err(Failed::Unbound(second)) => (*second, Sink::default()),
        done => done?,
    };
    if second.fault.is_some() {
        // The first refusal explains what is wrong.
        return Ok((Answer { status: second.status, ..heard }, sink));
    }
    // Errors of class 22 are about this call's values: the next call's may be right.
    if let (Some(shape), true) = (shape, refused.state.starts_with("42")) {
        parameter_types.put(shape, types.oids);
    }
    Ok((second, second_sink))
}

/// The types to declare, if nothing needs to be found out. What is known holds for the definitions that the session
/// knows, and [`send`] checks that they are still the scope's.
fn known(session: &Session, parameter_types: &ParameterTypes, asked: &Asked) -> Option<Types> {
    let is_certain = asked.args.is_empty() || !asked.may_be_kept && !depends_on_types(&asked.args);
    let oids = if is_certain {
        first_types(&asked.args)
    } else if asked.may_be_kept {
        let shape = Shape::new(session.definitions()?, &asked.text, &asked.args);
        match parameter_types.get(&shape) {
            None if depends_on_types(&asked.args) => return None,
            known => known.unwrap_or_else(|| first_types(&asked.args)),
        }
    } else {
        return None;
    };
    Some(Types { oids, are_parsed: false })
}

/// `cached plan must not change result type`, and an unknown prepared statement.
fn is_about_kept(state: &str) -> bool {
    matches!(state, "0A000" | "26000")
}

/// A statement that was cancelled, or waited too long for a lock.
fn is_about_time(state: &str) -> bool {
    matches!(state, "57014" | "55P03")
}

/// Sends the statement with everything around it, and receives its answer.
async fn send(
    exchange: &mut Exchange<'_>,
    start: &Start,
    opening: &Opening,
    asked: &Asked,
    types: &Types,
) -> Result<(Answer, Sink), Failed> {
    let begun = if types.are_parsed {
        Begun::default()
    } else {
        let known = exchange.session.definitions().filter(|_| asked.may_be_kept && !asked.args.is_empty());
        begin(exchange.session, start, known)
    };
    let session = &mut *exchange.session;
    if types.are_parsed {
        session.bind(&asked.values);
    } else if asked.may_be_kept && asked.text.len() <= LONGEST_KEPT {
        session.bind_kept(&asked.text, &types.oids, &asked.values);
    } else {
        session.parse(&asked.text, &types.oids);
        session.bind(&asked.values);
    }
    if let Some(known) = begun.known {
        // Binding has locked the tables: what is defined now is what the statement meets.
        session.own_aside("SELECT mem_sql.defined($1)", &[INT8], &[Some(known.to_string().into_bytes())]);
    }
    session.describe_portal();
    session.execute(asked.limit());
    if let Some(room) = asked.quota_check.filter(|_| asked.checks_quota) {
        let quota = room.quota.map(|quota| i64::try_from(quota).unwrap_or(i64::MAX).to_string().into_bytes());
        let frees = Some(room.frees.to_string().into_bytes());
        let settle = if asked.comes_again {
            "SELECT mem_sql.settle($1, $2)"
        } else {
            "SELECT mem_sql.settle_definition($1, $2)"
        };
        session.own(settle, &[INT8, BOOL], &[quota, frees]);
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
    exchange.send().await?;
    let mut sink = asked.sink();
    let heard = match opened(exchange, begun, &mut sink).await {
        Err(failed) if failed.may_be_redefined() => {
            if !opening.tail.is_empty() {
                exchange.receive(&mut Sink::default()).await?;
            }
            return Err(failed);
        }
        heard => heard?,
    };
    if heard.fault.is_none() {
        exchange.session.unread += u32::from(!opening.tail.is_empty());
    } else if !opening.tail.is_empty() {
        // The tail ran in the failed transaction, and failed too.
        exchange.receive(&mut Sink::default()).await?;
    }
    Ok((heard, sink))
}

/// What was sent before a statement.
#[derive(Default)]
struct Begun {
    /// Whether it has a separate answer.
    apart: bool,
    /// Commands covered by the statement's answer.
    leading: u32,
    /// The number of the scope's definitions, to be checked by the last of these commands, once the statement is bound.
    known: Option<i64>,
}

/// Sends the start; it, or the statement, fails unless the scope's definitions have this number.
fn begin(session: &mut Session, start: &Start, definitions: Option<i64>) -> Begun {
    let number = |number: i64| Some(number.to_string().into_bytes());
    let mut begun = match start {
        Start::Words(words) => {
            session.query(words);
            Begun { apart: true, ..Begun::default() }
        }
        Start::Read(age) => {
            session.own("BEGIN READ ONLY", &[], &[]);
            if let Some(age) = age {
                session.own("SELECT mem_sql.look($1)", &[INT8], &[number(*age)]);
            }
            Begun { leading: 1 + u32::from(age.is_some()), ..Begun::default() }
        }
        Start::Within { reads } => {
            session.own("SAVEPOINT mem_q", &[], &[]);
            if *reads {
                session.own("SET TRANSACTION READ ONLY", &[], &[]);
            }
            Begun { leading: 1 + u32::from(*reads), ..Begun::default() }
        }
        Start::Write(age) => {
            session.own("BEGIN", &[], &[]);
            let values = [number(*age), definitions.and_then(number)];
            session.own("SELECT mem_sql.enter($1, $2)", &[INT8, INT8], &values);
            // Nobody else can define anything until this transaction ends.
            return Begun { leading: 2, ..Begun::default() };
        }
    };
    begun.leading += u32::from(definitions.is_some());
    begun.known = definitions;
    begun
}

/// Receives the answers to the start and to the statement.
async fn opened(exchange: &mut Exchange<'_>, begun: Begun, sink: &mut Sink) -> Result<Answer, Failed> {
    if begun.apart
        && let Some(fault) = exchange.receive(&mut Sink::default()).await?.fault
    {
        // Everything sent after it fails too, but its answer still arrives.
        return Err(Failed::Opening(fault));
    }
    exchange.leading = begun.leading;
    let mut heard = exchange.receive(sink).await?;
    match heard.fault.take() {
        Some(fault) if heard.leading == 1 && begun.known.is_some() && fault.state == REDEFINED => {
            Err(Failed::Opening(fault))
        }
        Some(fault) if heard.leading == 1 && begun.known.is_some() && !is_about_time(&fault.state) => {
            Err(Failed::Unbound(Box::new(Answer { fault: Some(fault), ..heard })))
        }
        Some(fault) if heard.leading > u32::from(begun.known.is_some()) => Err(Failed::Opening(fault)),
        fault => Ok(Answer { fault, ..heard }),
    }
}

/// Makes the server parse the statement, and finds the types with which it can.
async fn find(
    exchange: &mut Exchange<'_>,
    start: &Start,
    again: &Start,
    asked: &Asked,
) -> Result<Types, Failed> {
    let first = first_types(&asked.args);
    let (heard, number) = parse(exchange, Some(start), asked, &first).await?;
    exchange.session.note_definitions(number);
    let parsed = |oids| Ok(Types { oids, are_parsed: true });
    if let Some(refused) = heard.fault {
        let literal = literal_types(&asked.args);
        if is_about_types(&refused.state)
            && literal != first
            && parse(exchange, Some(again), asked, &literal).await?.0.fault.is_none()
        {
            return parsed(literal);
        }
        return Err(Failed::Statement(errors::statement(&refused)));
    }
    let Some(second) = second_types(&asked.args, &first, &heard.parameters) else { return parsed(first) };
    // In the same transaction, whose locks keep the tables as they were found.
    if parse(exchange, None, asked, &second).await?.0.fault.is_none() {
        return parsed(second);
    }
    match parse(exchange, Some(again), asked, &first).await?.0.fault {
        None => parsed(first),
        Some(refused) => Err(Failed::Statement(errors::statement(&refused))),
    }
}

/// Also returns the number of the scope's definitions, as they were before the statement was parsed.
async fn parse(
    exchange: &mut Exchange<'_>,
    start: Option<&Start>,
    asked: &Asked,
    types: &[Oid],
) -> Result<(Answer, Option<i64>), Failed> {
    let begun = start.map(|start| begin(exchange.session, start, None)).unwrap_or_default();
    let session = &mut *exchange.session;
    if asked.may_be_kept {
        session.own("SELECT mem_sql.definitions()", &[], &[]);
    }
    session.parse(&asked.text, types);
    session.describe_statement();
    session.sync();
    exchange.send().await?;
    let mut sink = Sink::raw(1 << 10);
    let heard = opened(exchange, begun, &mut sink).await?;
    let number = sink.into_raw().into_iter().flatten().flatten().next();
    Ok((heard, number.and_then(|number| number.parse().ok())))
}

/// The error of a failed statement; `None` if it was cancelled because it had enough rows.
pub(crate) fn error_of(heard: &Answer, sink: &Sink, exchange: &Exchange<'_>, asked: &Asked) -> Option<Error> {
    if heard.copied {
        return Some(errors::copies());
    }
    let fault = heard.fault.as_ref()?;
    let quota = asked.quota_check.and_then(|room| room.quota);
    match (fault.state.as_str(), exchange.cancel.why(), quota) {
        (errors::QUOTA_EXCEEDED, _, Some(quota)) | ("57014", Some(Why::QuotaExceeded), Some(quota)) => {
            Some(errors::quota_exceeded(quota))
        }
        ("57014", ..) if sink.wants_no_more() => None,
        ("57014", Some(Why::Unwanted), _) => Some(errors::cancelled()),
        _ => Some(errors::statement(fault)),
    }
}
