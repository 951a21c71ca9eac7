//! Parses an operation and its fields.

pub(super) mod fields;

use std::cell::Cell;

use memory_core::json::{ByName, MAX_DEPTH};
use memory_core::{Error, Result};
use serde::de::value::MapAccessDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, IntoDeserializer as _, MapAccess};
use serde_json::value::RawValue;

use super::ops::ToolOp;
use super::schema;
use super::suggest::nearest;
use fields::{Fields, cut};

/// A value may be nested 128 deep, and is at most three levels inside a call (`items`, item, `value`).
const MAX_CALL_DEPTH: usize = MAX_DEPTH + 3;
/// Field aliases, accepted for older callers: the operations with the field, the alias, the name.
const OTHER_NAMES: &[(&[ToolOp], &str, &str)] = &[(&[ToolOp::SqlExec, ToolOp::SqlQuery], "statement", "sql")];

/// An operation with its unparsed fields.
#[derive(Debug)]
pub(super) struct Call<'a> {
    pub(super) op: ToolOp,
    fields: Vec<(String, &'a RawValue)>,
}

impl<'a> Call<'a> {
    /// Parses the outer object: first size and depth, then the fields, then `op`. A refusal lists the `offered`
    /// operations.
    pub(super) fn parse(text: &'a str, max_bytes: usize, offered: impl Fn() -> Vec<ToolOp>) -> Result<Self> {
        if text.len() > max_bytes {
            return Err(Error::too_large("input", text.len(), max_bytes, "bytes"));
        }
        check_depth(text)?;
        let Fields(mut fields) = serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!(
                "the input is not one JSON object with `op` and its fields: {}",
                cut(&error.to_string())
            ))
        })?;
        let names = || -> Vec<String> { offered().iter().map(|op| op.as_str().to_owned()).collect() };
        let Some(at) = fields.iter().position(|(name, _)| name == "op") else {
            let names = names();
            return Err(Error::invalid(format!("`op` is missing; it is one of {}", names.join(", ")))
                .with_detail("ops", names));
        };
        let (_, raw) = fields.remove(at);
        let name: String = serde_json::from_str(raw.get())
            .map_err(|_| Error::invalid(format!("`op` must be a string, one of {}", names().join(", "))))?;
        let Some(op) = ToolOp::ALL.iter().find(|op| op.as_str() == name) else {
            let names = names();
            return Err(unknown("op", &name, &names, "").with_detail("ops", names));
        };
        rename(*op, &mut fields)?;
        // In strict mode, a model sends every field of every operation, with `null` for those it leaves out.
        let own = schema::fields(*op);
        fields.retain(|(name, raw)| raw.get() != "null" || own.contains(name) || !is_field(name));
        Ok(Self { op: *op, fields })
    }

    /// The fields of an operation named elsewhere: one object without `op`.
    #[cfg(all(feature = "governed", feature = "hierarchical"))]
    pub(super) fn of(op: ToolOp, text: &'a str) -> Result<Self> {
        check_depth(text)?;
        let Fields(fields) = serde_json::from_str(text).map_err(|error| {
            Error::invalid(format!("the input is not one JSON object of fields: {}", cut(&error.to_string())))
        })?;
        Ok(Self { op, fields })
    }

    /// Whether the operation has that field.
    pub(super) fn takes(&self, name: &str) -> bool {
        schema::fields(self.op).iter().any(|known| known == name)
    }

    /// A field's text as JSON.
    pub(super) fn field(&self, name: &str) -> Option<&'a str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, raw)| raw.get())
    }

    /// Parses the fields as the operation's own type.
    pub(super) fn read<T: DeserializeOwned>(&self) -> Result<T> {
        let known = schema::fields(self.op);
        for (name, _) in &self.fields {
            if !known.iter().any(|known| known == name) {
                let of_op = format!(" of `{}`", self.op.as_str());
                return Err(unknown("field", name, known, &of_op)
                    .with_detail("field", cut(name))
                    .with_detail("fields", known.to_vec()));
            }
        }
        let at = Cell::new(None);
        let map = FieldMap { rest: self.fields.iter(), value: None, at: &at };
        T::deserialize(MapAccessDeserializer::new(map)).map_err(|error| {
            let error = error.to_string();
            // Line and column would be relative to the field.
            let what = error.rsplit_once(" at line ").map_or(error.as_str(), |(what, _)| what);
            match at.get() {
                Some(name) => Error::invalid(format!("`{name}` of `{}`: {}", self.op.as_str(), cut(what)))
                    .with_detail("field", name),
                None => Error::invalid(format!(
                    "`{}`: {}; fields: {}",
                    self.op.as_str(),
                    cut(what),
                    known.join(", ")
                ))
                .with_detail("fields", known.to_vec()),
            }
        })
    }
}

/// Whether some operation has this field.
fn is_field(name: &str) -> bool {
    ToolOp::ALL.iter().any(|op| schema::fields(*op).iter().any(|known| known == name))
}

/// Renames fields to the operation's names.
fn rename(op: ToolOp, fields: &mut [(String, &RawValue)]) -> Result<()> {
    for (_, other, name) in OTHER_NAMES.iter().filter(|(ops, ..)| ops.contains(&op)) {
        let both = fields.iter().any(|(field, _)| field == name);
        let Some((field, _)) = fields.iter_mut().find(|(field, _)| field == other) else { continue };
        if both {
            return Err(Error::invalid(format!(
                "`{other}` of `{}` is another name for `{name}`; send only one of them",
                op.as_str()
            ))
            .with_detail("field", *other));
        }
        (*name).clone_into(field);
    }
    Ok(())
}

fn unknown(what: &str, name: &str, known: &[String], of: &str) -> Error {
    let list = known.join(", ");
    let shown = cut(name);
    Error::invalid(match nearest(name, known) {
        Some(near) => format!("unknown {what} `{shown}`{of}; did you mean `{near}`? {what}s: {list}"),
        None => format!("unknown {what} `{shown}`{of}; {what}s: {list}"),
    })
}

/// Counts brackets outside strings, so that no parser gets input it cannot handle.
fn check_depth(text: &str) -> Result<()> {
    let (mut depth, mut in_string, mut escaped) = (0_usize, false, false);
    for byte in text.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if in_string => escaped = true,
            b'"' => in_string = !in_string,
            b'[' | b'{' if !in_string => {
                depth += 1;
                if depth > MAX_CALL_DEPTH {
                    return Err(Error::invalid(format!(
                        "the input is nested too deeply; a value may have {MAX_DEPTH} levels"
                    ))
                    .with_detail("limit", MAX_DEPTH));
                }
            }
            b']' | b'}' if !in_string => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    Ok(())
}

/// Passes the fields to an operation's own type and remembers which one is being read.
struct FieldMap<'a, 'b> {
    rest: std::slice::Iter<'b, (String, &'a RawValue)>,
    value: Option<&'a RawValue>,
    at: &'b Cell<Option<&'b str>>,
}

impl<'a> MapAccess<'a> for FieldMap<'a, '_> {
    type Error = serde_json::Error;

    fn next_key_seed<K: DeserializeSeed<'a>>(&mut self, seed: K) -> Result<Option<K::Value>, Self::Error> {
        self.at.set(None);
        let Some((name, value)) = self.rest.next() else { return Ok(None) };
        self.value = Some(value);
        self.at.set(Some(name));
        seed.deserialize(name.as_str().into_deserializer()).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'a>>(&mut self, seed: V) -> Result<V::Value, Self::Error> {
        let value = self.value.take().unwrap_or(RawValue::NULL);
        seed.deserialize(ByName(value))
    }
}
