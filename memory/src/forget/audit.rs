//! Redacting the target in audit files.

use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, BufWriter, ErrorKind as IoErrorKind, Write as _};
use std::path::{Path, PathBuf};

use memory_core::{EraseTarget, Error, ErrorKind, IdGen as _, Result, Scope, ScopeKind};
use serde_json::{Map, Value};

use crate::private;
use crate::snapshot::locked;
use crate::system::RandomIds;

/// Replaces forgotten names in a record.
pub const FORGOTTEN: &str = "[forgotten]";
/// Longest line to read, in bytes.
const MAX_LINE: u64 = 64 << 20;
/// Extensions of files that cannot be searched.
const COMPRESSED: [&str; 5] = [".gz", ".zst", ".xz", ".bz2", ".lz4"];

/// An audit file and its rotated siblings.
#[derive(Debug, Default)]
pub(super) struct Files {
    /// Those that can be read.
    pub(super) plain: Vec<PathBuf>,
    /// Those that cannot.
    pub(super) compressed: Vec<PathBuf>,
    /// Files with a similar name. They may be something else, so they are not rewritten.
    pub(super) alike: Vec<PathBuf>,
}

/// Finds `NAME`, and `NAME` followed by a dot or hyphen and anything else.
pub(super) fn files(path: &Path) -> Result<Files> {
    let (Some(folder), Some(name)) = (path.parent(), path.file_name().and_then(|name| name.to_str())) else {
        return Err(Error::invalid("the audit file has no name"));
    };
    let folder = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
    let mut files = Files::default();
    let found = match fs::read_dir(folder) {
        Ok(found) => found,
        Err(error) if error.kind() == IoErrorKind::NotFound => return Ok(files),
        Err(error) => return Err(failed(error)),
    };
    for item in found {
        let item = item.map_err(failed)?;
        let other = item.file_name();
        let Some(other) = other.to_str().filter(|_| item.file_type().is_ok_and(|kind| kind.is_file())) else {
            continue;
        };
        let is_compressed = COMPRESSED.iter().any(|ending| other.ends_with(ending));
        if let Some(rest) = other.strip_prefix(name) {
            if rest.is_empty() || rest.starts_with(['.', '-']) {
                if is_compressed { &mut files.compressed } else { &mut files.plain }.push(item.path());
            }
        } else if is_alike(name, other) {
            if is_compressed { &mut files.compressed } else { &mut files.alike }.push(item.path());
        }
    }
    files.plain.sort();
    files.alike.sort();
    Ok(files)
}

/// Matches names like `audit.1.jsonl` or `audit-20260101.jsonl.gz` for `audit.jsonl`.
fn is_alike(name: &str, other: &str) -> bool {
    let Some((stem, ending)) = name.rsplit_once('.') else { return false };
    let middle = other.strip_prefix(stem).filter(|rest| rest.starts_with(['.', '-', '_']));
    middle.and_then(|rest| rest.split_once(&format!(".{ending}"))).is_some_and(|(between, after)| {
        between.bytes().any(|byte| byte.is_ascii_digit()) && (after.is_empty() || after.starts_with('.'))
    })
}

/// How many of a file's records are about the target.
pub(super) fn count(path: &Path, target: &EraseTarget) -> Result<u64> {
    let mut reader = BufReader::new(File::open(path).map_err(failed)?);
    let (mut line, mut records) = (Vec::new(), 0);
    while read(&mut reader, &mut line)? {
        records += u64::from(redacted(&line, target).is_some());
    }
    Ok(records)
}

/// Removes the target from a file, which is replaced as a whole while nobody appends. Returns how many records changed.
pub(super) fn redact(path: &Path, target: &EraseTarget) -> Result<u64> {
    if count(path, target)? == 0 {
        return Ok(0);
    }
    let source = lock(path)?;
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // Whoever left a draft held the lock, so that process is dead.
    for item in fs::read_dir(path.parent().unwrap_or(Path::new("."))).map_err(failed)?.flatten() {
        let left = item.file_name().to_string_lossy().into_owned();
        if left
            .strip_prefix(&format!(".{name}."))
            .is_some_and(|rest| rest.len() == 37 && rest.ends_with(".part"))
        {
            let _ = fs::remove_file(item.path());
        }
    }
    let draft = path.with_file_name(format!(".{name}.{:032x}.part", RandomIds.fresh()));
    let written = write(&source, &draft, target);
    let done = written.and_then(|records| {
        fs::rename(&draft, path).map_err(failed)?;
        Ok(records)
    });
    if done.is_err() {
        let _ = fs::remove_file(&draft);
    }
    drop(source);
    done
}

fn write(source: &File, draft: &Path, target: &EraseTarget) -> Result<u64> {
    let out = private::create_new(draft).map_err(failed)?;
    let old = source.metadata().map_err(failed)?;
    belongs_as(&out, &old)?;
    // Keep the operator's mode, since a log shipper may have to read the file.
    out.set_permissions(old.permissions()).map_err(failed)?;
    let mut out = BufWriter::new(out);
    let mut reader = BufReader::new(source.try_clone().map_err(failed)?);
    let (mut line, mut records) = (Vec::new(), 0);
    while read(&mut reader, &mut line)? {
        match redacted(&line, target) {
            None => out.write_all(&line).map_err(failed)?,
            Some(clean) => {
                records += 1;
                out.write_all(&clean).map_err(failed)?;
            }
        }
    }
    let out = out.into_inner().map_err(|error| failed(error.into_error()))?;
    out.sync_all().map_err(failed)?;
    Ok(records)
}

/// Gives a file the owner and group of the file it replaces, so that the same users can still read and write it.
#[cfg(unix)]
fn belongs_as(file: &File, old: &fs::Metadata) -> Result<()> {
    use std::os::unix::fs::{MetadataExt as _, fchown};
    let own = file.metadata().map_err(failed)?;
    let uid = (own.uid() != old.uid()).then_some(old.uid());
    let gid = (own.gid() != old.gid()).then_some(old.gid());
    if uid.is_none() && gid.is_none() {
        return Ok(());
    }
    fchown(file, uid, gid).map_err(|error| {
        let message = format!(
            "the audit file belongs to user {} and group {}, but a rewritten file cannot be given to them: {error}; run \
             `forget` again as a user who may do that",
            old.uid(),
            old.gid()
        );
        Error::forbidden(message).with_source(error)
    })
}

#[cfg(not(unix))]
fn belongs_as(_: &File, _: &fs::Metadata) -> Result<()> {
    Ok(())
}

/// Opens a file and locks it against appending until it is closed.
fn lock(path: &Path) -> Result<File> {
    loop {
        let file = File::open(path).map_err(failed)?;
        // Whoever held the lock before may have replaced the file.
        if locked(&file, path)? {
            return Ok(file);
        }
    }
}

fn read(reader: &mut BufReader<File>, line: &mut Vec<u8>) -> Result<bool> {
    line.clear();
    let read = std::io::Read::take(&mut *reader, MAX_LINE).read_until(b'\n', line).map_err(failed)?;
    Ok(read > 0)
}

/// A line without the target; `None` if it does not contain the target.
fn redacted(line: &[u8], target: &EraseTarget) -> Option<Vec<u8>> {
    let Ok(Value::Object(mut record)) = serde_json::from_slice::<Value>(line) else {
        // An incomplete line, left by a dead process, is removed if it contains the name.
        let names = [target.scope().map_or(target.tenant().as_str(), |scope| scope.id.as_str())];
        let name = target.key().map_or(names[0], |key| key.as_str());
        let holds = line.windows(name.len().max(1)).any(|window| window == name.as_bytes());
        return holds.then(|| b"\n".to_vec());
    };
    if !take_out(&mut record, target) {
        return None;
    }
    let mut clean = serde_json::to_vec(&record).ok()?;
    clean.push(b'\n');
    Some(clean)
}

fn says(record: &Map<String, Value>, member: &str, text: &str) -> bool {
    record.get(member).and_then(Value::as_str) == Some(text)
}

/// Replaces members; returns whether there were any.
fn forget(record: &mut Map<String, Value>, members: &[&str]) -> bool {
    let mut changed = false;
    for member in members {
        if let Some(value) = record.get_mut(*member)
            && value.as_str() != Some(FORGOTTEN)
        {
            *value = Value::from(FORGOTTEN);
            changed = true;
        }
    }
    changed
}

const CONTENT: [&str; 5] = ["key", "prefix", "tables", "input", "recalled"];

fn take_out(record: &mut Map<String, Value>, target: &EraseTarget) -> bool {
    if !says(record, "tenant", target.tenant().as_str()) {
        return false;
    }
    let Some(scope) = target.scope() else {
        let of_tenant = ["agent", "user", "run", "root_run", "trace", "scope_id", "snapshot"];
        forget(record, &CONTENT);
        forget(record, &of_tenant);
        return forget(record, &["tenant"]);
    };
    let ids = ids_of(scope);
    let is_actor = ids.iter().any(|member| says(record, member, scope.id.as_str()));
    let is_scope = says(record, "scope", scope.kind.as_str());
    let is_of_it = is_scope && (is_actor || says(record, "scope_id", scope.id.as_str()));
    match target.key() {
        Some(key) => {
            let text = Value::from(key.as_str());
            let in_input = record.get("input").is_some_and(|input| mentions(input, key.as_str()));
            let in_prefix = record
                .get("prefix")
                .and_then(Value::as_str)
                .is_some_and(|prefix| prefix.starts_with(key.as_str()));
            if !is_of_it {
                return false;
            }
            let prefix = in_prefix && forget(record, &["prefix"]);
            let names_it = record.get("key") == Some(&text) || in_input;
            names_it && forget(record, &["key", "input"]) || prefix
        }
        None => {
            let content = is_of_it && forget(record, &CONTENT);
            let evicted = is_of_it && forget(record, &["scope_id", "snapshot"]);
            let mut named = false;
            for member in ids {
                if says(record, member, scope.id.as_str()) {
                    named |= forget(record, &[member]);
                }
            }
            content || evicted || named
        }
    }
}

/// The members that contain a scope's id.
fn ids_of(scope: &Scope) -> &'static [&'static str] {
    match scope.kind {
        ScopeKind::Agent => &["agent"],
        ScopeKind::User => &["user"],
        ScopeKind::Run => &["run", "root_run"],
        // No record is about it.
        ScopeKind::Host => &[],
    }
}

fn mentions(value: &Value, text: &str) -> bool {
    match value {
        Value::String(held) => held.contains(text),
        Value::Array(items) => items.iter().any(|item| mentions(item, text)),
        Value::Object(members) => {
            members.iter().any(|(name, value)| name.contains(text) || mentions(value, text))
        }
        _ => false,
    }
}

fn failed(error: std::io::Error) -> Error {
    let kind = match error.kind() {
        IoErrorKind::PermissionDenied => ErrorKind::Forbidden,
        _ => ErrorKind::Unavailable,
    };
    Error::new(kind, format!("the audit file cannot be rewritten: {error}")).with_source(error)
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_was_replaced_while_its_lock_was_awaited_is_read_again() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("audit.jsonl");
        let of = |tenant: &str| format!("{{\"tenant\":\"{tenant}\",\"agent\":\"{tenant}-a\"}}\n");
        fs::write(&path, of("ann") + &of("bob")).unwrap();
        let other = File::open(&path).unwrap();
        other.lock().unwrap();
        let target = EraseTarget::Tenant(memory_core::TenantId::new("bob").unwrap());
        std::thread::scope(|scope| {
            let redacting = scope.spawn(|| redact(&path, &target));
            std::thread::sleep(std::time::Duration::from_millis(50));
            // Simulates another process that forgets ann.
            fs::write(folder.path().join("new"), of("[forgotten]") + &of("bob") + &of("eve")).unwrap();
            fs::rename(folder.path().join("new"), &path).unwrap();
            drop(other);
            assert_eq!(redacting.join().unwrap().unwrap(), 1);
        });
        let left = fs::read_to_string(&path).unwrap();
        assert!(left.contains("eve") && !left.contains("ann") && !left.contains("bob"), "{left}");
    }
}
