//! Checks that the pages exist and that their links within the repository work.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};

use crate::Result;
use crate::workspace::Workspace;

/// Pages a visitor expects at the root, and the entry pages of docs/.
const PAGES: &[&str] = &[
    "README.md",
    "CHANGELOG.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "LICENSE-MIT",
    "LICENSE-APACHE",
    "docs/README.md",
    "docs/adr/0001-record-decisions.md",
];

pub(crate) fn pages(workspace: &Workspace) -> Result<()> {
    let missing: Vec<&str> =
        PAGES.iter().copied().filter(|page| !workspace.root.join(page).is_file()).collect();
    if missing.is_empty() { Ok(()) } else { Err(format!("missing: {}", missing.join(", ")).into()) }
}

/// Every relative link of a Markdown page leads to a file or folder, its anchor to a heading, and every page named as
/// `docs/….md` in source or prose exists.
pub(crate) fn links(workspace: &Workspace) -> Result<()> {
    let files = workspace.files()?;
    let mut pages = BTreeMap::new();
    for file in files.iter().filter(|file| has_extension(file, "md")) {
        pages.insert(file.clone(), Page::read(&workspace.read(file)?));
    }
    let mut wrong = Vec::new();
    let mut followed = 0_usize;
    for (file, page) in &pages {
        for (number, target) in &page.links {
            followed += 1;
            if let Some(fault) = fault(workspace, &pages, file, target) {
                wrong.push(format!("{}:{number}: ({target}) {fault}", file.display()));
            }
        }
    }
    for file in files.iter().filter(|file| has_extension(file, "md") || has_extension(file, "rs")) {
        for (number, line) in workspace.read(file)?.lines().enumerate() {
            for named in pages_named(line) {
                followed += 1;
                if !workspace.root.join(named).is_file() {
                    wrong.push(format!("{}:{}: {named} does not exist", file.display(), number + 1));
                }
            }
        }
    }
    println!("{followed} links and page names in {} pages", pages.len());
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn has_extension(file: &Path, wanted: &str) -> bool {
    file.extension().is_some_and(|extension| extension == wanted)
}

fn fault(
    workspace: &Workspace,
    pages: &BTreeMap<PathBuf, Page>,
    from: &Path,
    target: &str,
) -> Option<String> {
    if is_elsewhere(target) {
        return None;
    }
    let (path, anchor) = target.split_once('#').map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let Some(file) = file_of(from, path) else { return Some("leads out of the repository".to_owned()) };
    if !workspace.root.join(&file).exists() {
        return Some(format!("{} does not exist", file.display()));
    }
    let anchor = anchor?;
    match pages.get(&file) {
        Some(page) if !page.anchors.contains(anchor) => {
            Some(format!("{} has no such heading", file.display()))
        }
        _ => None,
    }
}

/// The file that a link of a page leads to, if it is of the repository.
pub(super) fn target_of(from: &Path, target: &str) -> Option<PathBuf> {
    let path = target.split('#').next().unwrap_or_default();
    if is_elsewhere(target) { None } else { file_of(from, path) }
}

fn is_elsewhere(target: &str) -> bool {
    target.contains("://") || target.starts_with("mailto:")
}

fn file_of(from: &Path, path: &str) -> Option<PathBuf> {
    if path.is_empty() {
        return Some(from.to_owned());
    }
    within(&from.parent().unwrap_or(Path::new("")).join(path))
}

/// The path without `.` and `..`, or `None` if it leaves the root.
fn within(path: &Path) -> Option<PathBuf> {
    let mut clean = PathBuf::new();
    for part in path.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir => {
                if !clean.pop() {
                    return None;
                }
            }
            Component::Normal(name) => clean.push(name),
            Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(clean)
}

/// Page names such as `docs/adr/template.md` in a line of text; a name that continues another path is not one.
fn pages_named(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("docs/").filter_map(|(at, _)| {
        let before = line.get(..at)?.chars().next_back();
        if before.is_some_and(|c| c.is_alphanumeric() || matches!(c, '/' | '.' | '-' | '_')) {
            return None;
        }
        let rest = line.get(at..)?;
        let end =
            rest.find(|c: char| !(c.is_ascii_alphanumeric() || "/._-".contains(c))).unwrap_or(rest.len());
        let name = rest.get(..end)?.trim_end_matches('.');
        name.ends_with(".md").then_some(name)
    })
}

/// The links of a Markdown page, and its anchors.
#[derive(Debug, Default)]
pub(super) struct Page {
    /// Line number and target.
    pub(super) links: Vec<(usize, String)>,
    anchors: BTreeSet<String>,
}

impl Page {
    pub(super) fn read(text: &str) -> Self {
        let mut page = Self::default();
        let mut fence: Option<&str> = None;
        let mut times_seen: BTreeMap<String, usize> = BTreeMap::new();
        for (number, line) in text.lines().enumerate() {
            let trimmed = line.trim_start();
            if let Some(open) = fence {
                if trimmed.starts_with(open) {
                    fence = None;
                }
                continue;
            }
            fence = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
            if fence.is_some() {
                continue;
            }
            if let Some(heading) = heading(line) {
                let slug = slug(heading);
                let seen = times_seen.entry(slug.clone()).or_default();
                page.anchors.insert(if *seen == 0 { slug } else { format!("{slug}-{seen}") });
                *seen += 1;
            }
            let prose = without_code(line);
            for id in between(&prose, "id=\"", "\"").chain(between(&prose, "name=\"", "\"")) {
                page.anchors.insert(id.to_owned());
            }
            for target in between(&prose, "](", ")") {
                // `](path "title")` and `](<path>)` are links too.
                let target = target.split_whitespace().next().unwrap_or_default().trim_matches(['<', '>']);
                if !target.is_empty() {
                    page.links.push((number + 1, target.to_owned()));
                }
            }
        }
        page
    }
}

fn heading(line: &str) -> Option<&str> {
    let text = line.trim_start_matches('#');
    let depth = line.len() - text.len();
    if (1..=6).contains(&depth) { text.strip_prefix(' ').map(str::trim) } else { None }
}

/// The anchor that a forge derives from a heading: lower case, punctuation dropped, spaces to hyphens.
fn slug(heading: &str) -> String {
    heading
        .chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
            _ => None,
        })
        .flat_map(char::to_lowercase)
        .collect()
}

/// The line without code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect()
}

fn between<'t>(text: &'t str, open: &'static str, close: &'static str) -> impl Iterator<Item = &'t str> {
    text.split(open).skip(1).filter_map(move |rest| rest.split_once(close).map(|(inside, _)| inside))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_read_outside_code_only() {
        let page = Page::read(
            "# A title\n[one](sub/a.md) and [two](b.md#part \"title\")\n`[no](code.md)`\n\
             ```\n[no](fenced.md)\n```\n[three](<c.md>)\n",
        );
        let targets: Vec<&str> = page.links.iter().map(|(_, target)| target.as_str()).collect();
        assert_eq!(targets, ["sub/a.md", "b.md#part", "c.md"]);
    }

    #[test]
    fn anchors_are_made_as_a_forge_makes_them() {
        let page = Page::read("# What it is\n## `kv.set`: the rule!\n## Same\n## Same\n<a id=\"B-1\"></a>\n");
        for anchor in ["what-it-is", "kvset-the-rule", "same", "same-1", "B-1"] {
            assert!(page.anchors.contains(anchor), "{anchor} in {:?}", page.anchors);
        }
    }

    #[test]
    fn a_path_that_climbs_above_the_root_is_refused() {
        assert_eq!(within(Path::new("sub/../README.md")), Some(PathBuf::from("README.md")));
        assert_eq!(within(Path::new("sub/../../x.md")), None);
        assert_eq!(within(Path::new("/x.md")), None);
    }

    #[test]
    fn pages_named_in_prose_or_source_are_found() {
        let named: Vec<&str> =
            pages_named("see docs/README.md. Not ../docs/x.md, docs/, docs/….md").collect();
        assert_eq!(named, ["docs/README.md"]);
    }
}
