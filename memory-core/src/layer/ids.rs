//! Ids that a layer assigns.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Longest fact or event id, in bytes.
pub const MAX_REMOTE_ID_BYTES: usize = 1_024;

macro_rules! remote_id {
    ($(#[$doc:meta])* $name:ident, $what:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        #[serde(try_from = "String", into = "String")]
        #[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(with = "String"))]
        pub struct $name(Box<str>);

        impl $name {
            /// Validates an id: 1 to 1,024 bytes, not blank, no control characters, never `*`.
            ///
            /// # Errors
            /// `invalid_argument` or `too_large`.
            pub fn new(id: impl Into<String>) -> Result<Self> {
                let id = id.into();
                if id.trim().is_empty() || id == "*" || id.chars().any(char::is_control) {
                    return Err(Error::invalid(concat!($what, " is blank, a wildcard, or has control characters")));
                }
                if id.len() > MAX_REMOTE_ID_BYTES {
                    return Err(Error::too_large($what, id.len(), MAX_REMOTE_ID_BYTES, "bytes"));
                }
                Ok(Self(id.into_boxed_str()))
            }

            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl TryFrom<String> for $name {
            type Error = Error;
            fn try_from(id: String) -> Result<Self> {
                Self::new(id)
            }
        }

        impl From<$name> for String {
            fn from(id: $name) -> Self {
                id.0.into_string()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

remote_id!(
    /// A fact's id, assigned by the layer.
    FactId,
    "fact id"
);
remote_id!(
    /// The id of work in progress, assigned by the layer.
    EventId,
    "event id"
);
