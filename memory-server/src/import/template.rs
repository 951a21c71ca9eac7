//! Maps a turn to a scope by a template: `user:{conversation}`.

use memory_core::{Error, Result, Scope, TenantId};

use super::format::Format;
use super::readers::Turn;
use crate::terminal::scope_of;

/// A part of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Conversation,
    Session,
    Format,
}

/// A parsed template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScopeTemplate(Vec<Part>);

impl ScopeTemplate {
    /// Parses `KIND:…` with `{conversation}`, `{session}` and `{format}` in it.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            parts.push(Part::Text(before.to_owned()));
            let unknown = || {
                Error::invalid(
                    "the placeholders of a scope template are {conversation}, {session} and {format}",
                )
            };
            let (name, after) = after.split_once('}').ok_or_else(unknown)?;
            parts.push(match name {
                "conversation" => Part::Conversation,
                "session" => Part::Session,
                "format" => Part::Format,
                _ => return Err(unknown()),
            });
            rest = after;
        }
        parts.push(Part::Text(rest.to_owned()));
        let template = Self(parts);
        // The kind must not depend on the input.
        match template.0.first() {
            Some(Part::Text(start)) if start.contains(':') => Ok(template),
            _ => Err(Error::invalid("the scope template must begin with agent:, user: or run:")),
        }
    }

    /// The scope of a turn.
    pub(crate) fn scope(&self, tenant: &TenantId, format: Format, turn: &Turn) -> Result<Scope> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Conversation => text.push_str(&turn.conversation),
                Part::Format => text.push_str(format.name()),
                Part::Session => {
                    let session = turn.session_name();
                    text.push_str(&session.ok_or_else(|| {
                        Error::invalid("the turn has no session; leave {session} out of --scope-template")
                    })?);
                }
            }
        }
        scope_of(&text, tenant)
    }

    /// The scope of a template without placeholders.
    pub(crate) fn fixed(&self, tenant: &TenantId) -> Result<Scope> {
        match self.0.as_slice() {
            [Part::Text(text)] => scope_of(text, tenant),
            _ => Err(Error::invalid("records of an export go to one scope; name it without braces")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::readers::Place;
    use super::*;

    #[test]
    fn a_template_names_the_scope_of_each_turn() {
        let tenant = TenantId::new("t").unwrap();
        let turn = Turn {
            ended: None,
            expires_at: None,
            place: Place::Line(1),
            conversation: "c".into(),
            session: Some(3.into()),
            position: Vec::new(),
            speaker: "a".into(),
            role: None,
            text: "x".into(),
            time: None,
            caption: None,
            labels: Vec::new(),
        };
        let scope = |text: &str| ScopeTemplate::parse(text)?.scope(&tenant, Format::Jsonl, &turn);
        assert_eq!(scope("user:{conversation}").unwrap(), Scope::user("t", "c").unwrap());
        assert_eq!(scope("agent:{format}-{session}!").unwrap(), Scope::agent("t", "jsonl-0003!").unwrap());
        for bad in ["user:{who}", "user:{conversation", "{conversation}", "team:x", "user:"] {
            assert!(scope(bad).is_err(), "{bad}");
        }
        let fixed = ScopeTemplate::parse("user:ada").unwrap();
        assert_eq!(fixed.fixed(&tenant).unwrap(), Scope::user("t", "ada").unwrap());
    }
}
