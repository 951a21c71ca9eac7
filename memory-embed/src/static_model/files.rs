//! The three files of a model, read within limits.

use std::fs::File;
use std::io::{ErrorKind as Io, Read as _};
use std::path::Path;

use memory_core::{Error, ErrorKind, Result, Retry};

/// Largest `model.safetensors`, in bytes.
pub const MAX_WEIGHTS_BYTES: u64 = 1 << 30;
/// Largest `tokenizer.json`, in bytes.
pub const MAX_TOKENIZER_BYTES: u64 = 64 << 20;
/// Largest `config.json`, in bytes.
pub const MAX_CONFIG_BYTES: u64 = 1 << 20;

pub(super) struct Files {
    pub(super) weights: Vec<u8>,
    pub(super) tokenizer: Vec<u8>,
    pub(super) config: Vec<u8>,
}

impl Files {
    pub(super) fn read(folder: &Path) -> Result<Self> {
        // The small ones first, so that a folder of something else is refused before a gigabyte is read.
        let config = read(&folder.join("config.json"), "config.json", MAX_CONFIG_BYTES)?;
        let tokenizer = read(&folder.join("tokenizer.json"), "tokenizer.json", MAX_TOKENIZER_BYTES)?;
        let weights = read(&folder.join("model.safetensors"), "model.safetensors", MAX_WEIGHTS_BYTES)?;
        Ok(Self { weights, tokenizer, config })
    }
}

fn read(path: &Path, what: &'static str, limit: u64) -> Result<Vec<u8>> {
    let failed = |error: std::io::Error| {
        let (kind, advice) = match error.kind() {
            Io::NotFound => (
                ErrorKind::NotFound,
                "a static model is a folder with config.json, tokenizer.json and model.safetensors",
            ),
            Io::PermissionDenied => (ErrorKind::Forbidden, "make it readable"),
            _ => (ErrorKind::Unavailable, "see the cause"),
        };
        Error::new(kind, format!("{} cannot be read: {error}; {advice}", path.display()))
            .with_retry(Retry::Never)
            .with_source(error)
    };
    // Opening a pipe would wait for its other end, and a device has no end.
    let about = std::fs::metadata(path).map_err(failed)?;
    if !about.is_file() {
        return Err(Error::invalid(format!("{} is not a file; name a folder of files", path.display())));
    }
    let file = File::open(path).map_err(failed)?;
    let mut bytes = Vec::with_capacity(usize::try_from(about.len().min(limit)).unwrap_or_default());
    file.take(limit + 1).read_to_end(&mut bytes).map_err(failed)?;
    let length = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    if length > limit {
        let limit = usize::try_from(limit).unwrap_or(usize::MAX);
        return Err(Error::too_large(what, bytes.len(), limit, "bytes"));
    }
    Ok(bytes)
}
