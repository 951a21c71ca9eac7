//! What a command reads in addition to its options.

use std::io::Read as _;

use memory_core::Error;

use super::failure::Failure;

/// Read limit for a file or standard input, whatever the store accepts.
const MAX_INPUT_BYTES: u64 = 64 << 20;

/// Reads text whole, up to a limit.
pub(crate) fn read_text(what: &str, input: std::io::Result<impl std::io::Read>) -> Result<String, Failure> {
    let failed = |error| Failure::File(format!("{what} cannot be read"), error);
    let mut bytes = Vec::new();
    input.map_err(failed)?.take(MAX_INPUT_BYTES + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_INPUT_BYTES {
        let limit = usize::try_from(MAX_INPUT_BYTES).unwrap_or(usize::MAX);
        return Err(Error::too_large("value", bytes.len(), limit, "bytes").into());
    }
    String::from_utf8(bytes).map_err(|_| Failure::invalid(format!("{what} is not UTF-8 text")))
}
