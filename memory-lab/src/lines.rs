//! JSON lines of a file, gzip or plain.

use std::fs::File;
use std::io::{BufRead, BufReader, Read as _};
use std::path::Path;

use flate2::bufread::MultiGzDecoder;
use memory_core::{Error, ErrorKind, Result, Timestamp};
use memory_server::terminal::note;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

/// A part of a file that is left out.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct LeftOut {
    /// From 1.
    pub(crate) line: usize,
    pub(crate) why: String,
}

/// What a file holds.
#[derive(Debug)]
pub(crate) struct Lines<T> {
    /// Each line that could be read, with its number.
    pub(crate) read: Vec<(usize, T)>,
    pub(crate) left_out: Vec<LeftOut>,
}

/// Reads the lines of a file. One that is not as it should be, or is longer than `limit` bytes, is left out.
///
/// # Errors
/// If the file cannot be read, or no line of it can.
pub(crate) fn read<T: DeserializeOwned>(path: &Path, limit: u64) -> Result<Lines<T>> {
    let named = |error: Error| error.with_detail("file", path.display().to_string());
    let unreadable = |error: std::io::Error| {
        let missing = error.kind() == std::io::ErrorKind::NotFound;
        let kind = if missing { ErrorKind::NotFound } else { ErrorKind::InvalidArgument };
        named(Error::new(kind, format!("{} cannot be read: {error}", path.display())))
    };
    let mut file = BufReader::new(File::open(path).map_err(unreadable)?);
    let gzip = file.fill_buf().map_err(unreadable)?.starts_with(&[0x1f, 0x8b]);
    let mut source: Box<dyn BufRead> =
        if gzip { Box::new(BufReader::new(MultiGzDecoder::new(file))) } else { Box::new(file) };
    let (mut lines, mut line) = (Lines { read: Vec::new(), left_out: Vec::new() }, Vec::new());
    for number in 1.. {
        line.clear();
        if (&mut source).take(limit).read_until(b'\n', &mut line).map_err(unreadable)? == 0 {
            break;
        }
        if line.trim_ascii().is_empty() {
            continue;
        }
        let is_whole = line.ends_with(b"\n") || source.fill_buf().map_err(unreadable)?.is_empty();
        let read = if is_whole {
            serde_json::from_slice(&line).map_err(|error| error.to_string())
        } else {
            source.skip_until(b'\n').map_err(unreadable)?;
            Err(format!("it has over {limit} bytes"))
        };
        match read {
            Ok(read) => lines.read.push((number, read)),
            Err(why) => lines.left_out.push(LeftOut { line: number, why }),
        }
    }
    if lines.read.is_empty() {
        let first = lines.left_out.first().map(|first| format!("; line {}: {}", first.line, first.why));
        let why = format!("{} has no line that can be read{}", path.display(), first.unwrap_or_default());
        return Err(named(Error::invalid(why)));
    }
    Ok(lines)
}

/// Says on standard error what is left out: the first few, and how many.
pub(crate) fn tell(path: &Path, left_out: &[LeftOut]) {
    const TOLD: usize = 5;
    for LeftOut { line, why } in left_out.iter().take(TOLD) {
        note(&format!("{}, line {line}, left out: {why}", path.display()));
    }
    if let Some(more) = left_out.len().checked_sub(TOLD).filter(|more| *more > 0) {
        note(&format!("{}: {more} more left out", path.display()));
    }
}

/// Text, or a number as text; `null` is no text.
pub(crate) fn text<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Given {
        Text(String),
        Number(serde_json::Number),
        None(()),
    }
    Ok(match Given::deserialize(deserializer)? {
        Given::Text(text) => text,
        Given::Number(number) => number.to_string(),
        Given::None(()) => String::new(),
    })
}

/// What may be `null`.
pub(crate) fn or_default<'de, D: Deserializer<'de>, T: Deserialize<'de> + Default>(
    deserializer: D,
) -> std::result::Result<T, D::Error> {
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// A time in any form that [`Timestamp::read`] takes.
pub(crate) fn time<'de, D: Deserializer<'de>>(deserializer: D) -> std::result::Result<Timestamp, D::Error> {
    let read = memory_core::time::read_or_none(deserializer)?;
    read.ok_or_else(|| serde::de::Error::custom("a time is missing"))
}
