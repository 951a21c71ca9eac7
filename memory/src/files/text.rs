//! Lines, edits and listings as text.

use std::collections::BTreeMap;

use super::path::{FilePath, shown};
use super::refused::{Done, Refused};
use crate::tool::cut;

/// Most lines of a file that can be viewed: their numbers have six digits.
const MAX_LINES: usize = 999_999;
/// How many lines an edit shows on each side of a change.
const CONTEXT: usize = 2;
/// Most line numbers that a refused replacement names.
const MAX_NAMED: usize = 100;
/// How many levels of folders a listing shows.
const DEPTH: usize = 2;

/// How the answer to a replacement begins.
pub(super) const EDITED: &str = "The memory file has been edited.";

/// Whether a view shows the whole file.
pub(super) struct View {
    pub(super) text: String,
    pub(super) whole: bool,
}

/// A file's lines with their numbers.
pub(super) fn view(path: &FilePath, content: &str, range: Option<&[i64]>) -> Done<View> {
    let lines: Vec<&str> = content.split('\n').collect();
    if lines.len() > MAX_LINES {
        return Err(Refused::invalid(format!("File {path} exceeds maximum line limit of 999,999 lines.")));
    }
    let (first, last) = match range {
        None => (1, lines.len()),
        Some(range) => within(range, lines.len()).ok_or_else(|| {
            Refused::invalid(format!(
                "Error: Invalid `view_range` parameter: {}. It should be [first, last] within the lines of the file: \
                 [1, {}]; -1 as last means the end",
                cut(&format!("{range:?}")),
                lines.len()
            ))
        })?,
    };
    let mut text = format!("Here's the content of {path} with line numbers:");
    number(&mut text, &lines, first, last);
    Ok(View { text, whole: (first, last) == (1, lines.len()) })
}

/// First and last line, if the range lies in a file of so many.
fn within(range: &[i64], lines: usize) -> Option<(usize, usize)> {
    let [first, last] = *range else { return None };
    let first = usize::try_from(first).ok().filter(|first| (1..=lines).contains(first))?;
    let last = match last {
        -1 => lines,
        last => usize::try_from(last).ok()?.min(lines),
    };
    (first <= last).then_some((first, last))
}

/// Appends the lines from `first` to `last` (counting from 1), each on its own line.
fn number(text: &mut String, lines: &[&str], first: usize, last: usize) {
    for (index, line) in lines.iter().enumerate().take(last).skip(first.saturating_sub(1)) {
        text.push_str(&format!("\n{:>6}\t{line}", index + 1));
    }
}

/// The content with the only occurrence of `old` replaced, and the answer.
pub(super) fn replace(path: &FilePath, content: &str, old: &str, new: &str) -> Done<(String, String)> {
    let mut found = content.match_indices(old);
    let at = match (old.is_empty(), found.next(), found.next()) {
        (false, Some((at, _)), None) => at,
        (false, Some(_), Some(_)) => {
            let (lines, more) = occurrences(content, old);
            return Err(Refused::invalid(format!(
                "No replacement was performed. Multiple occurrences of old_str `{}` in lines: {}{}. Please ensure it is unique",
                cut(old),
                lines.join(", "),
                if more { ", …" } else { "" }
            )));
        }
        _ => {
            return Err(Refused::missing(format!(
                "No replacement was performed, old_str `{}` did not appear verbatim in {path}.",
                cut(old)
            )));
        }
    };
    let changed = content.replacen(old, new, 1);
    let before = content.get(..at).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let lines: Vec<&str> = changed.split('\n').collect();
    let last = line.saturating_add(CONTEXT).min(lines.len());
    let mut text = format!("{EDITED} Here is the snippet showing the change (with line numbers):");
    number(&mut text, &lines, line.saturating_sub(CONTEXT).max(1), last);
    Ok((changed, text))
}

/// The lines where `old` begins, including overlaps, and whether there are more than are named.
fn occurrences(content: &str, old: &str) -> (Vec<String>, bool) {
    let (mut lines, mut line, mut from) = (Vec::new(), 1, 0);
    let step = old.chars().next().map_or(1, char::len_utf8);
    while let Some(at) = content.get(from..).and_then(|rest| rest.find(old)) {
        if lines.len() == MAX_NAMED {
            return (lines, true);
        }
        line += content.get(from..from + at).map_or(0, |passed| passed.matches('\n').count());
        lines.push(line.to_string());
        let passed = content.get(from + at..from + at + step).unwrap_or_default();
        line += passed.matches('\n').count();
        from += at + step;
    }
    (lines, false)
}

/// The content with `text` inserted after a line, and the answer.
pub(super) fn insert(path: &FilePath, content: &str, line: i64, text: &str) -> Done<(String, String)> {
    let mut lines: Vec<&str> = content.split('\n').collect();
    if lines.last() == Some(&"") {
        lines.pop();
    }
    let Some(at) = usize::try_from(line).ok().filter(|at| *at <= lines.len()) else {
        return Err(Refused::invalid(format!(
            "Error: Invalid `insert_line` parameter: {line}. It should be within the range of lines of the file: [0, {}]",
            lines.len()
        )));
    };
    lines.insert(at, text.trim_end_matches('\n'));
    let mut changed = lines.join("\n");
    if !changed.ends_with('\n') {
        changed.push('\n');
    }
    Ok((changed, format!("The file {path} has been edited.")))
}

/// The files of a folder, given as `(path below the folder, bytes)`, two levels deep. Lists as many as fit into
/// `max_bytes`.
pub(super) fn listing(folder: &FilePath, files: &[(String, u64)], more: bool, max_bytes: usize) -> String {
    // A folder's name ends in a slash, so that it sorts before its contents and differs from a file of the same name.
    let mut lines: BTreeMap<&str, u64> = BTreeMap::new();
    let mut total = 0_u64;
    for (path, bytes) in files {
        total = total.saturating_add(*bytes);
        let names = path.split('/');
        if names.clone().any(|name| name.starts_with('.') || name == "node_modules") {
            continue;
        }
        let depth = names.count();
        let folders = path.match_indices('/').take(DEPTH).filter_map(|(at, _)| path.get(..=at));
        for folder in folders {
            let size = lines.entry(folder).or_default();
            *size = size.saturating_add(*bytes);
        }
        if depth <= DEPTH {
            lines.insert(path, *bytes);
        }
    }
    let mut text = format!(
        "Here're the files and directories up to 2 levels deep in {folder}, excluding hidden items and node_modules:\n{}\t{folder}",
        size(total)
    );
    let mut left = lines.len();
    for (path, bytes) in lines {
        // Keys written by other tools may contain anything.
        let line = format!("\n{}\t{folder}/{}", size(bytes), shown(path));
        if text.len() + line.len() > max_bytes.saturating_sub(200) {
            text.push_str(&format!("\n… {left} more; view a directory among these"));
            return text;
        }
        text.push_str(&line);
        left -= 1;
    }
    if more {
        text.push_str("\n… and more files; view a directory among these");
    }
    text
}

/// `812B`, `5.5K`, `1.2M`.
fn size(bytes: u64) -> String {
    let (mut unit, mut scale) = ("B", 1_u64);
    for next in ["K", "M", "G"] {
        if bytes / scale >= 1_024 {
            (unit, scale) = (next, scale * 1_024);
        }
    }
    let tenths = (bytes % scale).saturating_mul(10) / scale;
    match tenths {
        0 => format!("{}{unit}", bytes / scale),
        tenths => format!("{}.{tenths}{unit}", bytes / scale),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path() -> FilePath {
        FilePath::parse("/memories/a.txt").unwrap()
    }

    fn said<T>(done: Done<T>) -> String {
        match done {
            Err(Refused::Said(_, text)) => text,
            _ => panic!("not refused in the tool's words"),
        }
    }

    #[test]
    fn lines_are_numbered_in_six_columns() {
        let whole = view(&path(), "one\ntwo", None).unwrap();
        assert!(whole.whole);
        assert_eq!(
            whole.text,
            "Here's the content of /memories/a.txt with line numbers:\n     1\tone\n     2\ttwo"
        );
        let part = view(&path(), "1\n2\n3\n4", Some(&[2, 3])).unwrap();
        assert!(!part.whole && part.text.ends_with(":\n     2\t2\n     3\t3"), "{}", part.text);
        assert!(view(&path(), "1\n2\n3", Some(&[1, -1])).unwrap().whole);
        assert!(view(&path(), "1\n2\n3", Some(&[2, 99])).unwrap().text.ends_with("\n     3\t3"));
        for bad in [&[][..], &[1], &[0, 1], &[3, 2], &[5, 6], &[1, -2], &[1, 2, 3], &[i64::MIN, i64::MAX]] {
            assert!(said(view(&path(), "1\n2\n3", Some(bad))).contains("`view_range`"), "{bad:?}");
        }
        let many = "\n".repeat(999_999);
        assert_eq!(
            said(view(&path(), &many, None)),
            "File /memories/a.txt exceeds maximum line limit of 999,999 lines."
        );
    }

    #[test]
    fn a_replacement_needs_exactly_one_occurrence() {
        let (changed, answer) = replace(&path(), "1\n2\n3\nold\n5\n6\n7", "old", "new\nnewer").unwrap();
        assert_eq!(changed, "1\n2\n3\nnew\nnewer\n5\n6\n7");
        assert_eq!(
            answer,
            "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n     \
             2\t2\n     3\t3\n     4\tnew\n     5\tnewer\n     6\t5"
        );
        assert_eq!(
            said(replace(&path(), "abc", "x", "y")),
            "No replacement was performed, old_str `x` did not appear verbatim in /memories/a.txt."
        );
        assert_eq!(
            said(replace(&path(), "a\nb a\na", "a", "y")),
            "No replacement was performed. Multiple occurrences of old_str `a` in lines: 1, 2, 3. Please ensure it is unique"
        );
        assert!(said(replace(&path(), "éé\néé", "éé", "y")).contains("lines: 1, 2."));
        assert!(said(replace(&path(), &"a\n".repeat(500), "a", "y")).len() < 700);
        assert!(said(replace(&path(), "", "", "y")).contains("did not appear"));
    }

    #[test]
    fn text_goes_after_a_line() {
        for (content, line, inserted, changed) in [
            ("1\n2\n", 0, "x", "x\n1\n2\n"),
            ("1\n2\n", 1, "x\n", "1\nx\n2\n"),
            ("1\n2", 2, "x\n\n", "1\n2\nx\n"),
            ("", 0, "x", "x\n"),
            ("1\r\n2\r\n", 1, "x", "1\r\nx\n2\r\n"),
        ] {
            assert_eq!(insert(&path(), content, line, inserted).unwrap().0, changed);
        }
        assert_eq!(
            said(insert(&path(), "1\n2\n", 3, "x")),
            "Error: Invalid `insert_line` parameter: 3. It should be within the range of lines of the file: [0, 2]"
        );
        assert!(said(insert(&path(), "1", -1, "x")).contains("[0, 1]"));
    }

    #[test]
    fn a_listing_shows_two_levels_with_sizes() {
        let root = FilePath::parse("/memories").unwrap();
        let files: Vec<(String, u64)> = [
            ("a.md", 5_632),
            ("deep/b/c/d.md", 1),
            ("deep/b.md", 2),
            (".hidden", 9),
            ("x/.git/y", 9),
            ("node_modules/z", 9),
            ("big", 3 << 20),
            ("c\n9K\tforged\u{2028}", 1),
        ]
        .map(|(path, bytes)| (path.to_owned(), bytes))
        .into();
        assert_eq!(
            listing(&root, &files, false, 10_000),
            "Here're the files and directories up to 2 levels deep in /memories, excluding hidden items and node_modules:\n\
             3M\t/memories\n5.5K\t/memories/a.md\n3M\t/memories/big\n\
             1B\t/memories/c\\n9K\\tforged\\u{2028}\n3B\t/memories/deep/\n2B\t/memories/deep/b.md\n\
             1B\t/memories/deep/b/"
        );
        assert!(listing(&root, &[], false, 10_000).ends_with(":\n0B\t/memories"));
        assert!(listing(&root, &files, true, 10_000).contains("and more files"));
        let many: Vec<(String, u64)> = (0..5_000).map(|n| (format!("file-{n}"), n)).collect();
        let cut = listing(&root, &many, false, 16 << 10);
        assert!(cut.len() <= 16 << 10 && cut.contains(" more; view a directory"), "{}", cut.len());
        assert_eq!(
            [0, 1_023, 1_024, 1_536, 1_258_291, u64::MAX].map(size).join(" "),
            "0B 1023B 1K 1.5K 1.1M 17179869183.9G"
        );
    }
}
