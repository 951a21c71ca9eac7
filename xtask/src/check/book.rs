//! The documentation as a book, by mdBook: every page of the root and of `docs/`. A link to anything else of the repository
//! leads to where it is hosted.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::links::{self, Page};
use crate::workspace::Workspace;
use crate::{Result, process, tools};

const VERSION: &str = "0.5.4";
/// The page whose links give the chapters their order.
const CONTENTS: &str = "docs/README.md";
const INDEX: &str = "index.md";
/// Parts for the pages that it does not link to.
const PARTS: &[(&str, &str)] = &[("docs/spec", "Specification"), ("docs/adr", "Decisions"), ("", "More")];

pub(crate) fn build(workspace: &Workspace) -> Result<()> {
    let folder = workspace.target.join("book");
    let source = folder.join("src");
    if source.exists() {
        fs::remove_dir_all(&source)?;
    }
    let files = workspace.files()?;
    let is_part =
        |file: &&PathBuf| file.starts_with("docs") || (is_page(file) && file.parent() == Some(Path::new("")));
    let files: BTreeSet<&Path> = files.iter().filter(is_part).map(PathBuf::as_path).collect();
    let hosted = workspace.members.iter().find_map(|member| member.repository.as_deref());
    let hosted = hosted.ok_or("no member names its repository")?;
    for file in &files {
        let target = source.join(place(file));
        fs::create_dir_all(target.parent().unwrap_or(&source))?;
        if is_page(file) {
            fs::write(target, rewritten(workspace, &files, file, hosted)?)?;
        } else {
            fs::copy(workspace.root.join(file), target)?;
        }
    }
    fs::write(source.join("SUMMARY.md"), summary(workspace, &files)?)?;
    let settings = format!(
        "[book]\ntitle = \"memory\"\n[build]\nbuild-dir = \"html\"\ncreate-missing = false\n\
         [output.html]\ngit-repository-url = \"{hosted}\"\n"
    );
    fs::write(folder.join("book.toml"), settings)?;
    let mdbook = tools::pinned(workspace, "mdbook", VERSION, None, &["--no-default-features"])?;
    process::run(Command::new(mdbook).arg("build").arg(&folder))?;
    println!("{}", folder.join("html").join("index.html").display());
    Ok(())
}

/// Where a file stands in the book, whose first page of a folder is its index.
fn place(file: &Path) -> PathBuf {
    if file.ends_with("README.md") { file.with_file_name(INDEX) } else { file.to_owned() }
}

/// The page, with every link to what is not in the book made a link to the repository.
fn rewritten(workspace: &Workspace, files: &BTreeSet<&Path>, page: &Path, hosted: &str) -> Result<String> {
    let text = workspace.read(page)?;
    let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
    for (number, target) in Page::read(&text).links {
        let path = target.split('#').next().unwrap_or_default();
        let Some(file) = links::target_of(page, path) else { continue };
        let url = if files.contains(file.as_path()) {
            path.replace("README.md", INDEX)
        } else {
            let kind = if workspace.root.join(&file).is_dir() { "tree" } else { "blob" };
            format!("{hosted}/{kind}/main/{}", file.display())
        };
        if let Some(line) = lines.get_mut(number - 1) {
            *line = line.replace(&format!("]({path}"), &format!("]({url}"));
        }
    }
    Ok(lines.join("\n") + "\n")
}

/// The list of chapters, as mdBook reads it.
fn summary(workspace: &Workspace, files: &BTreeSet<&Path>) -> Result<String> {
    let contents = Path::new(CONTENTS);
    let linked = Page::read(&workspace.read(contents)?).links.into_iter();
    let linked = linked.filter_map(|(_, target)| links::target_of(contents, &target));
    let first = [PathBuf::from("README.md"), contents.to_owned()].into_iter().chain(linked);
    let mut left: BTreeSet<PathBuf> =
        files.iter().filter(|file| is_page(file)).map(|&file| file.to_owned()).collect();
    let mut parts = vec![("Summary", first.filter(|file| left.remove(file)).collect::<Vec<_>>())];
    for (folder, part) in PARTS {
        let found: Vec<_> = left.iter().filter(|file| file.starts_with(folder)).cloned().collect();
        left.retain(|file| !found.contains(file));
        parts.push((part, found));
    }
    let mut text = String::new();
    for (part, files) in parts.iter().filter(|(_, files)| !files.is_empty()) {
        writeln!(text, "\n# {part}\n")?;
        for file in files {
            let page = workspace.read(file)?;
            let title = page.lines().find_map(|line| line.strip_prefix("# "));
            let title = title.ok_or_else(|| format!("{} has no title", file.display()))?;
            writeln!(text, "- [{}]({})", title.replace(['[', ']'], ""), place(file).display())?;
        }
    }
    Ok(text)
}

fn is_page(file: &Path) -> bool {
    file.extension().is_some_and(|extension| extension == "md")
}
