//! Requests and replies as JSON, generated from the table of operations. `docs/spec/http.md` specifies it.
//!
//! A request is an object of the method's arguments by name; a reply is the method's result. Streams are separate: a
//! request read from JSON has an empty stream, and the reply of an operation that returns a stream has no JSON form.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::pin::Pin;
use std::task::{Context, Poll};

use futures_core::Stream;
use serde::de::{DeserializeOwned, Error as _, MapAccess, Visitor};
use serde::ser::{Error as _, SerializeMap as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::value::RawValue;

use super::operations::{Op, Reply, Request, operations, owned};
use crate::backend::{
    BulkOptions, DeleteOptions, GetOptions, ImportOptions, ListQuery, NewEntry, ReembedOptions, ScopesQuery,
    SearchQuery, SetOptions, UpdateOptions,
};
use crate::error::{Error, Result};
use crate::json::{self, Json};
use crate::layer::{AddOptions, EventId, FactsQuery, Forget, Message, RecallQuery};
use crate::lifecycle::erase::{EraseTarget, Tombstone, TombstoneId, TombstonesOf};
use crate::lifecycle::eviction::ScopeUsesQuery;
use crate::reduce::Reducer;
use crate::scope::{Key, RunContext, Scope, ScopeId, TenantId};
use crate::sql::{RestoreOptions, SqlScopesQuery, SqlValue, StatementOptions, TxId};
use crate::time::Timestamp;

/// How much of the input a refusal shows.
const MAX_SHOWN_CHARS: usize = 200;

fn shown(given: impl fmt::Display) -> String {
    given.to_string().chars().take(MAX_SHOWN_CHARS).collect()
}

/// The arguments of one call, by name.
struct Arguments {
    op: Op,
    given: Given,
}

/// The members of an object. A repeated member is an error: readers that take the first and readers that take the last
/// would see different requests.
struct Given(BTreeMap<String, Box<RawValue>>);

impl<'de> Deserialize<'de> for Given {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        struct Members;
        impl<'de> Visitor<'de> for Members {
            type Value = Given;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a map")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Given, A::Error> {
                let mut given = BTreeMap::new();
                while let Some((name, value)) = map.next_entry()? {
                    if given.insert(name, value).is_some() {
                        return Err(A::Error::custom("an argument is given twice"));
                    }
                }
                Ok(Given(given))
            }
        }
        deserializer.deserialize_map(Members)
    }
}

impl Arguments {
    fn parse(op: Op, text: &str) -> Result<Self> {
        let given = json::from_str(text).map_err(|error| {
            let why = shown(&error);
            Error::invalid(format!("the arguments of `{op}` are no JSON object: {why}")).with_source(error)
        })?;
        Ok(Self { op, given })
    }

    /// An absent argument is `null`, except a value; absent options and queries have their defaults.
    fn take<T: DeserializeOwned>(&mut self, name: &str) -> Result<T> {
        let given = self.given.0.remove(name);
        let text = match &given {
            Some(value) => value.get(),
            None if matches!(name, "options" | "query") => "{}",
            // Not even `null`, which would be stored.
            None if name == "value" => "",
            None => "null",
        };
        json::from_str(text).map_err(|error| self.refusal(name, given.is_some(), error))
    }

    /// Why an argument cannot be read.
    fn refusal(&self, name: &str, given: bool, error: serde_json::Error) -> Error {
        let op = self.op;
        let what = if given {
            format!("`{name}` of `{op}` is not valid: {}", shown(&error))
        } else {
            format!("`{op}` needs `{name}`")
        };
        Error::invalid(what).with_detail("argument", name).with_source(error)
    }

    fn end(self) -> Result<()> {
        match self.given.0.into_keys().next() {
            Some(name) => {
                let name = shown(name);
                let what = format!("`{}` has no argument `{name}`", self.op);
                Err(Error::invalid(what).with_detail("argument", name))
            }
            None => Ok(()),
        }
    }
}

/// An empty stream, in place of one that is sent separately.
struct Empty<T>(PhantomData<fn() -> T>);

impl<T> Stream for Empty<T> {
    type Item = Result<T>;

    fn poll_next(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        Poll::Ready(None)
    }
}

/// Reads one argument.
macro_rules! read {
    ($arguments:ident $name:ident RecordStream) => {
        Box::pin(Empty(PhantomData))
    };
    ($arguments:ident $name:ident DumpStream) => {
        Box::pin(Empty(PhantomData))
    };
    ($arguments:ident $name:ident $($type:tt)+) => {
        $arguments.take::<owned!($($type)+)>(stringify!($name))?
    };
}

/// Writes one argument.
macro_rules! write {
    ($map:ident $name:ident RecordStream) => {
        let _ = $name;
    };
    ($map:ident $name:ident DumpStream) => {
        let _ = $name;
    };
    ($map:ident $name:ident $($type:tt)+) => {
        $map.serialize_entry(stringify!($name), $name)?;
    };
}

/// Operations whose reply has no JSON form: the first returns a live handle, the others streams.
macro_rules! replied {
    (ReadSnapshot $json:expr, $none:expr) => {
        $none
    };
    (ExportScope $json:expr, $none:expr) => {
        $none
    };
    (Dump $json:expr, $none:expr) => {
        $none
    };
    ($variant:ident $json:expr, $none:expr) => {
        $json
    };
}

#[cfg(feature = "schema")]
pub(super) use replied;

macro_rules! wire {
    ($($facet:ident {
        $($variant:ident $(as $wire:literal)?: $method:ident($($arg:ident [$($type:tt)+]),*) -> $reply:ty;)*
    })*) => {
        /// The arguments by name, without streams.
        impl Serialize for Request {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                #[allow(unused_mut, reason = "an operation may have no arguments")]
                let mut map = serializer.serialize_map(None)?;
                match self {
                    $($(Self::$variant { $($arg),* } => { $(write!(map $arg $($type)+);)* })*)*
                }
                map.end()
            }
        }

        impl Request {
            /// Reads the arguments of an operation from a JSON object. A stream among them is empty.
            ///
            /// # Errors
            /// `invalid_argument`, with `details.argument`.
            pub fn from_json(op: Op, text: &str) -> Result<Self> {
                #[allow(unused_mut, reason = "an operation may have no arguments")]
                let mut arguments = Arguments::parse(op, text)?;
                let request = match op {
                    $($(Op::$variant => Self::$variant { $($arg: read!(arguments $arg $($type)+)),* },)*)*
                };
                arguments.end()?;
                Ok(request)
            }
        }

        /// The result. A stream and a live handle have no JSON form.
        impl Serialize for Reply {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                match self {
                    $($(Self::$variant(_reply) => replied!(
                        $variant _reply.serialize(serializer),
                        Err(S::Error::custom("this reply has no JSON form"))
                    ),)*)*
                }
            }
        }

        impl Reply {
            /// Reads the result of an operation.
            ///
            /// # Errors
            /// `corrupt` if it is not one; `internal` for an operation whose result has no JSON form.
            pub fn from_json(op: Op, text: &str) -> Result<Self> {
                match op {
                    $($(Op::$variant => replied!(
                        $variant serde_json::from_str(text).map(Self::$variant).map_err(|error| unlike(op, error)),
                        Err(Error::internal(format!("the result of `{op}` has no JSON form")))
                    ),)*)*
                }
            }
        }
    };
}

operations!(wire);

fn unlike(op: Op, error: serde_json::Error) -> Error {
    Error::corrupt(format!("this is no result of `{op}`: {error}; use the same version on both sides"))
        .with_source(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip(op: Op, text: &str) -> String {
        serde_json::to_string(&Request::from_json(op, text).unwrap()).unwrap()
    }

    #[test]
    fn arguments_keep_their_text_and_options_have_defaults() {
        let scope = r#"{"tenant":"t","kind":"agent","id":"a"}"#;
        let short = format!(r#"{{"scope":{scope},"key":"k","value":{{"b": 9007199254740993, "a": 1.50}}}}"#);
        let whole = round_trip(Op::Set, &short);
        assert!(whole.contains(r#"{"b": 9007199254740993, "a": 1.50}"#), "{whole}");
        assert!(whole.contains(r#""expect":"any""#), "{whole}");
        assert_eq!(round_trip(Op::Set, &whole), whole);
        let search = round_trip(
            Op::Search,
            &format!(r#"{{"scope":{scope},"query":{{"text":"x","threshold":0.30000000000000004}}}}"#),
        );
        assert!(search.contains("0.30000000000000004"), "{search}");
    }

    #[test]
    fn a_list_is_taken_where_one_is_due() {
        let scope = r#"{"tenant":"t","kind":"agent","id":"a"}"#;
        for (op, more) in [
            (Op::Set, r#""key":"k","value":[1]"#),
            (Op::GetMany, r#""keys":["k"]"#),
            (Op::BulkInsert, r#""items":[{"key":"k","value":[]}]"#),
        ] {
            Request::from_json(op, &format!(r#"{{"scope":{scope},{more}}}"#)).unwrap();
        }
    }

    #[test]
    fn an_array_of_its_members_is_no_object_at_any_depth() {
        let scope = r#""scope":{"tenant":"t","kind":"agent","id":"a"}"#;
        let run = r#""run":{"tenant":"t","agent":"a","run":"r"}"#;
        for (op, text, argument) in [
            (Op::Get, r#"{"scope":["t","agent","a"],"key":"k"}"#.to_owned(), "scope"),
            (Op::Get, format!(r#"{{{scope},"key":"k","options":[true]}}"#), "options"),
            (Op::BulkInsert, format!(r#"{{{scope},"items":[["k",1]]}}"#), "items"),
            (Op::Search, format!(r#"{{{scope},"query":{{"text":"x","rank":[1.0]}}}}"#), "query"),
            (Op::Update, format!(r#"{{{scope},"key":"k","reducer":{{"bounded_list":[1,2]}}}}"#), "reducer"),
            (Op::Add, format!(r#"{{{run},{scope},"messages":[["user","x"]]}}"#), "messages"),
            (Op::Erase, r#"{"target":{"scope":["t","agent","a"]}}"#.to_owned(), "target"),
            (Op::Bury, r#"{"tombstones":[[{},"2026-01-31T09:30:00Z",1]]}"#.to_owned(), "tombstones"),
        ] {
            let error = Request::from_json(op, &text).unwrap_err();
            assert!(error.message().contains("invalid type: sequence"), "{error}");
            assert_eq!(error.details()["argument"], argument);
        }
    }

    #[test]
    fn a_time_behind_a_tag_is_read() {
        for text in [
            r#"{"kept":{"why":"used","last_used_at":"2026-01-31T09:30:00.000Z"}}"#,
            r#"{"kept":{"why":"absent"}}"#,
        ] {
            assert_eq!(serde_json::to_string(&Reply::from_json(Op::Evict, text).unwrap()).unwrap(), text);
        }
    }

    /// It was stored as `null`, over what was there.
    #[test]
    fn a_set_without_a_value_is_refused() {
        let scope = r#""scope":{"tenant":"t","kind":"agent","id":"a"},"key":"k""#;
        let error = Request::from_json(Op::Set, &format!("{{{scope}}}")).unwrap_err();
        assert_eq!((error.kind().code(), error.message()), ("invalid_argument", "`set` needs `value`"));
        Request::from_json(Op::Set, &format!(r#"{{{scope},"value":null}}"#)).unwrap();
    }

    #[test]
    fn a_missing_a_wrong_and_an_unknown_argument_are_named() {
        for (text, named) in [
            (r#"{"key":"k"}"#, "needs `scope`"),
            (r#"{"scope":{"tenant":"t","kind":"agent","id":"a"},"key":1}"#, "`key`"),
            (r#"{"scope":{"tenant":"t","kind":"agent","id":"a"},"key":"k","kye":1}"#, "`kye`"),
            (
                r#"{"scope":{"tenant":"t","kind":"agent","id":"a"},"key":"k","options":{"count":1}}"#,
                "`options`",
            ),
        ] {
            let error = Request::from_json(Op::Get, text).unwrap_err();
            assert!(error.message().contains(named), "{error}");
            assert_eq!(error.kind().code(), "invalid_argument");
            assert_eq!(error.details()["argument"], named.rsplit('`').nth(1).unwrap());
        }
        let long = "x".repeat(99_999);
        let scope = r#""scope":{"tenant":"t","kind":"agent","id":"a"}"#;
        for text in [
            "[]",
            r#"{"key":"a","key":"b"}"#,
            &format!("\"{long}\""),
            &format!(r#"{{{scope},"key":"k","{long}":1}}"#),
            &format!(r#"{{{scope},"key":"k","options":"{long}"}}"#),
        ] {
            let error = Request::from_json(Op::Get, text).unwrap_err();
            assert_eq!(error.kind().code(), "invalid_argument");
            assert!(error.message().len() < 300, "{:.60}", text);
        }
    }
}
