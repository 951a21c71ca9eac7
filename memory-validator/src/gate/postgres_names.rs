//! What PostgreSQL's tokens reveal before parsing: the statement's kind, the names it mentions, and which of them it
//! calls.

use std::collections::HashSet;
use std::sync::LazyLock;

use super::postgres_lexer;
use super::token::{Kind, Lexed, Token};
use crate::policy::postgres::{
    OF_SEQUENCES, is_catalog_type, is_denied_field, is_denied_function, is_denied_type,
};
use crate::policy::{Mode, Policy};
use crate::verdict::{Refusal, Stage};

/// Words before a bracket that is not a call.
static BEFORE_BRACKET: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    words(
        "add all always analyze and any array as asc between both brin btree by cascade case cast check \
    columns conflict cross cube current default delete desc distinct do else end escape except exclude exists explain \
    extract filter first for foreign from full generated gin gist group grouping groups hash having hnsw ilike in include \
    including inherits inner insert intersect into is isnull ivfflat join key keys lateral leading left like limit list lists \
    materialized matched natural not notnull null nulls of offset on only operator or order ordinality outer over \
    overlaps partition passing precision primary range recursive references restart returning right rollup row rows \
    select sequence set sets similar simple some spgist statistics stored symmetric system table then ties to trailing \
    true false truncate unbounded union unique update user using values variadic view when where window with within without \
    zone default bernoulli xmltable path nested value error empty conditional unconditional wrapper quotes scalar object \
    absent storage identity depth breadth cycle search collate at mode exists nothing both trailing leading start \
    increment cache owned minvalue maxvalue char character nchar varchar varying bit time timestamp interval decimal dec \
    numeric float",
    )
});

/// Words and operators after which a name before a bracket can only be a call.
static BEFORE_CALL: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    words(
        "select distinct where and or not having by when then else case returning limit offset like ilike \
    between is from lateral variadic escape similar in",
    )
});

/// How statements may begin.
static FIRST: LazyLock<HashSet<&str>> = LazyLock::new(|| {
    words(
        "select with values table insert update delete merge create alter drop truncate comment refresh explain",
    )
});
static FIRST_OF_QUERY: LazyLock<HashSet<&str>> = LazyLock::new(|| words("select with values table explain"));

/// Kinds of object that may be created, altered, dropped or commented on.
static OBJECTS: LazyLock<HashSet<&str>> =
    LazyLock::new(|| words("table view materialized index sequence type column constraint"));

fn words(list: &'static str) -> HashSet<&'static str> {
    list.split_whitespace().collect()
}

/// Refuses by tokens alone.
pub(crate) fn check(lexed: &Lexed<'_>, mode: Mode, policy: &Policy) -> Result<(), Refusal> {
    let gate = Gate { lexed, mode, policy };
    gate.beginning()?;
    let mut ended = false;
    for (at, token) in lexed.tokens.iter().enumerate() {
        if token.kind == Kind::Semicolon {
            ended = true;
            continue;
        }
        if ended {
            return Err(super::second(Stage::Gate, lexed, Some(*token)));
        }
        if matches!(token.kind, Kind::Word | Kind::Quoted) {
            let name = lexed.name(*token);
            gate.name(at, &name)?;
            gate.phrase(at, &name)?;
            if gate.is(at + 1, "(") {
                gate.call(at, &name)?;
            }
        }
    }
    Ok(())
}

struct Gate<'s> {
    lexed: &'s Lexed<'s>,
    mode: Mode,
    policy: &'s Policy,
}

impl Gate<'_> {
    fn is(&self, at: usize, text: &str) -> bool {
        self.lexed.at(at).is_some_and(|token| {
            !matches!(token.kind, Kind::Word | Kind::Quoted) && self.lexed.text(token) == text
        })
    }

    /// The keyword or unquoted name at a place, in lower case.
    fn word(&self, at: usize) -> Option<String> {
        let token = self.lexed.at(at).filter(|token| token.kind == Kind::Word)?;
        Some(self.lexed.name(token).into_owned())
    }

    fn word_is(&self, at: usize, among: &[&str]) -> bool {
        self.lexed.is_one_of(at, among)
    }

    fn refuse(&self, rule: &'static str, at: usize, construct: impl Into<String>) -> Refusal {
        let position = self.lexed.at(at).map(|token| self.lexed.position(token)).unwrap_or_default();
        let construct: String = construct.into();
        Refusal::new(Stage::Gate, rule, position, construct.chars().take(80).collect::<String>())
    }

    /// Marks a refusal as that of a write where only reads are allowed.
    fn writes(&self, refusal: Refusal) -> Refusal {
        if self.mode == Mode::Query { refusal.writing() } else { refusal }
    }

    /// The statement's first words.
    fn beginning(&self) -> Result<(), Refusal> {
        let mut at = 0;
        while self.is(at, "(") {
            at += 1;
        }
        let Some(first) = self.word(at) else {
            return Err(self
                .refuse("statement_kind", at, self.lexed.at(at).map_or("", |token| self.lexed.text(token)))
                .because("no statement starts like this")
                .instead("start with SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER or DROP"));
        };
        if !FIRST.contains(first.as_str()) {
            return Err(self
                .refuse("statement_kind", at, first.to_ascii_uppercase())
                .because("statements of this kind are not allowed")
                .instead("use statements that read, write or define your own tables; the runtime starts and ends transactions"));
        }
        if self.mode == Mode::Query && !FIRST_OF_QUERY.contains(first.as_str()) {
            return Err(self
                .refuse("read_only", at, first.to_ascii_uppercase())
                .because("this statement writes, and only reading is allowed here")
                .instead("execute it instead of querying")
                .writing());
        }
        match first.as_str() {
            "explain" => self.explained(at),
            "create" => self.object(at, &["or", "replace", "unique", "recursive", "unlogged"]),
            "alter" | "drop" => self.object(at, &[]),
            "comment" => self.object(at, &["on"]),
            _ => Ok(()),
        }
    }

    /// Only a query can be explained.
    fn explained(&self, at: usize) -> Result<(), Refusal> {
        let mut at = at + 1;
        if self.is(at, "(")
            && !self.word_is(at + 1, &["select", "with", "values", "table"])
            && !self.is(at + 1, "(")
        {
            while self.lexed.at(at).is_some() && !self.is(at, ")") {
                at += 1;
            }
            at += 1;
        }
        while self.word_is(at, &["analyze", "analyse", "verbose"]) || self.is(at, "(") {
            at += 1;
        }
        let word = self.word(at).unwrap_or_default();
        if word != "explain" && FIRST_OF_QUERY.contains(word.as_str()) {
            return Ok(());
        }
        Err(self.writes(
            self.refuse("explain", at, word.to_ascii_uppercase())
                .because("only queries can be explained")
                .instead("explain the SELECT that finds the same rows"),
        ))
    }

    /// The kind of object a statement defines.
    fn object(&self, verb: usize, skipped: &[&str]) -> Result<(), Refusal> {
        let mut at = verb + 1;
        while self.word_is(at, skipped) {
            at += 1;
        }
        let object = self.word(at).unwrap_or_default();
        // `CREATE TYPE t (INPUT = …)` is a type made of functions.
        let base = object == "type" && self.word_is(verb, &["create"]) && !self.types(at + 1);
        if OBJECTS.contains(object.as_str()) && !base {
            return Ok(());
        }
        let verb = self.word(verb).unwrap_or_default();
        Err(self
            .refuse("object_kind", at, format!("{verb} {object}").to_ascii_uppercase())
            .because("objects of this kind are not allowed")
            .instead("tables, views, indexes, sequences and types of your own can be defined"))
    }

    /// Whether a name is followed by `AS ENUM` or `AS (`.
    fn types(&self, name: usize) -> bool {
        let mut at = name;
        while self.is(at + 1, ".") {
            at += 2;
        }
        self.word_is(at + 1, &["as"]) && (self.word_is(at + 2, &["enum"]) || self.is(at + 2, "("))
    }

    /// A name that belongs to the engine or the runtime, anywhere in the statement.
    fn name(&self, at: usize, name: &str) -> Result<(), Refusal> {
        // `xid '1'` is a value of the type.
        let is_value = is_denied_type(name) && self.lexed.is(at + 1, Kind::Text);
        if is_value || (is_catalog_type(name) && !self.is_sequence(at)) {
            return Err(self
                .refuse("type", at, name)
                .because("this type reads the engine's catalog")
                .instead("compare names as text"));
        }
        if name == "pg_typeof" && !self.is_cast_to_text(at) {
            return Err(self
                .refuse("type", at, name)
                .because("its result is of a type that reads the engine's catalog")
                .instead("write pg_typeof(…)::text"));
        }
        if at > 0
            && self.is(at - 1, ".")
            && !self.is(at + 1, "(")
            && is_denied_field(name)
            && (!self.allows(name) || OF_SEQUENCES.contains(&name))
        {
            return Err(self
                .refuse("reserved", at, name)
                .because("this name belongs to the engine, even for a column")
                .instead("use another name"));
        }
        let reserved = self.policy.reserved_names.contains(name)
            || self.policy.reserved_prefixes.iter().any(|prefix| name.starts_with(prefix.as_str()));
        if !reserved || self.policy.readable.contains(name) || self.policy.functions.contains(name) {
            return Ok(());
        }
        if name == "pg_catalog" && self.is(at + 1, ".") {
            // `pg_catalog.int4`, `pg_catalog.lower(x)`, `OPERATOR(pg_catalog.+)`.
            let allowed = self.lexed.at(at + 2).is_some_and(|token| match token.kind {
                Kind::Word | Kind::Quoted => {
                    let name = self.lexed.name(token);
                    self.allows(&name) || self.policy.types.contains(name.as_ref())
                }
                kind => kind == Kind::Operator,
            });
            if allowed {
                return Ok(());
            }
        }
        Err(self
            .refuse("reserved", at, name)
            .because("this name belongs to the engine or the runtime")
            .instead("use your own tables"))
    }

    /// Whether a call is made text at once: `f(…)::text` or `CAST(f(…) AS text)`.
    fn is_cast_to_text(&self, at: usize) -> bool {
        if !self.is(at + 1, "(") {
            return false;
        }
        let (mut depth, mut end) = (0_u32, at + 1);
        loop {
            match self.lexed.at(end).map(|token| token.kind) {
                Some(Kind::Open) => depth += 1,
                Some(Kind::Close) => depth -= 1,
                Some(_) => {}
                None => return false,
            }
            if depth == 0 {
                break;
            }
            end += 1;
        }
        let is_text = self.word_is(end + 2, &["text", "varchar"]);
        let mut first = at;
        while first >= 2 && self.is(first - 1, ".") {
            first -= 2;
        }
        let in_cast = first >= 2 && self.word_is(first - 2, &["cast"]) && self.is(first - 1, "(");
        is_text && (self.is(end + 1, "::") || (in_cast && self.word_is(end + 1, &["as"])))
    }

    /// Words that somewhere in a statement mean something forbidden.
    fn phrase(&self, at: usize, name: &str) -> Result<(), Refusal> {
        if self.word(at).is_none() {
            return Ok(());
        }
        let next = |among: &[&str]| self.word_is(at + 1, among);
        match name {
            "for"
                if next(&["update", "share"])
                    || (next(&["no"]) && self.word_is(at + 2, &["key"]))
                    || (next(&["key"]) && self.word_is(at + 2, &["share"])) =>
            {
                Err(self
                    .refuse("row_lock", at, "FOR UPDATE")
                    .because("a query cannot lock rows")
                    .instead("update them; a transaction of the runtime holds the locks"))
            }
            "into" if !self.writes_into(at) => Err(self.writes(
                self.refuse("select_into", at, "INTO")
                    .because("SELECT INTO makes a table")
                    .instead("use CREATE TABLE … AS"),
            )),
            "owner" | "row" if self.alters() && next(&[if name == "row" { "level" } else { "to" }]) => {
                Err(self
                    .refuse("alter", at, name.to_ascii_uppercase())
                    .because("the runtime manages owners and policies")
                    .instead("leave them as they are"))
            }
            "concurrently" if self.word_is(0, &["refresh"]) && at > 0 && self.word_is(at - 1, &["view"]) => {
                Err(self
                    .refuse("temp", at, "CONCURRENTLY")
                    .because("it needs a temporary table, and temporary objects are not allowed")
                    .instead("leave CONCURRENTLY out"))
            }
            "temp" | "temporary" if self.defines(at) => Err(self
                .refuse("temp", at, name.to_ascii_uppercase())
                .because("temporary objects are not allowed")
                .instead("create a plain table and drop it when it is not needed")),
            "unlogged"
                if at > 0
                    && (self.word_is(at - 1, &["create"])
                        || self.alters() && self.word_is(at - 1, &["set"])) =>
            {
                Err(self
                    .refuse("unlogged", at, "UNLOGGED")
                    .because("a crash of the server empties what is unlogged")
                    .instead("leave UNLOGGED out"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an INTO belongs to INSERT or MERGE, or is a name: `AS into` cannot be, it is reserved.
    fn writes_into(&self, at: usize) -> bool {
        at > 0 && (self.word_is(at - 1, &["insert", "merge"]) || self.is(at - 1, "."))
    }

    /// Whether the statement alters something.
    fn alters(&self) -> bool {
        self.word_is(0, &["alter"])
    }

    /// Whether TEMP is in a place where it changes what is created.
    fn defines(&self, at: usize) -> bool {
        at > 0 && self.word_is(at - 1, &["create", "replace", "into", "global", "local"])
    }

    fn allows(&self, name: &str) -> bool {
        self.policy.functions.contains(name) || self.policy.table_functions.contains(name)
    }

    /// A name before an opening bracket.
    fn call(&self, at: usize, name: &str) -> Result<(), Refusal> {
        let mut first = at;
        while first >= 2 && self.is(first - 1, ".") {
            first -= 2;
        }
        let quoted = self.lexed.is(at, Kind::Quoted);
        let keyword = !quoted && first == at && BEFORE_BRACKET.contains(name);
        if OF_SEQUENCES.contains(&name) {
            return self.sequence(at, name);
        }
        if keyword || self.allows(name) || self.policy.types.contains(name) {
            return Ok(());
        }
        let refused = is_denied_function(name) || self.is_called(first);
        if !refused {
            return Ok(());
        }
        Err(self.refuse("function", at, format!("{name}(")).because("this function is not allowed").instead(
            "use the functions on strings, numbers, dates, JSON and aggregates; functions cannot be defined",
        ))
    }

    /// Whether a type's name says what a literal already is: `nextval('s'::regclass)`.
    fn is_sequence(&self, at: usize) -> bool {
        at >= 4
            && self.word_is(at - 4, OF_SEQUENCES)
            && self.is(at - 3, "(")
            && self.lexed.is(at - 2, Kind::Text)
            && self.is(at - 1, "::")
            && self.word_is(at, &["regclass"])
    }

    /// A call that names a sequence in a text: it must be one literal with the name of the agent's own.
    fn sequence(&self, at: usize, name: &str) -> Result<(), Refusal> {
        if self.mode == Mode::Query && name != "currval" {
            return Err(self
                .refuse("read_only", at, format!("{name}("))
                .because("advancing a sequence is a write")
                .instead("execute it instead of querying")
                .writing());
        }
        let own = self.lexed.at(at + 2).is_some_and(|token| self.names_own(token));
        let cast = self.is(at + 3, "::") && self.word_is(at + 4, &["regclass", "text"]);
        let next = if cast { at + 5 } else { at + 3 };
        if self.allows(name) && own && (self.is(next, ")") || self.is(next, ",")) {
            return Ok(());
        }
        Err(self
            .refuse("function", at, format!("{name}("))
            .because("the sequence must be one of your own, named in a literal")
            .instead("write nextval('its_name')"))
    }

    /// Whether a literal is the name of an object of the agent's own. Other texts may name anybody's: the engine reads
    /// digits as the number of any relation.
    fn names_own(&self, literal: Token) -> bool {
        let text = self.lexed.text(literal);
        let inner = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\'')).unwrap_or_default();
        let named = postgres_lexer::lex(inner, &self.policy.limits);
        let (schema, name) = match *named.tokens.as_slice() {
            [name] => (None, name),
            [schema, dot, name] if dot.kind == Kind::Dot => (Some(schema), name),
            _ => return false,
        };
        let is_name = |token: Token| matches!(token.kind, Kind::Word | Kind::Quoted);
        // Spaces and comments would be read differently in a name.
        let is_whole =
            named.tokens.iter().map(|token| named.text(*token).len()).sum::<usize>() == inner.len();
        named.fault.is_none()
            && is_whole
            && is_name(name)
            && schema.is_none_or(|schema| {
                is_name(schema) && self.policy.schemas.contains(named.name(schema).as_ref())
            })
            && !self.policy.is_reserved(&named.name(name))
    }

    /// Whether a token starts what can only be an expression; elsewhere a bracket may open a list of columns.
    fn is_called(&self, first: usize) -> bool {
        let Some(before) = first.checked_sub(1).and_then(|at| self.lexed.at(at)) else { return true };
        match before.kind {
            Kind::Operator | Kind::Open => true,
            Kind::Word => BEFORE_CALL.contains(self.lexed.name(before).as_ref()),
            _ => false,
        }
    }
}
