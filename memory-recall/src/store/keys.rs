//! The keys of a conversation among the scope's entries.

use memory_core::{Error, Key, Result};

/// The source of every entry of a conversation.
pub const SOURCE: &str = "turn";
/// The prefix of every key of a conversation. It sorts after every key that starts with an ASCII letter or digit.
pub const RESERVED_PREFIX: &str = "~turn/";
/// The prefix of the log's keys: turns in the order in which they were added, and what happened to them.
pub(crate) const LOG_PREFIX: &str = "~turn/log/";
pub(crate) const ID_PREFIX: &str = "~turn/id/";
pub(crate) const FORGOTTEN_PREFIX: &str = "~turn/forgotten/";
const HEAD: &str = "~turn/head";
const EXTRACT: &str = "~turn/extract";

/// Whether a key belongs to a conversation: such keys are written only by `add` and `forget`.
#[must_use]
pub fn is_reserved(key: &str) -> bool {
    key.starts_with(RESERVED_PREFIX)
}

/// The entry whose version moves with every change of the conversation.
pub(crate) fn head() -> Result<Key> {
    Key::new(HEAD)
}

/// The progress of extraction. Exists once that has begun.
pub(crate) fn extract() -> Result<Key> {
    Key::new(EXTRACT)
}

/// The record of this number in the log.
pub(crate) fn log(number: u64) -> Result<Key> {
    Key::new(format!("{LOG_PREFIX}{number:016x}"))
}

/// The number of a record in the log.
pub(crate) fn number(key: &Key) -> Result<u64> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    let digits = key.as_str().strip_prefix(LOG_PREFIX);
    let digits = digits.filter(|digits| digits.len() == 16 && digits.bytes().all(is_digit));
    digits.and_then(|digits| u64::from_str_radix(digits, 16).ok()).ok_or_else(|| strange(key))
}

/// The error for a key that does not belong to a conversation.
pub(crate) fn strange(key: &Key) -> Error {
    Error::corrupt(format!(
        "the key `{key}` is none of a conversation's; forgetting everything removes the entry"
    ))
}

/// What is known of a message with this digest.
pub(crate) fn id(digest: &str) -> Result<Key> {
    Key::new(format!("{ID_PREFIX}{digest}"))
}

/// The page of forgotten digests that start with this prefix.
pub(crate) fn forgotten(prefix: &str) -> Result<Key> {
    Key::new(format!("{FORGOTTEN_PREFIX}{prefix}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_log_is_in_the_order_of_its_numbers() {
        let numbers = [0, 1, 9, 10, 255, 256, 1 << 40, u64::MAX];
        let keys: Vec<Key> = numbers.iter().map(|n| log(*n).unwrap()).collect();
        assert!(keys.is_sorted());
        for (key, expected) in keys.iter().zip(numbers) {
            assert_eq!(number(key).unwrap(), expected);
            assert!(is_reserved(key.as_str()));
        }
        for bad in [
            "~turn/log/",
            "~turn/log/1",
            "~turn/head",
            "~turn/log/zzzzzzzzzzzzzzzz",
            "~turn/log/+00000000000000f",
            "~turn/log/000000000000000F",
        ] {
            assert!(number(&Key::new(bad).unwrap()).is_err());
        }
    }
}
