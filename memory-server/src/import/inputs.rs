//! The files an import reads: those named, those in named folders, and standard input.

use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::problems::SHOWN;

/// Depth limit for nested folders; also stated in the help and in docs/importing.md.
pub(crate) const MAX_DEPTH: usize = 16;
/// The conversation file in an export of ChatGPT or Claude. Large ones are split into files like
/// `conversations-000.json`.
pub(crate) const EXPORT: &str = "conversations.json";
/// Most files in one import.
const MAX_FILES: usize = 1_000_000;

/// One input of an import.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Input {
    /// The file; `None` for standard input.
    pub(crate) path: Option<PathBuf>,
    /// Its name in messages.
    pub(crate) shown: String,
    /// The name for a conversation without one: the file's name without its extension, prefixed with its folders below
    /// the one on the command line.
    pub(crate) name: String,
    /// The extension that its key has if it is Markdown.
    pub(crate) ending: String,
    /// Its size, if known.
    pub(crate) bytes: u64,
}

/// What an import reads.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    pub(crate) files: Vec<Input>,
    /// Folders nested too deeply, which are not read.
    pub(crate) too_deep: Vec<PathBuf>,
    pub(crate) unread: Unread,
}

/// Files in folders that are not read, because they are links or have another extension.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Unread {
    pub(crate) count: u64,
    /// The first few.
    pub(crate) first: Vec<String>,
}

/// Whether a file is Markdown by its name.
pub(crate) fn is_markdown(path: &Path) -> bool {
    ends(path, "md")
}

fn ends(path: &Path, ending: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(ending))
        || path.file_name().is_some_and(|name| ending.contains('.') && name == ending)
        || ending == EXPORT && (is_part_of_export(path) || is_beside_export(path))
}

/// `conversations-NNN.json`.
fn is_part_of_export(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str());
    let number = name.and_then(|name| name.strip_prefix("conversations-")?.strip_suffix(".json"));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit()))
}

/// What an export of Claude has beside `conversations.json`: memories and projects, each in one file or in a folder of them.
fn is_beside_export(path: &Path) -> bool {
    const NAMES: [&str; 2] = ["memories", "projects"];
    let is_named =
        |path: &Path| NAMES.iter().any(|name| path.file_name().is_some_and(|found| found == *name));
    let Some(folder) = path.parent().filter(|_| path.extension().is_some_and(|ending| ending == "json"))
    else {
        return false;
    };
    let has_export = |folder: &Path| folder.join(EXPORT).is_file();
    is_named(&path.with_extension("")) && has_export(folder)
        || is_named(folder) && folder.parent().is_some_and(has_export)
}

/// Every input that `paths` name, sorted by name. A folder stands for all files at any depth with one of these
/// extensions or, for endings that contain a dot, with one of these names.
pub(crate) fn inputs(paths: &[PathBuf], endings: &[&str]) -> Result<Inputs, (PathBuf, io::Error)> {
    let mut found = Inputs::default();
    for path in paths {
        if path.as_os_str() == "-" {
            let stdin = "standard input".to_owned();
            found.files.push(Input {
                path: None,
                shown: stdin,
                name: "stdin".to_owned(),
                ending: "md".to_owned(),
                bytes: 0,
            });
            continue;
        }
        let about = path.metadata().map_err(|error| (path.clone(), told(path, error)))?;
        if about.is_dir() {
            walk(path, path, endings, 0, &mut found)?;
        } else {
            let name = path.file_stem().unwrap_or_default();
            found.files.push(input(path.clone(), Path::new(name), about.len()));
        }
    }
    Ok(found)
}

/// Says how to export from a service, since an import reads files.
fn told(path: &Path, error: io::Error) -> io::Error {
    let way = match path.to_string_lossy().split_once("://") {
        Some(("postgres" | "postgresql", _)) => {
            "psql -AtXc 'SELECT row_to_json(s) FROM store s' URL | memory import - --user ada"
        }
        Some(_) => "curl … URL | memory import - --user ada",
        None => return error,
    };
    let text = format!("it is no file; let another program read it, as `{way}` (docs/importing.md)");
    io::Error::new(io::ErrorKind::InvalidInput, text)
}

fn input(path: PathBuf, name: &Path, bytes: u64) -> Input {
    let ending = path.extension().filter(|_| !is_markdown(&path));
    let ending = ending.map_or_else(|| "md".to_owned(), |ending| in_utf8(Path::new(ending)));
    Input { shown: path.display().to_string(), name: in_utf8(name), ending, bytes, path: Some(path) }
}

/// A name as text. Bytes that are not UTF-8 become `%XX`, so that different names stay different.
fn in_utf8(name: &Path) -> String {
    let mut text = String::new();
    for chunk in name.as_os_str().as_encoded_bytes().utf8_chunks() {
        text.push_str(chunk.valid());
        text.extend(chunk.invalid().iter().map(|byte| format!("%{byte:02X}")));
    }
    text
}

fn walk(
    root: &Path,
    folder: &Path,
    endings: &[&str],
    depth: usize,
    found: &mut Inputs,
) -> Result<(), (PathBuf, io::Error)> {
    let failed = |error| (folder.to_path_buf(), error);
    let mut entries =
        std::fs::read_dir(folder).and_then(Iterator::collect::<io::Result<Vec<_>>>).map_err(failed)?;
    entries.sort_by_key(std::fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        // `.git`, `.obsidian`, an editor's draft: not notes.
        if entry.file_name().as_encoded_bytes().starts_with(b".") {
            continue;
        }
        // Links are not followed: they may leave the folder or form a cycle.
        let kind = entry.file_type().map_err(failed)?;
        if kind.is_dir() && depth < MAX_DEPTH {
            walk(root, &path, endings, depth + 1, found)?;
        } else if kind.is_dir() {
            found.too_deep.push(path);
        } else if kind.is_symlink() || kind.is_file() && !endings.iter().any(|ending| ends(&path, ending)) {
            found.unread.count += 1;
            if found.unread.first.len() < SHOWN {
                found.unread.first.push(path.display().to_string());
            }
        } else if kind.is_file() {
            if found.files.len() >= MAX_FILES {
                return Err(failed(io::Error::other(format!("it contains over {MAX_FILES} files"))));
            }
            let name = path.strip_prefix(root).unwrap_or(&path).with_extension("");
            let bytes = entry.metadata().map_or(0, |about| about.len());
            found.files.push(input(path, &name, bytes));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_are_read_in_order_without_following_links() {
        let folder = tempfile::tempdir().unwrap();
        for within in ["b", ".git"] {
            std::fs::create_dir(folder.path().join(within)).unwrap();
        }
        for file in [
            "b/z.jsonl",
            "b/notes.txt",
            "b/C.MD",
            "conversations.json",
            "conversations-000.json",
            "conversations-x.json",
            "b/user.json",
            "a.jsonl",
            ".git/x.md",
            ".a.jsonl",
        ] {
            std::fs::write(folder.path().join(file), "x").unwrap();
        }
        #[cfg(unix)]
        std::os::unix::fs::symlink(folder.path(), folder.path().join("round")).unwrap();
        let found = inputs(
            &[folder.path().to_path_buf(), PathBuf::from("-")],
            &["jsonl", "md", "conversations.json"],
        )
        .unwrap();
        let names: Vec<_> = found.files.iter().map(|input| input.name.as_str()).collect();
        assert_eq!(names, ["a", "b/C", "b/z", "conversations-000", "conversations", "stdin"]);
        let unread = ["conversations-x.json", "b/notes.txt", "b/user.json"].len() + usize::from(cfg!(unix));
        assert_eq!(found.unread.count, unread as u64, "the link, too: {:?}", found.unread.first);
        assert!(inputs(&[folder.path().join("absent")], &["jsonl"]).is_err());
        for within in ["projects", "b/projects"] {
            std::fs::create_dir(folder.path().join(within)).unwrap();
        }
        for file in ["memories.json", "projects/p1.json", "b/memories.json", "b/projects/p1.json"] {
            std::fs::write(folder.path().join(file), "{}").unwrap();
        }
        let found = inputs(&[folder.path().to_path_buf()], &[EXPORT]).unwrap();
        let names: Vec<_> = found.files.iter().map(|input| input.name.as_str()).collect();
        assert_eq!(names, ["conversations-000", "conversations", "memories", "projects/p1"]);
        #[cfg(unix)]
        for (bytes, name) in [(b"a\xff", "a%FF"), (b"a\xfe", "a%FE")] {
            let given: &std::ffi::OsStr = std::os::unix::ffi::OsStrExt::from_bytes(bytes);
            assert_eq!(in_utf8(Path::new(given)), name);
        }
        let found = inputs(&[folder.path().to_path_buf()], &["md"]).unwrap();
        assert_eq!(found.files.iter().map(|input| input.name.as_str()).collect::<Vec<_>>(), ["b/C"]);
    }
}
