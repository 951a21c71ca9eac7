//! The prepared statements of a session.
//!
//! A statement counts as prepared once the server has confirmed it, and no longer once the server was told to forget it.

use std::collections::VecDeque;
use std::sync::Arc;

use postgres_protocol::Oid;

/// Statements of agents that the server keeps for one session.
const KEPT: usize = 32;
/// Longest text of an agent's statement that is kept.
pub(crate) const LONGEST: usize = 2 << 10;

/// A statement under its name.
#[derive(Clone, Debug)]
struct Kept {
    number: u64,
    of: Of,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Of {
    Runtime(&'static str),
    Agent(Arc<str>, Vec<Oid>),
}

/// What was sent, and is not answered yet.
#[derive(Debug)]
enum Sent {
    Unnamed,
    Named { kept: Kept, age: u64 },
    End,
}

#[derive(Debug, Default)]
pub(crate) struct Named {
    own: Vec<Kept>,
    /// Longest unused first.
    agents: VecDeque<Kept>,
    sent: VecDeque<Sent>,
    /// Raised as the server is told to forget: what was sent before counts no more.
    age: u64,
    count: u64,
}

fn name(number: u64) -> String {
    format!("m{number}")
}

impl Named {
    pub(super) fn find(&mut self, sql: &Arc<str>, types: &[Oid]) -> Option<String> {
        let at = self.agents.iter().position(
            |kept| matches!(&kept.of, Of::Agent(text, of) if **text == **sql && of.as_slice() == types),
        )?;
        let kept = self.agents.remove(at)?;
        let name = name(kept.number);
        self.agents.push_back(kept);
        Some(name)
    }

    pub(super) fn find_own(&self, sql: &'static str) -> Option<String> {
        self.own.iter().find(|kept| kept.of == Of::Runtime(sql)).map(|kept| name(kept.number))
    }

    /// A name for a statement that is sent now, and the name of one that has to make room.
    pub(super) fn enter(&mut self, sql: &Arc<str>, types: &[Oid]) -> (String, Option<String>) {
        let gone = if self.agents.len() >= KEPT { self.agents.pop_front() } else { None };
        (self.send(Of::Agent(Arc::clone(sql), types.to_vec())), gone.map(|gone| name(gone.number)))
    }

    pub(super) fn enter_own(&mut self, sql: &'static str) -> String {
        self.send(Of::Runtime(sql))
    }

    fn send(&mut self, of: Of) -> String {
        self.count += 1;
        let kept = Kept { number: self.count, of };
        let name = name(kept.number);
        self.sent.push_back(Sent::Named { kept, age: self.age });
        name
    }

    pub(super) fn sent_unnamed(&mut self) {
        self.sent.push_back(Sent::Unnamed);
    }

    /// What comes next is answered whatever becomes of what was sent so far.
    pub(super) fn sent_end(&mut self) {
        self.sent.push_back(Sent::End);
    }

    /// The server has parsed the next of what was sent.
    pub(super) fn parsed(&mut self) {
        if let Some(Sent::Named { kept, age }) = self.sent.pop_front()
            && age == self.age
        {
            match kept.of {
                Of::Runtime(_) => self.own.push(kept),
                Of::Agent(..) => self.agents.push_back(kept),
            }
        }
    }

    /// The server has answered up to an end: what was not parsed until then was passed over.
    pub(super) fn ended(&mut self) {
        while let Some(sent) = self.sent.pop_front() {
            if matches!(sent, Sent::End) {
                return;
            }
        }
    }

    /// The server forgets all of them.
    pub(super) fn forget(&mut self) {
        self.age += 1;
        self.own.clear();
        self.agents.clear();
    }

    /// A statement is parsed anew the next time: what it answers has changed.
    pub(crate) fn doubt(&mut self, sql: &str) {
        self.agents.retain(|kept| !matches!(&kept.of, Of::Agent(text, _) if **text == *sql));
    }

    /// Whether the server keeps the statement.
    pub(crate) fn knows(&self, sql: &str) -> bool {
        self.agents.iter().any(|kept| matches!(&kept.of, Of::Agent(text, _) if **text == *sql))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    #[test]
    fn what_the_server_has_parsed_is_known_and_nothing_else() {
        let mut named = Named::default();
        let (first, _) = named.enter(&text("a"), &[]);
        named.enter(&text("b"), &[20]);
        named.sent_end();
        assert!(named.find(&text("a"), &[]).is_none(), "it is not answered yet");
        named.parsed();
        // The second was refused: its answer is the end.
        named.ended();
        assert_eq!(named.find(&text("a"), &[]), Some(first));
        assert!(named.find(&text("a"), &[25]).is_none() && named.find(&text("b"), &[20]).is_none());
    }

    #[test]
    fn an_answer_that_comes_after_all_was_forgotten_counts_for_nothing() {
        let mut named = Named::default();
        named.enter_own("a");
        named.sent_end();
        named.sent_end();
        named.forget();
        named.parsed();
        named.ended();
        assert!(named.find_own("a").is_none());
        let again = named.enter_own("a");
        named.sent_end();
        named.ended();
        named.parsed();
        named.ended();
        assert_eq!(named.find_own("a"), Some(again));
    }

    #[test]
    fn the_longest_unused_makes_room() {
        let mut named = Named::default();
        let mut names = Vec::new();
        for number in 0..KEPT {
            let (name, gone) = named.enter(&text(&number.to_string()), &[]);
            assert!(gone.is_none());
            named.parsed();
            names.push(name);
        }
        named.find(&text("0"), &[]).unwrap();
        let (_, gone) = named.enter(&text("one more"), &[]);
        assert_eq!(gone.as_ref(), names.get(1));
        assert!(named.knows("0") && !named.knows("1"));
        named.doubt("0");
        assert!(!named.knows("0"));
    }
}
