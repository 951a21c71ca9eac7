//! The prepared statements of a session.
//!
//! A statement counts as prepared once the server has confirmed it, until the server is told to forget it.

use std::collections::VecDeque;
use std::sync::Arc;

use postgres_protocol::Oid;

/// Agents' statements that the server keeps per session.
const KEPT: usize = 32;
/// Longest text of an agent's statement to keep.
pub(crate) const LONGEST: usize = 2 << 10;

/// A prepared statement and its name.
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

/// A request that is not answered yet.
#[derive(Debug)]
enum Sent {
    Unnamed,
    Named { kept: Kept, age: u64 },
    End,
}

#[derive(Debug, Default)]
pub(crate) struct Named {
    own: Vec<Kept>,
    /// Least recently used first.
    agents: VecDeque<Kept>,
    sent: VecDeque<Sent>,
    /// Incremented when the server is told to forget: earlier requests no longer count.
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

    /// A name for a statement sent now, and the name of one to evict.
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

    /// Marks the end of a chain: what follows is answered, whatever happens to it.
    pub(super) fn sent_end(&mut self) {
        self.sent.push_back(Sent::End);
    }

    /// The server parsed the next pending statement.
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

    /// The server answered to the end of a chain: statements not parsed until then were skipped.
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

    /// The names of agents' statements, which are no longer known.
    pub(super) fn forget_agents(&mut self) -> Vec<String> {
        self.agents.drain(..).map(|kept| name(kept.number)).collect()
    }

    /// The statement must be parsed again the next time, because its result changed.
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
    fn only_parsed_statements_are_known() {
        let mut named = Named::default();
        let (first, _) = named.enter(&text("a"), &[]);
        named.enter(&text("b"), &[20]);
        named.sent_end();
        assert!(named.find(&text("a"), &[]).is_none(), "not answered yet");
        named.parsed();
        // The second was refused: its answer is the end.
        named.ended();
        assert_eq!(named.find(&text("a"), &[]), Some(first));
        assert!(named.find(&text("a"), &[25]).is_none() && named.find(&text("b"), &[20]).is_none());
    }

    #[test]
    fn an_answer_after_forgetting_is_ignored() {
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
    fn the_least_recently_used_is_evicted() {
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
