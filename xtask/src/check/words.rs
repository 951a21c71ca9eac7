//! Text that must not be committed: paths of one machine, and hosts from a registry client's configuration.

use std::ffi::OsStr;
use std::path::Path;

use crate::Result;
use crate::workspace::Workspace;

/// Text that ties a file to one machine or network. Split, so that this file passes its own check.
const BANNED: &[&str] = &[
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("static.", "crates"),
    concat!("index.", "crates"),
    concat!("files.", "pythonhosted"),
    concat!("registry.", "npmjs"),
];

/// Home folders: a user name follows.
const HOMES: &[&str] = &[concat!("/ho", "me/"), concat!("/Us", "ers/")];

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for file in workspace.files()?.iter().filter(|file| is_written_by_hand(file)) {
        for (number, line) in workspace.read(file)?.lines().enumerate() {
            if let Some(word) = banned(line) {
                wrong.push(format!("{}:{}: {word}", file.display(), number + 1));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// Source, build files and prose; not data, which may quote any path.
fn is_written_by_hand(file: &Path) -> bool {
    const KINDS: &[&str] = &["rs", "toml", "md", "sh", "py", "sql", "yml", "yaml"];
    let kind = file.extension().and_then(OsStr::to_str);
    file.starts_with(".ci") || kind.is_some_and(|kind| KINDS.contains(&kind))
}

fn banned(line: &str) -> Option<&'static str> {
    BANNED
        .iter()
        .find(|word| {
            let starts = line.match_indices(**word).map(|(at, _)| at);
            // `docs/wo…` and `frame/ro…` are relative paths: a machine's path starts with a slash.
            starts.into_iter().any(|at| !word.starts_with('/') || starts_a_path(line, at))
        })
        .or_else(|| {
            HOMES.iter().find(|home| {
                line.match_indices(**home).any(|(at, _)| {
                    let rest = line.get(at + home.len()..).unwrap_or_default();
                    let name = rest.split('/').next().unwrap_or_default();
                    let named = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric());
                    named && rest.len() > name.len() && starts_a_path(line, at)
                })
            })
        })
        .copied()
}

fn starts_a_path(line: &str, at: usize) -> bool {
    let before = line.get(..at).and_then(|text| text.chars().next_back());
    !before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn absolute_paths_and_registry_hosts_are_found() {
        for line in [
            concat!("cd /wo", "rk/main"),
            concat!("\"/ro", "ot/.cargo\""),
            concat!("/ho", "me/ann/src"),
            concat!("https://index.", "crates.io/"),
        ] {
            assert!(banned(line).is_some(), "{line}");
        }
    }

    #[test]
    fn relative_paths_and_ordinary_words_pass() {
        for line in
            [concat!("frame/wo", "rk/x"), "the root/ folder", "$HOME/x", "crates.io", concat!("/ho", "me/")]
        {
            assert_eq!(banned(line), None, "{line}");
        }
    }
}
