//! The walk over SQLite's names: which relation is read, written or created.

use sqlite3_parser::ast::{DistinctNames, Name, QualifiedName, ResolveType};

use super::sqlite::{Walk, Walked};
use crate::gate::characters::hidden;
use crate::gate::names::sqlite_name as name;
use crate::gate::token::{Kind, Token};
use crate::refusals;
use crate::verdict::{Access, Position, Refusal, Relation, Stage};

impl Walk<'_, '_> {
    pub(super) fn names(&self, names: Option<&DistinctNames<'_>>) -> Walked {
        names.map_or(Ok(()), |names| names.iter().try_for_each(|name| self.plain(name)))
    }

    pub(super) fn plains(&self, name: Option<&Name<'_>>) -> Walked {
        name.map_or(Ok(()), |name| self.plain(name))
    }

    /// A name of neither a relation nor a function.
    pub(super) fn plain(&self, name: &Name<'_>) -> Walked {
        self.seen(name.0)
    }

    /// Refuses invisible characters in a bare name; the engine takes one of them for a space.
    pub(super) fn seen(&self, text: &str) -> Walked {
        if text.is_ascii() || text.starts_with(['"', '`', '[', '\'']) {
            return Ok(());
        }
        let Some(odd) = text.chars().find(|character| hidden(*character).is_some()) else { return Ok(()) };
        let at = self.lexed.sql.find(odd).unwrap_or(0);
        let construct = format!("U+{:04X}", u32::from(odd));
        Err(Refusal::new(Stage::Walk, "character", Position::of(self.lexed.sql, at), construct)
            .because("a name contains an invisible character")
            .instead("leave it out, or quote the name"))
    }

    /// A name as the engine folds it.
    pub(super) fn bare(&self, text: &str) -> Result<String, Refusal> {
        self.seen(text)?;
        Ok(name(text).into_owned())
    }

    /// Something created, changed or dropped that is not a relation: an index, a trigger.
    pub(super) fn object(&self, object: &QualifiedName<'_>) -> Walked {
        let QualifiedName { db_name, name, alias } = object;
        self.schema(db_name.as_ref(), Access::Define)?;
        self.plains(alias.as_ref())?;
        self.made(name)
    }

    pub(super) fn made(&self, name: &Name<'_>) -> Walked {
        let name = self.bare(name.0)?;
        if self.policy.is_reserved(&name) {
            return Err(refusals::reserved(Stage::Walk, self.find(&name, false), &name));
        }
        Ok(())
    }

    /// A relation by its full name.
    pub(super) fn target(&mut self, relation: &QualifiedName<'_>, access: Access) -> Walked {
        let QualifiedName { db_name, name, alias } = relation;
        self.plains(alias.as_ref())?;
        self.relation(db_name.as_ref(), name, access)
    }

    pub(super) fn relation(
        &mut self,
        schema: Option<&Name<'_>>,
        relation: &Name<'_>,
        access: Access,
    ) -> Walked {
        self.schema(schema, access)?;
        let name = self.bare(relation.0)?;
        match access {
            Access::Read => {
                if !self.policy.may_read(&name) {
                    return Err(refusals::relation(Stage::Walk, self.find(&name, false), &name));
                }
                let table_function = self.policy.table_functions.contains(&name);
                if table_function || schema.is_none() && self.times.contains_key(&name) {
                    return Ok(());
                }
            }
            Access::Write | Access::Define => {
                if self.policy.is_reserved(&name) {
                    return Err(refusals::reserved(Stage::Walk, self.find(&name, false), &name));
                }
            }
        }
        let schema = schema.map(|schema| self::name(schema.0).into_owned());
        self.note(schema, name, access);
        Ok(())
    }

    pub(super) fn note(&mut self, schema: Option<String>, name: String, access: Access) {
        let relation = Relation::new(schema, name, access);
        if self.known.insert(relation.clone()) {
            self.relations.push(relation);
        }
    }

    pub(super) fn schema(&self, schema: Option<&Name<'_>>, access: Access) -> Walked {
        let Some(schema) = schema else { return Ok(()) };
        let schema = self.bare(schema.0)?;
        if !self.policy.knows_schema(&schema) {
            return Err(refusals::schema(Stage::Walk, self.find(&schema, false), &schema));
        }
        if access != Access::Read && self.policy.read_only_schemas.contains(&schema) {
            return Err(refusals::read_only_schema(Stage::Walk, self.find(&schema, false), &schema));
        }
        Ok(())
    }

    pub(super) fn conflict(&self, resolution: Option<ResolveType>) -> Walked {
        match resolution {
            Some(ResolveType::Rollback) => Err(refusals::rollback(Stage::Walk, self.find("rollback", false))),
            Some(ResolveType::Abort | ResolveType::Fail | ResolveType::Ignore | ResolveType::Replace)
            | None => Ok(()),
        }
    }

    /// Where a name first occurs, which the tree does not record.
    pub(super) fn find(&self, name: &str, called: bool) -> Position {
        let lexed = self.lexed;
        let named = |token: &Token| {
            matches!(token.kind, Kind::Word | Kind::Quoted | Kind::Text) && lexed.name(*token) == name
        };
        let mut found = lexed.tokens.iter().enumerate().filter(|(_, token)| named(token));
        let at = if called { found.find(|(index, _)| lexed.is(index + 1, Kind::Open)) } else { found.next() };
        at.map(|(_, token)| lexed.position(*token)).unwrap_or_default()
    }
}
