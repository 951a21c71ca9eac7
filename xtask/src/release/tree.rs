//! A copy of the repository in which packages have the names they are published under.
//!
//! Folders, libraries and the names by which crates depend on each other stay as they are: `use memory_core::…` compiles
//! in the copy as it does here.

use std::fs;
use std::path::{Component, Path, PathBuf};

use toml::{Table, Value};

use super::{PREFIX, published, published_name};
use crate::Result;
use crate::workspace::{Member, Workspace};

/// What adopters use.
const FACADE: &str = "memory";
/// Its features on docs.rs: those that need no library of the system, and no runtime of their own.
const SHOWN: &[&str] = &[
    "sqlite",
    "sql",
    "postgres",
    "mem0",
    "mem9",
    "remote",
    "embed-openai",
    "embed-static",
    "chat-openai",
    "recall",
    "model",
    "governed",
    "hierarchical",
];

/// Files that a crate includes from outside its folder are copied into this folder of it.
const INCLUDED: &str = "included";

/// Writes the copy and returns its folder.
pub(super) fn copy(workspace: &Workspace) -> Result<PathBuf> {
    let tree = workspace.target.join("release-tree");
    if tree.exists() {
        fs::remove_dir_all(&tree)?;
    }
    for file in workspace.files()? {
        let to = tree.join(&file);
        fs::create_dir_all(to.parent().unwrap_or(&tree))?;
        fs::copy(workspace.root.join(&file), to)?;
    }
    edit(&tree.join("Cargo.toml"), |manifest| rename_table(workspace, manifest))?;
    for member in published(workspace) {
        let folder = folder(workspace, member)?;
        edit(&tree.join(&folder).join("Cargo.toml"), |manifest| prepare(workspace, member, manifest))?;
        for license in ["LICENSE-APACHE", "LICENSE-MIT"] {
            fs::copy(workspace.root.join(license), tree.join(&folder).join(license))?;
        }
        take_in(&tree, &folder)?;
    }
    let lock = fs::read_to_string(tree.join("Cargo.lock"))?;
    fs::write(
        tree.join("Cargo.lock"),
        rename_lock(&lock, published(workspace).map(|member| member.name.as_str())),
    )?;
    Ok(tree)
}

fn folder(workspace: &Workspace, member: &Member) -> Result<PathBuf> {
    let folder = member.manifest_path.parent().ok_or("a manifest has no folder")?;
    Ok(folder.strip_prefix(&workspace.root)?.to_owned())
}

fn edit(path: &Path, change: impl FnOnce(&mut Table) -> Result<()>) -> Result<()> {
    let mut manifest: Table = fs::read_to_string(path)?.parse()?;
    change(&mut manifest).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(fs::write(path, toml::to_string(&manifest)?)?)
}

fn table<'t>(parent: &'t mut Table, name: &str) -> Result<&'t mut Table> {
    let child = parent.entry(name).or_insert_with(|| Value::Table(Table::new()));
    child.as_table_mut().ok_or_else(|| format!("`{name}` is not a table").into())
}

/// In the table of versions: published members get their new name, others lose their version, so that Cargo leaves them out.
fn rename_table(workspace: &Workspace, manifest: &mut Table) -> Result<()> {
    let dependencies = table(table(manifest, "workspace")?, "dependencies")?;
    for member in &workspace.members {
        let Some(entry) = dependencies.get_mut(&member.name).and_then(Value::as_table_mut) else { continue };
        if member.is_published() {
            entry.insert("package".to_owned(), published_name(&member.name).into());
        } else {
            entry.remove("version");
        }
    }
    Ok(())
}

fn prepare(workspace: &Workspace, member: &Member, manifest: &mut Table) -> Result<()> {
    if member.has_library() {
        table(manifest, "lib")?.entry("name").or_insert_with(|| member.name.replace('-', "_").into());
    }
    let package = table(manifest, "package")?;
    if !package.contains_key("description") {
        return Err("a published crate needs a description".into());
    }
    package.insert("name".to_owned(), published_name(&member.name).into());
    for key in ["readme", "keywords", "categories"] {
        let inherited = Table::from_iter([("workspace".to_owned(), Value::Boolean(true))]);
        package.entry(key).or_insert(Value::Table(inherited));
    }
    package.insert(
        "documentation".to_owned(),
        format!("https://docs.rs/{}", published_name(&member.name)).into(),
    );
    let metadata = table(package, "metadata")?;
    let docs = table(table(metadata, "docs")?, "rs")?;
    docs.insert("targets".to_owned(), Value::Array(vec!["x86_64-unknown-linux-gnu".into()]));
    if member.name == FACADE {
        docs.insert(
            "features".to_owned(),
            Value::Array(SHOWN.iter().map(|feature| (*feature).into()).collect()),
        );
    }
    if member.name == super::archive::PACKAGE {
        let binstall = table(metadata, "binstall")?;
        binstall.insert("pkg-url".to_owned(), super::archive::URL.into());
        binstall.insert("pkg-fmt".to_owned(), "tgz".into());
        binstall.insert(
            "bin-dir".to_owned(),
            format!("{}/{{ bin }}{{ binary-ext }}", super::archive::STEM).into(),
        );
    }
    // A crate's tests may use crates that depend on it. Without a version Cargo leaves them out of the package.
    let Some(tests) = manifest.get_mut("dev-dependencies").and_then(Value::as_table_mut) else {
        return Ok(());
    };
    for (name, entry) in tests {
        let Some(other) = workspace.member(name) else { continue };
        let up = "../".repeat(folder(workspace, member)?.components().count());
        let entry = entry.as_table_mut().ok_or("a dependency is not a table")?;
        entry.remove("workspace");
        entry.insert("path".to_owned(), format!("{up}{}", folder(workspace, other)?.display()).into());
        if other.is_published() {
            entry.insert("package".to_owned(), published_name(name).into());
        }
    }
    Ok(())
}

/// Copies what sources include from outside the crate into it, and changes the paths.
fn take_in(tree: &Path, folder: &Path) -> Result<()> {
    let mut folders = vec![tree.join(folder).join("src")];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                take_in_file(&tree.join(folder), &path)?;
            }
        }
    }
    Ok(())
}

fn take_in_file(package: &Path, source: &Path) -> Result<()> {
    let text = fs::read_to_string(source)?;
    let (mut changed, mut rest) = (String::new(), text.as_str());
    while let Some((before, after)) = ["include_str!(\"", "include_bytes!(\""]
        .iter()
        .filter_map(|call| rest.find(call).map(|at| rest.split_at(at + call.len())))
        .min_by_key(|(before, _)| before.len())
    {
        let (path, after) = after.split_once('"').ok_or("an include without an end")?;
        let parent = source.parent().unwrap_or(package);
        let target = plain(&parent.join(path));
        changed.push_str(before);
        if target.starts_with(package) {
            changed.push_str(path);
        } else {
            let name = target.file_name().ok_or("an include of no file")?;
            fs::create_dir_all(package.join(INCLUDED))?;
            fs::copy(&target, package.join(INCLUDED).join(name))?;
            let depth = parent.strip_prefix(package)?.components().count();
            changed.push_str(&format!("{}{INCLUDED}/{}", "../".repeat(depth), name.to_string_lossy()));
        }
        changed.push('"');
        rest = after;
    }
    if !changed.is_empty() {
        fs::write(source, changed + rest)?;
    }
    Ok(())
}

/// The path without `..`.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        if part == Component::ParentDir {
            plain.pop();
        } else {
            plain.push(part);
        }
    }
    plain
}

/// Cargo would lock anew without the names; the versions of everything else must stay those that were tested.
fn rename_lock<'m>(lock: &str, members: impl Iterator<Item = &'m str>) -> String {
    members.fold(lock.to_owned(), |lock, name| {
        lock.replace(&format!("\"{name}\""), &format!("\"{PREFIX}-{name}\""))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_locked_member_is_renamed_and_nothing_else() {
        let lock = "name = \"memory\"\ndependencies = [\n \"memory-core\",\n \"memory-core-x\",\n]\n";
        let renamed = rename_lock(lock, ["memory", "memory-core"].into_iter());
        assert_eq!(
            renamed,
            "name = \"agentmem-memory\"\ndependencies = [\n \"agentmem-memory-core\",\n \"memory-core-x\",\n]\n"
        );
    }

    #[test]
    fn a_path_loses_its_parents() {
        assert_eq!(plain(Path::new("/a/b/../c/./d")), Path::new("/a/c/d"));
    }
}
