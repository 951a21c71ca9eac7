//! Short PostgreSQL statements that the portable grammar does not know, parsed from tokens.
//!
//! Each is a complete sequence of words, names and plain values; any extra token makes it something else.

use crate::gate::token::{Kind, Lexed};
use crate::policy::{Dialect, Mode, Policy};
use crate::verdict::{Accepted, Access, Refusal, StatementKind};
use crate::walk::judge::Judge;

/// Decides such a statement; `None` for others.
pub(super) fn judge(lexed: &Lexed<'_>, mode: Mode, policy: &Policy) -> Option<Result<Accepted, Refusal>> {
    if lexed.dialect != Dialect::Postgres || lexed.fault.is_some() {
        return None;
    }
    let statement = Cursor::new(lexed)?.statement()?;
    let mut judge = Judge::new(lexed.dialect, mode, policy);
    let judged = judge
        .statement(statement.kind, 0)
        .and_then(|()| {
            statement.relations.iter().try_for_each(|(name, access, at)| judge.relation(name, *access, *at))
        })
        .and_then(|()| statement.things.iter().try_for_each(|(name, at)| judge.thing(name, *at)))
        .and_then(|()| judge.accepted());
    Some(judged.map_err(|mut refusal| {
        let token = lexed.at(refusal.position.offset);
        refusal.position = token.map(|token| lexed.position(token)).unwrap_or_default();
        refusal
    }))
}

struct Statement {
    kind: StatementKind,
    /// Relations and their first tokens.
    relations: Vec<(Vec<String>, Access, usize)>,
    /// Other names.
    things: Vec<(Vec<String>, usize)>,
}

/// What was read, and how far.
struct Cursor<'l, 'a> {
    lexed: &'l Lexed<'a>,
    at: usize,
    ends: usize,
    statement: Statement,
}

/// `None` if it is not this statement.
type Read = Option<()>;

impl<'l, 'a> Cursor<'l, 'a> {
    fn new(lexed: &'l Lexed<'a>) -> Option<Self> {
        let ends = lexed.tokens.iter().rposition(|token| token.kind != Kind::Semicolon)? + 1;
        let statement = Statement { kind: StatementKind::Alter, relations: Vec::new(), things: Vec::new() };
        Some(Self { lexed, at: 0, ends, statement })
    }

    /// Takes one of these words.
    fn word(&mut self, words: &[&str]) -> Read {
        (self.at < self.ends && self.lexed.is_one_of(self.at, words)).then(|| self.at += 1)
    }

    /// Takes all these words in their order, or none.
    fn words(&mut self, phrase: &str) -> Read {
        let begun = self.at;
        let all = phrase.split(' ').try_for_each(|word| self.word(&[word]));
        if all.is_none() {
            self.at = begun;
        }
        all
    }

    fn mark(&mut self, mark: &str) -> Read {
        let found = self.lexed.at(self.at).filter(|token| {
            !matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text | Kind::Blob)
                && self.lexed.text(*token) == mark
        });
        found.filter(|_| self.at < self.ends).map(|_| self.at += 1)
    }

    fn part(&mut self) -> Option<String> {
        let token = self.lexed.at(self.at).filter(|_| self.at < self.ends)?;
        if !matches!(token.kind, Kind::Word | Kind::Quoted) {
            return None;
        }
        self.at += 1;
        Some(self.lexed.name(token).into_owned())
    }

    fn name(&mut self) -> Option<(Vec<String>, usize)> {
        let begun = self.at;
        let mut parts = vec![self.part()?];
        while self.mark(".").is_some() {
            parts.push(self.part()?);
        }
        Some((parts, begun))
    }

    fn relation(&mut self, access: Access) -> Read {
        let (name, at) = self.name()?;
        self.statement.relations.push((name, access, at));
        Some(())
    }

    fn thing(&mut self) -> Read {
        let thing = self.name()?;
        self.statement.things.push(thing);
        Some(())
    }

    fn number(&mut self) -> Read {
        let _ = self.mark("-").or_else(|| self.mark("+"));
        let is_number = self.at < self.ends && self.lexed.is(self.at, Kind::Number);
        is_number.then(|| self.at += 1)
    }

    fn end(&self) -> Read {
        (self.at == self.ends).then_some(())
    }

    fn statement(mut self) -> Option<Statement> {
        if self.words("refresh materialized view").is_some() {
            self.refresh()?;
        } else if self.words("create sequence").is_some() {
            self.statement.kind = StatementKind::CreateSequence;
            let _ = self.words("if not exists");
            self.relation(Access::Define)?;
            self.sequence()?;
        } else {
            self.word(&["alter"])?;
            self.alter()?;
        }
        self.end()?;
        Some(self.statement)
    }

    fn refresh(&mut self) -> Read {
        self.statement.kind = StatementKind::Refresh;
        let _ = self.word(&["concurrently"]);
        self.relation(Access::Define)?;
        let _ = self.words("with data").or_else(|| self.words("with no data"));
        Some(())
    }

    fn alter(&mut self) -> Read {
        let kind = self.at;
        self.word(&["sequence", "table", "index"])?;
        let _ = self.words("if exists");
        let is = |word: &str| self.lexed.is_word(kind, word);
        let (sequence, table) = (is("sequence"), is("table"));
        if table {
            let _ = self.word(&["only"]);
        }
        self.relation(Access::Define)?;
        if sequence {
            if self.words("rename to").is_some() {
                return self.thing();
            }
            return self.sequence();
        }
        if self.words("attach partition").is_some() {
            self.relation(Access::Define)?;
            return if table { self.bound() } else { Some(()) };
        }
        if table { self.alter_table() } else { None }
    }

    fn alter_table(&mut self) -> Read {
        if self.words("detach partition").is_some()
            || self.words("no inherit").is_some()
            || self.word(&["inherit"]).is_some()
        {
            return self.relation(Access::Define);
        }
        self.words("set logged")
    }

    /// `DEFAULT`, `FOR VALUES …`: nothing but plain values.
    fn bound(&mut self) -> Read {
        const WORDS: &[&str] = &[
            "from",
            "to",
            "in",
            "with",
            "modulus",
            "remainder",
            "minvalue",
            "maxvalue",
            "null",
            "true",
            "false",
        ];
        if self.word(&["default"]).is_some() {
            return Some(());
        }
        self.words("for values")?;
        while self.at < self.ends {
            let token = self.lexed.at(self.at)?;
            match token.kind {
                Kind::Text | Kind::Number | Kind::Open | Kind::Close | Kind::Comma => self.at += 1,
                Kind::Word => self.word(WORDS)?,
                _ => self.mark("-")?,
            }
        }
        Some(())
    }

    /// The options of a sequence.
    fn sequence(&mut self) -> Read {
        while self.at < self.ends {
            if self.word(&["as"]).is_some() {
                self.word(&["smallint", "int2", "int", "integer", "int4", "bigint", "int8"])?;
            } else if self.word(&["increment"]).is_some() {
                let _ = self.word(&["by"]);
                self.number()?;
            } else if self.word(&["start"]).is_some() {
                let _ = self.word(&["with"]);
                self.number()?;
            } else if self.word(&["restart"]).is_some() {
                if self.word(&["with"]).is_some() || self.lexed.is(self.at, Kind::Number) {
                    self.number()?;
                }
            } else if self.word(&["minvalue", "maxvalue", "cache"]).is_some() {
                self.number()?;
            } else if self.word(&["no"]).is_some() {
                self.word(&["minvalue", "maxvalue", "cycle"])?;
            } else if self.words("owned by").is_some() {
                let (mut name, at) = self.name()?;
                if name.len() > 1 {
                    name.pop();
                    self.statement.relations.push((name, Access::Read, at));
                } else if name.first().is_none_or(|name| name != "none") {
                    return None;
                }
            } else {
                self.word(&["cycle"])?;
            }
        }
        Some(())
    }
}
