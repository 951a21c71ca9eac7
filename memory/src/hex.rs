//! Hexadecimal digits.

use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

/// The 64 lower-case hexadecimal digits of a SHA-256.
pub(crate) fn hex(hash: Sha256) -> String {
    hash.finalize().iter().fold(String::with_capacity(64), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
