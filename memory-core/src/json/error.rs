/// Why a text is not a [`Json`](super::Json), or a `Json` not of the requested type.
///
/// `Display` names positions and never quotes the text, so it is safe to log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JsonError {
    /// The text breaks the grammar of RFC 8259.
    #[error("invalid JSON at byte {position}: expected {expected}")]
    Syntax {
        /// Byte offset of the error in the original text, including outer white space.
        position: usize,
        /// What the grammar allows there.
        expected: &'static str,
    },
    /// The text stops before the value is complete.
    #[error("JSON ends at byte {position} before the value is complete")]
    UnexpectedEnd {
        /// Length of the text in bytes.
        position: usize,
    },
    /// More than [`MAX_DEPTH`](super::MAX_DEPTH) arrays and objects are open at once.
    #[error("JSON is nested deeper than {limit} levels (at byte {position})")]
    TooDeep {
        /// Offset of the bracket that opens one level too many.
        position: usize,
        /// The limit, [`MAX_DEPTH`](super::MAX_DEPTH).
        limit: usize,
    },
    /// A `\uD800`–`\uDFFF` escape without its partner, which cannot be decoded.
    #[error("lone surrogate escape at byte {position}: write a \\uD8xx\\uDCxx pair or the character itself")]
    LoneSurrogate {
        /// Offset of the escape's backslash.
        position: usize,
    },
    /// A raw control character (below U+0020) inside a string.
    #[error("control character in a string at byte {position}: write it as an escape")]
    ControlCharacter {
        /// Offset of the character.
        position: usize,
    },
    /// A Rust value that cannot be written as JSON (for example a map whose keys are not strings).
    #[error("the value cannot be written as JSON")]
    Serialize(#[source] serde_json::Error),
    /// Valid JSON without the shape of the requested Rust type.
    #[error("the JSON does not have the expected shape")]
    Deserialize(#[source] serde_json::Error),
}
