//! The content of a definition, and its id.

use std::collections::BTreeMap;
use std::fmt;

use memory_core::{Error, Json, Result};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::config::sections::file::{SqlOption, with_sql};
use crate::hex::hex;
use crate::url::BackendUrl;

/// Longest definition, in bytes of JSON.
pub const MAX_DEFINITION_BYTES: usize = 16 << 10;

/// A backend, as in `[backends.NAME]`. It holds no keys or passwords, only references to them.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct Definition {
    /// Its URL.
    pub url: String,
    /// The embedder for its entries, by its name in `memory.toml`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub embedder: Option<String>,
    /// The backend of `memory.toml` that answers reads while this one cannot be reached, by name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fallback: Option<String>,
    /// Options of its scopes' SQL databases.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub sql: BTreeMap<String, SqlOption>,
}

impl Definition {
    /// A backend with this URL.
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self { url: url.into(), embedder: None, fallback: None, sql: BTreeMap::new() }
    }

    /// Its id. Equal content has an equal id, whatever its owner and name.
    ///
    /// # Errors
    /// `too_large` over 16 KiB.
    pub fn id(&self) -> Result<DefinitionId> {
        Ok(DefinitionId::of(&self.json()?))
    }

    /// The content as JSON.
    pub(super) fn json(&self) -> Result<Json> {
        let json = Json::from_serialize(self)?;
        if json.len_bytes() > MAX_DEFINITION_BYTES {
            return Err(Error::too_large("definition", json.len_bytes(), MAX_DEFINITION_BYTES, "bytes"));
        }
        Ok(json)
    }

    /// The URL with the options of `sql`.
    ///
    /// # Errors
    /// `invalid_argument` for a malformed URL.
    pub fn whole_url(&self) -> Result<BackendUrl> {
        Ok(with_sql(&BackendUrl::parse(&self.url)?, &self.sql))
    }
}

/// SHA-256 of a definition in its canonical form: 64 hexadecimal digits.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(transparent)]
pub struct DefinitionId(String);

impl DefinitionId {
    /// SHA-256 of `memory.definition.v1`, a NUL, and the canonical bytes.
    fn of(json: &Json) -> Self {
        let mut hash = Sha256::new();
        hash.update(b"memory.definition.v1\0");
        hash.update(json.canonical_bytes());
        Self(hex(hash))
    }

    pub(super) fn read(text: String) -> Self {
        Self(text)
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DefinitionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// `NAME`, meaning the newest version, or `NAME@VERSION`.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DefinitionRef {
    /// The name.
    pub name: String,
    /// The version; `None` for the newest.
    pub version: Option<u32>,
}

impl DefinitionRef {
    /// Parses a name of 1 to 64 of `a-z`, `0-9`, `_` and `-`, starting with a letter or digit, with or without a
    /// version.
    ///
    /// # Errors
    /// `invalid_argument`.
    pub fn parse(text: &str) -> Result<Self> {
        let (name, version) = match text.split_once('@') {
            Some((name, version)) => (name, Some(version)),
            None => (text, None),
        };
        check_name(name)?;
        let version = version
            .map(|version| match version.parse::<u32>() {
                Ok(number) if number > 0 && number.to_string() == version => Ok(number),
                _ => Err(Error::invalid("a version is a whole number from 1, as in NAME@2")),
            })
            .transpose()?;
        Ok(Self { name: name.to_owned(), version })
    }
}

impl fmt::Display for DefinitionRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.version {
            Some(version) => write!(f, "{}@{version}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

fn check_name(name: &str) -> Result<()> {
    let first = name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit());
    let rest = name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || matches!(b, b'_' | b'-'));
    if first && rest && name.len() <= 64 {
        return Ok(());
    }
    Err(Error::invalid(
        "the name of a definition is 1 to 64 of a-z, 0-9, `_` and `-`, and begins with a letter or a digit",
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_content_has_equal_ids_and_different_content_different_ids() {
        let one: Definition = serde_json::from_str(
            r#"{"url":"sqlite:a.db","sql":{"tx_idle_ms":5,"root":"trees"},"embedder":"local"}"#,
        )
        .unwrap();
        let same: Definition = serde_json::from_str(
            r#"{ "embedder":"\u006cocal", "sql":{"root":"trees","tx_idle_ms":5}, "url":"sqlite:a.db" }"#,
        )
        .unwrap();
        assert_eq!(one.id().unwrap(), same.id().unwrap());
        let mut ids = std::collections::BTreeSet::from([one.id().unwrap()]);
        for (url, embedder) in [("sqlite:a.db", None), ("sqlite:A.db", None), ("sqlite:a.db ", Some("local"))]
        {
            let mut other = Definition::new(url);
            other.embedder = embedder.map(str::to_owned);
            assert!(ids.insert(other.id().unwrap()), "{url}");
        }
        // Pinned, because ids are stored elsewhere.
        assert_eq!(Definition::new("sqlite:a.db").json().unwrap().as_str(), r#"{"url":"sqlite:a.db"}"#);
    }

    #[test]
    fn names_and_versions_are_read_strictly() {
        let of = |text: &str| DefinitionRef::parse(text).map(|found| (found.name, found.version));
        assert_eq!(of("main").unwrap(), ("main".into(), None));
        assert_eq!(of("a-1_b@12").unwrap(), ("a-1_b".into(), Some(12)));
        for bad in
            ["", "-a", "A", "a b", "a@", "a@0", "a@01", "a@-1", "a@x", "a/b", "é", "..", &"a".repeat(65)]
        {
            assert!(of(bad).is_err(), "{bad}");
        }
    }
}
