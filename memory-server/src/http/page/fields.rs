//! The fields of a query or form, and links with such fields.

use std::collections::BTreeMap;
use std::str::FromStr;

use memory_core::{Error, Result};

/// Fields by name. If a field is repeated, the first counts.
#[derive(Debug, Default)]
pub(super) struct Fields(BTreeMap<String, String>);

impl Fields {
    /// Reads `a=1&b=2`.
    pub(super) fn read(text: &[u8]) -> Self {
        let mut fields = BTreeMap::new();
        for (name, value) in form_urlencoded::parse(text) {
            fields.entry(name.into_owned()).or_insert_with(|| value.into_owned());
        }
        Self(fields)
    }

    /// A field's text; `None` if absent or empty.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str).filter(|text| !text.is_empty())
    }

    /// The same, or nothing.
    pub(super) fn text(&self, name: &str) -> &str {
        self.get(name).unwrap_or_default()
    }

    /// A field that must be there.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub(super) fn need(&self, name: &str) -> Result<&str> {
        self.get(name).ok_or_else(|| Error::invalid(format!("the field `{name}` is missing; fill it in")))
    }

    /// A field parsed as some type; `None` if absent or empty.
    ///
    /// # Errors
    /// `invalid_argument` if it cannot be parsed.
    pub(super) fn parse<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        self.get(name)
            .map(|text| {
                text.parse()
                    .map_err(|_| Error::invalid(format!("the field `{name}` cannot be read; correct it")))
            })
            .transpose()
    }
}

/// A path of this page with fields; empty ones are left out.
pub(super) fn link(path: &str, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    query.extend_pairs(fields.iter().filter(|(_, value)| !value.is_empty()));
    match query.finish() {
        query if query.is_empty() => path.to_owned(),
        query => format!("{path}?{query}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_brings_back_the_fields_that_it_was_made_of() {
        let hostile = "\"><script>&a=b;%00\u{202e}/../?#";
        let link = link("/page/entry", &[("key", hostile), ("q", ""), ("id", "a b")]);
        assert!(link.starts_with("/page/entry?key=") && !link.contains(['"', '<', '>', ' ', '#']));
        let fields = Fields::read(link.split_once('?').unwrap().1.as_bytes());
        assert_eq!((fields.get("key"), fields.get("q"), fields.text("id")), (Some(hostile), None, "a b"));
        assert_eq!(Fields::read(b"a=1&a=2&=3&b").get("a"), Some("1"));
        assert!(fields.need("q").is_err() && fields.parse::<u8>("id").is_err());
    }
}
