//! The names of a SQLite statement that come before a bracket or refer to a relation, from tokens alone.

use super::sqlite_statement::{self, Lead};
use super::token::{Kind, Lexed, Role, Token};
use crate::fts5_options;
use crate::policy::{Mode, Policy};
use crate::refusals;
use crate::verdict::{Position, Refusal, Stage};

/// What a name refers to, by its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Place {
    /// A relation that is read, or a table function.
    Read,
    /// A table that is written.
    Write,
    /// Something created, changed or dropped.
    Define,
    /// A table that a foreign key refers to.
    Reference,
    /// A module of virtual tables.
    Module,
    /// Anything else.
    Other,
}

/// Whether a level of brackets is inside a `FROM` clause, and whether a relation comes next.
#[derive(Clone, Copy, Default)]
struct Level {
    from: bool,
    item: bool,
}

struct Scan<'s, 'a> {
    lexed: &'s Lexed<'a>,
    policy: &'s Policy,
    lead: Lead,
    closes: Vec<usize>,
}

/// Refuses by tokens alone.
pub(crate) fn check(lexed: &Lexed<'_>, mode: Mode, policy: &Policy) -> Result<(), Refusal> {
    let lead = sqlite_statement::check(lexed, mode, policy)?;
    let scan = Scan { lexed, policy, lead, closes: closes(lexed) };
    let mut outer: Vec<Level> = Vec::new();
    let mut here = Level::default();
    for (index, token) in lexed.tokens.iter().copied().enumerate().take(lead.end).skip(lead.begin) {
        match token.kind {
            Kind::Open => {
                let item = here.item;
                here.item = false;
                outer.push(here);
                here = Level { from: item, item };
            }
            Kind::Close => {
                here = outer.pop().unwrap_or_default();
                here.item = false;
            }
            Kind::Comma => here.item = here.from,
            Kind::Semicolon => here = Level::default(),
            Kind::Word | Kind::Quoted | Kind::Text => scan.word(index, token, &mut here)?,
            _ => here.item = false,
        }
    }
    Ok(())
}

/// For each opening bracket the token that closes it.
fn closes(lexed: &Lexed<'_>) -> Vec<usize> {
    let mut closes = vec![usize::MAX; lexed.tokens.len()];
    let mut open = Vec::new();
    for (index, token) in lexed.tokens.iter().enumerate() {
        match token.kind {
            Kind::Open => open.push(index),
            Kind::Close => {
                if let Some(slot) = open.pop().and_then(|at: usize| closes.get_mut(at)) {
                    *slot = index;
                }
            }
            _ => {}
        }
    }
    closes
}

impl Scan<'_, '_> {
    fn word(&self, index: usize, token: Token, here: &mut Level) -> Result<(), Refusal> {
        if token.kind == Kind::Word && !token.may_name() {
            self.keyword(index, token, here);
            return Ok(());
        }
        if token.role == Role::Soft && self.lexed.is_word(index, "rollback") && self.ends_transaction(index) {
            return Err(refusals::rollback(Stage::Gate, self.lexed.position(token)));
        }
        // The last part of a dotted name decides; the parts before it are checked with it.
        if self.lexed.is(index + 1, Kind::Dot) && self.part(index + 2) {
            return Ok(());
        }
        let start = self.chain(index);
        let item = std::mem::take(&mut here.item) || (start < index && self.starts_item(start, here));
        let place = self.place(start, index, item);
        let called = self.lexed.is(index + 1, Kind::Open);
        self.relation(start, index, token, place, called)?;
        if called {
            self.before_bracket(start, index, token, place)?;
        }
        Ok(())
    }

    fn keyword(&self, index: usize, token: Token, here: &mut Level) {
        let lexed = self.lexed;
        let before = index.wrapping_sub(1);
        here.item = false;
        if token.role == Role::Compound {
            let joins = lexed.is_word(index, "join");
            *here = Level { from: joins, item: joins };
        } else if token.role == Role::Clause {
            if lexed.is_word(index, "from") {
                if !lexed.is_word(before, "distinct") {
                    *here = Level { from: true, item: true };
                }
            } else if !lexed.is_one_of(index, &["on", "when", "then", "else"]) {
                *here = Level::default();
            }
        }
    }

    /// Whether `ROLLBACK` belongs to a conflict clause or `RAISE`.
    fn ends_transaction(&self, index: usize) -> bool {
        let lexed = self.lexed;
        let Some(before) = index.checked_sub(1) else { return false };
        lexed.is_one_of(before, &["or", "conflict"])
            || lexed.is(before, Kind::Open) && before > 0 && lexed.is_word(before - 1, "raise")
    }

    /// Whether a token may be part of a dotted name.
    fn part(&self, index: usize) -> bool {
        self.lexed.at(index).is_some_and(|token| token.may_name() || token.kind == Kind::Text)
    }

    /// The first part of the dotted name that ends at a token.
    fn chain(&self, index: usize) -> usize {
        let mut start = index;
        while start >= 2 && self.lexed.is(start - 1, Kind::Dot) && self.part(start - 2) {
            start -= 2;
        }
        start
    }

    /// Whether a dotted name refers to a relation, according to what precedes its first part.
    fn starts_item(&self, start: usize, here: &Level) -> bool {
        let Some(before) = start.checked_sub(1) else { return false };
        let lexed = self.lexed;
        here.from && (lexed.is(before, Kind::Comma) || lexed.is(before, Kind::Open))
            || lexed.is_word(before, "join")
            || lexed.is_word(before, "from") && !(before > 0 && lexed.is_word(before - 1, "distinct"))
    }

    fn place(&self, start: usize, index: usize, item: bool) -> Place {
        let lexed = self.lexed;
        let Some(before) = start.checked_sub(1) else { return Place::Other };
        let word = |at: usize, words: &[&str]| lexed.is_one_of(at, words);
        if item {
            return match before.checked_sub(1) {
                Some(at) if word(before, &["from"]) && word(at, &["delete"]) => Place::Write,
                _ => Place::Read,
            };
        }
        if self.lead.on == Some(before) {
            return Place::Define;
        }
        if word(before, &["into"]) {
            return Place::Write;
        }
        if word(before, &["references"]) {
            return Place::Reference;
        }
        if word(before, &["in"]) {
            return Place::Read;
        }
        if word(before, &["using"]) && self.lead.makes_virtual && index == start {
            return Place::Module;
        }
        if word(before, &["to"]) && before > 0 && word(before - 1, &["rename"]) {
            return Place::Define;
        }
        if word(before, &["table", "view", "index", "trigger", "reindex", "analyze"]) && self.heads(before) {
            return Place::Define;
        }
        if word(before, &["exists"]) && before > 1 && word(before - 1, &["not", "if"]) {
            let words = if word(before - 1, &["not"]) { 3 } else { 2 };
            let made = before.checked_sub(words);
            if made.is_some_and(|at| word(at, &["table", "view", "index", "trigger"]) && self.heads(at)) {
                return Place::Define;
            }
        }
        if word(before, &["update"]) && !(before > 0 && word(before - 1, &["on", "do", "before", "after"])) {
            return Place::Write;
        }
        let conflict = word(before, &["rollback", "abort", "fail", "ignore", "replace"]);
        if conflict && before > 1 && word(before - 1, &["or"]) && word(before - 2, &["update"]) {
            return Place::Write;
        }
        Place::Other
    }

    /// Whether a word is among the first of the statement and so names what is created.
    fn heads(&self, at: usize) -> bool {
        at <= self.lead.begin + 3
    }

    fn relation(
        &self,
        start: usize,
        index: usize,
        token: Token,
        place: Place,
        called: bool,
    ) -> Result<(), Refusal> {
        let name = self.lexed.name(token);
        // Only for a refusal, since counting lines scans the whole text.
        let position = || self.lexed.position(token);
        match place {
            Place::Read | Place::Write | Place::Define => {
                self.schema(start, index, place)?;
                if name == "temp" && start > 0 && self.lexed.is_one_of(start - 1, &["analyze", "reindex"]) {
                    return Err(refusals::temp(Stage::Gate, position(), "temp"));
                }
                if place == Place::Read && called {
                    // With brackets it is a table function, which is checked as such.
                    return Ok(());
                }
                if place == Place::Read && !self.policy.may_read(&name) {
                    return Err(refusals::relation(Stage::Gate, position(), &name));
                }
                if place != Place::Read && self.policy.is_reserved(&name) {
                    return Err(refusals::reserved(Stage::Gate, position(), &name));
                }
                Ok(())
            }
            Place::Reference if self.policy.is_reserved(&name) => {
                Err(refusals::relation(Stage::Gate, position(), &name))
            }
            Place::Module => self.module(index, position(), &name),
            // A reserved name can only be a relation, except as a column of one.
            Place::Other if token.kind != Kind::Text && start == index => {
                let known = self.policy.may_read(&name) || called || self.is_alias(index);
                let reserved =
                    self.policy.reserved_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
                if reserved && !known {
                    return Err(refusals::relation(Stage::Gate, position(), &name));
                }
                Ok(())
            }
            Place::Reference | Place::Other => Ok(()),
        }
    }

    /// Whether `AS` defines the name.
    fn is_alias(&self, index: usize) -> bool {
        index > 0 && self.lexed.is_word(index - 1, "as")
    }

    fn schema(&self, start: usize, index: usize, place: Place) -> Result<(), Refusal> {
        if start == index {
            return Ok(());
        }
        let Some(token) = self.lexed.at(start) else { return Ok(()) };
        let schema = self.lexed.name(token);
        let position = || self.lexed.position(token);
        if !self.policy.knows_schema(&schema) {
            return Err(refusals::schema(Stage::Gate, position(), &schema));
        }
        if place != Place::Read && self.policy.read_only_schemas.contains(schema.as_ref()) {
            return Err(refusals::read_only_schema(Stage::Gate, position(), &schema));
        }
        Ok(())
    }

    fn module(&self, index: usize, position: Position, name: &str) -> Result<(), Refusal> {
        if !self.policy.modules.contains(name) {
            return Err(refusals::module(Stage::Gate, position, name));
        }
        let (Some(open), Some(close)) = (self.lexed.at(index + 1), self.closes.get(index + 1)) else {
            return Ok(());
        };
        if open.kind != Kind::Open {
            return Ok(());
        }
        let mut arguments = Vec::new();
        let mut from = open.end;
        let mut depth = 0usize;
        for at in index + 2..=(*close).min(self.lexed.tokens.len()) {
            let Some(token) = self.lexed.at(at) else { break };
            match token.kind {
                Kind::Open => depth += 1,
                Kind::Close if depth > 0 => depth -= 1,
                Kind::Comma | Kind::Close if depth == 0 => {
                    arguments.push(self.slice(from, token.start));
                    from = token.end;
                }
                _ => {}
            }
        }
        fts5_options::check(Stage::Gate, position, name, &arguments, self.policy)
    }

    fn slice(&self, from: u32, to: u32) -> &str {
        let at = |offset: u32| usize::try_from(offset).unwrap_or(usize::MAX);
        self.lexed.sql.get(at(from)..at(to)).unwrap_or_default()
    }

    /// A name before a bracket is a function call, unless its place says that something is being named.
    fn before_bracket(&self, start: usize, index: usize, token: Token, place: Place) -> Result<(), Refusal> {
        let lexed = self.lexed;
        let position = || lexed.position(token);
        match place {
            Place::Read => {
                let name = lexed.name(token);
                if self.policy.table_functions.contains(name.as_ref()) {
                    return Ok(());
                }
                return Err(refusals::table_function(Stage::Gate, position(), &name));
            }
            Place::Write | Place::Define | Place::Reference | Place::Module => return Ok(()),
            Place::Other => {}
        }
        let keyword = token.kind == Kind::Word && token.role != Role::None && token.role != Role::End;
        if keyword || self.lead.makes_virtual {
            // No function has a keyword's name except those on the list.
            return Ok(());
        }
        let name = lexed.name(token);
        if start == index && self.policy.functions.contains(name.as_ref()) {
            return Ok(());
        }
        if self.names_query(start, index) || self.inserts_as(start) || self.is_type(index) {
            return Ok(());
        }
        Err(refusals::function(Stage::Gate, position(), &name))
    }

    /// `WITH name (columns) AS (…)`.
    fn names_query(&self, start: usize, index: usize) -> bool {
        let lexed = self.lexed;
        let Some(before) = start.checked_sub(1) else { return false };
        let Some(close) = self.closes.get(index + 1).copied() else { return false };
        let after = close.saturating_add(1);
        (lexed.is_one_of(before, &["with", "recursive"]) || lexed.is(before, Kind::Comma))
            && lexed.is_word(after, "as")
            && (lexed.is(after + 1, Kind::Open) || lexed.is_one_of(after + 1, &["materialized", "not"]))
    }

    /// `INSERT INTO table AS name (columns)`.
    fn inserts_as(&self, start: usize) -> bool {
        let Some(at) = start.checked_sub(2) else { return false };
        if !self.is_alias(start) {
            return false;
        }
        let table = self.chain(at);
        table > 0 && self.lexed.is_word(table - 1, "into")
    }

    /// `name VARCHAR(20)`, `CAST(x AS DECIMAL(10, 2))`: a name after a name, with one or two numbers.
    fn is_type(&self, index: usize) -> bool {
        let lexed = self.lexed;
        let Some(before) = index.checked_sub(1) else { return false };
        let Some(close) = self.closes.get(index + 1).copied() else { return false };
        let numbers = close <= index + 7
            && (index + 2..close).all(|at| {
                lexed.at(at).is_some_and(|token| match token.kind {
                    Kind::Number | Kind::Comma => true,
                    Kind::Operator => matches!(lexed.text(token), "-" | "+"),
                    _ => false,
                })
            });
        let after_name = self.lead.has_types && self.part(before);
        let casts = lexed.is_word(before, "as") || self.part(before);
        numbers && (after_name || casts && self.in_cast(before))
    }

    /// Whether the words before a token go back to an `AS` inside brackets that `CAST` opens.
    fn in_cast(&self, mut at: usize) -> bool {
        let lexed = self.lexed;
        // A type has a few words.
        for _ in 0..8 {
            if lexed.is_word(at, "as") {
                return true;
            }
            if !self.part(at) {
                return false;
            }
            let Some(before) = at.checked_sub(1) else { return false };
            at = before;
        }
        false
    }
}
