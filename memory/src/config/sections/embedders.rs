//! `[embedders.NAME]` and `[egress]` of `memory.toml`.

use std::fmt;
use std::path::PathBuf;

use memory_core::{Error, Result};
use serde::Deserialize;
use serde::de::{DeserializeOwned, Deserializer, Error as _};

/// `[embedders.NAME]`: `kind`, and the fields of that kind.
#[derive(Clone, PartialEq)]
#[non_exhaustive]
pub enum EmbedderSection {
    /// `kind = "static"`: a local model.
    Static(StaticSection),
    /// `kind = "openai"`: a service that speaks OpenAI's `/embeddings`.
    #[cfg(feature = "embed-openai")]
    OpenAi(Box<memory_embed::OpenAiOptions>),
    /// The model bundled with the program. Always available under [its name](crate::embedders::BUNDLED), without a
    /// section.
    Bundled,
    /// A kind known to this version but not compiled in. Accepted, because programs may share a file, and refused when
    /// opened.
    NotBuilt {
        /// The kind.
        kind: &'static str,
        /// The cargo feature of the crate `memory` that it needs.
        feature: &'static str,
    },
}

/// Shows only the kind, since a field may contain a misplaced secret.
impl fmt::Debug for EmbedderSection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EmbedderSection").field("kind", &self.kind()).finish_non_exhaustive()
    }
}

/// The fields of `kind = "static"`.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
#[non_exhaustive]
pub struct StaticSection {
    /// The model's folder; relative to the folder of `memory.toml`.
    pub path: PathBuf,
    /// The model's name in its identity. Default: the name of its folder.
    pub name: Option<String>,
    /// The required length of its vectors. Default: that of the weights.
    pub dimensions: Option<usize>,
}

/// `[egress]`: what may be reached besides public addresses by https.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
#[non_exhaustive]
pub struct EgressSection {
    /// Hosts with ports, such as `localhost:11434`: they may have private addresses and use plain HTTP.
    pub allow: Vec<String>,
}

impl EmbedderSection {
    /// The kind, as spelled in the file.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Static(_) => "static",
            #[cfg(feature = "embed-openai")]
            Self::OpenAi(_) => "openai",
            Self::Bundled => "bundled",
            Self::NotBuilt { kind, .. } => kind,
        }
    }

    /// Checks everything that can be checked without opening anything.
    pub(in crate::config) fn check(&self) -> Result<()> {
        match self {
            Self::Static(section) => section.check(),
            #[cfg(feature = "embed-openai")]
            Self::OpenAi(options) => options.check(),
            Self::Bundled | Self::NotBuilt { .. } => Ok(()),
        }
    }
}

impl<'de> Deserialize<'de> for EmbedderSection {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Self, D::Error> {
        let mut fields = toml::Table::deserialize(deserializer)?;
        let kind = match fields.remove("kind") {
            Some(toml::Value::String(kind)) => kind,
            Some(_) => return Err(D::Error::custom("`kind` of an embedder must be a string")),
            None => return Err(D::Error::missing_field("kind")),
        };
        match kind.as_str() {
            "static" => section(fields).map(Self::Static).map_err(D::Error::custom),
            #[cfg(feature = "embed-openai")]
            "openai" => {
                section(fields).map(|options| Self::OpenAi(Box::new(options))).map_err(D::Error::custom)
            }
            #[cfg(not(feature = "embed-openai"))]
            "openai" => Ok(Self::NotBuilt { kind: "openai", feature: "embed-openai" }),
            _ => Err(D::Error::unknown_variant(&kind, &["static", "openai"])),
        }
    }
}

/// The fields of one kind.
fn section<T: DeserializeOwned>(fields: toml::Table) -> std::result::Result<T, impl fmt::Display> {
    T::deserialize(toml::Value::Table(fields)).map_err(|error| error.message().to_owned())
}

impl StaticSection {
    fn check(&self) -> Result<()> {
        if self.path.as_os_str().is_empty() {
            return Err(Error::invalid("`path` is empty; name the model's folder"));
        }
        Ok(())
    }
}
