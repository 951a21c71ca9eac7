//! What the validator says about a text, remembered; and the text with its places for arguments numbered.

use std::sync::{Arc, Mutex, PoisonError};

use memory_core::{Error, ErrorKind, Result};
use memory_validator::{
    Accepted, Dialect, Mode, Policy, Refusal, Stages, StatementKind, Validator, placeholders,
};

use super::two_ages::TwoAges;

/// What a text of a statement was found to be.
#[derive(Clone, Debug)]
pub(crate) struct Judged {
    pub(crate) kind: StatementKind,
    /// The text with `$n` for each `?`: what was judged, and what runs.
    pub(crate) text: Arc<str>,
    /// How many arguments it takes.
    pub(crate) arguments: usize,
    /// Whether it asks where a sequence stands in this session.
    pub(crate) asks_places: bool,
}

type Known = Mutex<TwoAges<Box<str>, Judged>>;

/// The policy, and the verdicts about texts seen lately.
#[derive(Debug)]
pub(crate) struct Verdicts {
    policy: Arc<Policy>,
    exec: Known,
    query: Known,
}

impl Verdicts {
    pub(crate) fn new(bytes: usize, shared: &[String]) -> Self {
        let policy = shared.iter().fold(policy(), |policy, name| policy.with_read_only_schema(name));
        let ages = || Mutex::new(TwoAges::new(bytes / 2));
        Self { policy: Arc::new(policy), exec: ages(), query: ages() }
    }

    fn of(&self, mode: Mode) -> &Known {
        match mode {
            Mode::Exec => &self.exec,
            Mode::Query => &self.query,
        }
    }

    /// Decides about a text of this scope's, whose own schema it may name. Where it does, that is true of this scope alone
    /// and not remembered.
    ///
    /// # Errors
    /// As [`Verdicts::judge`].
    pub(crate) async fn judge_in(&self, own: &str, sql: &str, mode: Mode, stages: Stages) -> Result<Judged> {
        match self.judge(sql, mode, stages).await {
            Err(_) if sql.contains(own) => {
                let policy = Policy::clone(&self.policy).with_schema(own);
                decided(sql, mode, Arc::new(policy), stages).await
            }
            judged => judged,
        }
    }

    /// Decides about a text.
    ///
    /// # Errors
    /// `statement_refused`, `read_only`, `too_large`.
    async fn judge(&self, sql: &str, mode: Mode, stages: Stages) -> Result<Judged> {
        if stages == Stages::ALL
            && let Some(judged) = self.of(mode).lock().unwrap_or_else(PoisonError::into_inner).get(sql)
        {
            return Ok(judged);
        }
        let judged = decided(sql, mode, Arc::clone(&self.policy), stages).await?;
        if stages == Stages::ALL {
            let weight = sql.len() * 2 + 160;
            self.of(mode).lock().unwrap_or_else(PoisonError::into_inner).put(
                sql.into(),
                judged.clone(),
                weight,
            );
        }
        Ok(judged)
    }
}

/// Decides elsewhere: a parser needs a large stack and may take its time.
async fn decided(sql: &str, mode: Mode, policy: Arc<Policy>, stages: Stages) -> Result<Judged> {
    let text = sql.to_owned();
    let work = tokio::task::spawn_blocking(move || decide(&text, mode, &policy, stages));
    work.await.map_err(|error| {
        Error::new(ErrorKind::Unavailable, "the statement could not be read now; try again")
            .with_source(error)
    })?
}

/// What agents may use.
pub(crate) fn policy() -> Policy {
    Policy::new(Dialect::Postgres)
}

fn decide(sql: &str, mode: Mode, policy: &Policy, stages: Stages) -> Result<Judged> {
    let (text, arguments) = numbered(sql, policy)?;
    if !(stages.gate || stages.grammar || stages.walk) {
        let asks_places = asks_places(&text);
        return Ok(Judged { kind: StatementKind::Select, text: text.into(), arguments, asks_places });
    }
    let verdict = Validator::check_stages(&text, Dialect::Postgres, mode, policy, stages);
    let Accepted { kind, .. } = verdict.into_result().map_err(refused)?;
    let asks_places = asks_places(&text);
    Ok(Judged { kind, text: text.into(), arguments, asks_places })
}

/// Whether a text has `currval` or `lastval` in it, wherever; an escape in a quoted name could spell them too.
fn asks_places(text: &str) -> bool {
    let text = text.to_ascii_lowercase();
    text.contains("val") && (text.contains("currval") || text.contains("lastval")) || text.contains("u&\"")
}

/// Numbers the places for arguments.
fn numbered(sql: &str, policy: &Policy) -> Result<(String, usize)> {
    let places = placeholders(sql, Dialect::Postgres, &policy.limits).map_err(refused)?;
    let arguments = places.iter().map(|place| place.number).max().unwrap_or(0);
    let mut text = String::with_capacity(sql.len() + places.len() * 3);
    let mut done = 0;
    for place in places {
        text.push_str(sql.get(done..place.span.start).unwrap_or_default());
        text.push('$');
        text.push_str(&place.number.to_string());
        done = place.span.end;
        // `?AND` is two words, `$1AND` none.
        let next = sql.get(done..).and_then(|rest| rest.chars().next());
        if next.is_some_and(|next| next.is_alphanumeric() || next == '_' || next == '$') {
            text.push(' ');
        }
    }
    text.push_str(sql.get(done..).unwrap_or_default());
    Ok((text, arguments))
}

fn refused(refusal: Refusal) -> Error {
    let kind = if refusal.writes { ErrorKind::ReadOnly } else { ErrorKind::StatementRefused };
    Error::new(kind, refusal.to_string())
        .with_detail("stage", refusal.stage.name())
        .with_detail("rule", refusal.rule)
        .with_detail("construct", refusal.construct)
        .with_detail("line", refusal.position.line)
        .with_detail("column", refusal.position.column)
        .with_detail("instead", refusal.instead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(sql: &str) -> (String, usize) {
        numbered(sql, &policy()).unwrap()
    }

    #[test]
    fn places_are_numbered_and_nothing_else_is_touched() {
        let sql = "SELECT ?,'?', \"?\" /* ? */, meta ? 'k' FROM t WHERE a=?AND b = $3";
        let due = "SELECT $1,'?', \"?\" /* ? */, meta ? 'k' FROM t WHERE a=$2 AND b = $3";
        assert_eq!(text(sql), (due.to_owned(), 3));
        assert_eq!(text("SELECT 1"), ("SELECT 1".to_owned(), 0));
    }

    #[test]
    fn what_asks_where_a_sequence_stands_is_known() {
        for sql in ["SELECT lastval()", "INSERT INTO t VALUES (CurrVal('s'))", "SELECT U&\"\\006castval\"()"]
        {
            assert!(asks_places(sql), "{sql}");
        }
        assert!(!asks_places("INSERT INTO t VALUES (nextval('s'), 'interval')"));
    }
}
