//! The layout of the source: no circular modules, no oversized file or folder, no access to an unchecked provider.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use syn::{ImplItem, Item, ReturnType, Type, Visibility};

use super::source::{self, Crate, Uses};
use crate::Result;
use crate::workspace::Workspace;

/// Lines a file may have.
const MAX_LINES: usize = 600;
/// Source files allowed in one folder, besides its `mod.rs` or `lib.rs`.
const MAX_FILES: usize = 15;
/// Crates whose providers the facade returns only behind `Checked`.
const BACKENDS: &[&str] =
    &["memory-sqlite", "memory-postgres", "memory-mem0", "memory-mem9", "memory-remote"];
const FACADE: &str = "memory";

/// No module of a crate depends on itself, directly or through others.
pub(crate) fn circles(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for member in &workspace.members {
        for root in member.roots() {
            let source = Crate::read(&workspace.root, root)?;
            let uses = source.uses();
            for circle in loops(source.files.len(), &uses) {
                wrong.push(described(&source, &uses, &circle));
            }
        }
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn described(source: &Crate, uses: &Uses, circle: &BTreeSet<usize>) -> String {
    let name =
        |file: usize| source.files.get(file).map(|file| file.display().to_string()).unwrap_or_default();
    let mut text = format!("{} files use each other in a circle:", circle.len());
    for ((from, to), names) in
        uses.iter().filter(|((from, to), _)| circle.contains(from) && circle.contains(to))
    {
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        text += &format!("\n  {} -> {}: {}", name(*from), name(*to), names.join(", "));
    }
    text
}

/// Sets of two or more files that reach each other.
fn loops(count: usize, uses: &Uses) -> Vec<BTreeSet<usize>> {
    let mut next: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (from, to) in uses.keys() {
        next.entry(*from).or_default().push(*to);
    }
    let reached = |start: usize| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
        while let Some(at) = open.pop() {
            for to in next.get(&at).into_iter().flatten() {
                if seen.insert(*to) {
                    open.push(*to);
                }
            }
        }
        seen
    };
    let reach: Vec<BTreeSet<usize>> = (0..count).map(reached).collect();
    let (mut found, mut placed) = (Vec::new(), BTreeSet::new());
    for (start, beyond) in reach.iter().enumerate().filter(|(start, beyond)| beyond.contains(start)) {
        if placed.contains(&start) {
            continue;
        }
        let back = |other: &usize| reach.get(*other).is_some_and(|beyond| beyond.contains(&start));
        let circle: BTreeSet<usize> = beyond.iter().copied().filter(back).collect();
        placed.extend(circle.iter().copied());
        found.push(circle);
    }
    found
}

/// No file or folder is larger than a reader can take in.
pub(crate) fn sizes(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    let mut folders: BTreeMap<PathBuf, usize> = BTreeMap::new();
    for file in workspace.files()?.iter().filter(|file| file.extension() == Some(OsStr::new("rs"))) {
        let lines = workspace.read(file)?.lines().count();
        if lines > MAX_LINES {
            wrong.push(format!("{}: {lines} lines, more than {MAX_LINES}", file.display()));
        }
        let is_source = file.components().any(|part| part.as_os_str() == "src");
        let is_face = matches!(file.file_stem().and_then(OsStr::to_str), Some("lib" | "main" | "mod"));
        if is_source && !is_face {
            let folder = file.parent().map(Path::to_path_buf).unwrap_or_default();
            *folders.entry(folder).or_default() += 1;
        }
    }
    let crowded = folders.into_iter().filter(|(_, files)| *files > MAX_FILES);
    wrong.extend(crowded.map(|(folder, files)| {
        format!("{}: {files} files beside each other, more than {MAX_FILES}", folder.display())
    }));
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

/// The facade's public functions and exports name no backend's provider: opened providers are always checked.
pub(crate) fn doors(workspace: &Workspace) -> Result<()> {
    let mut raw = BTreeSet::new();
    for backend in BACKENDS {
        for file in sources(workspace, backend)? {
            for item in source::items(&workspace.read(&file)?)? {
                raw.extend(provider(&item));
            }
        }
    }
    if raw.len() < BACKENDS.len() {
        return Err(format!("only {raw:?} implement Provider in {}", BACKENDS.join(", ")).into());
    }
    let mut wrong = Vec::new();
    for file in sources(workspace, FACADE)? {
        let mut handed = Vec::new();
        source::items(&workspace.read(&file)?)?.iter().for_each(|item| public(item, &mut handed));
        let names = handed.iter().flatten().filter(|name| raw.contains(*name));
        wrong.extend(names.map(|name| format!("{}: hands out {name}, unchecked", file.display())));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn sources(workspace: &Workspace, member: &str) -> Result<Vec<PathBuf>> {
    let folder = Path::new(member).join("src");
    let mut files = workspace.files()?;
    files.retain(|file| file.starts_with(&folder) && file.extension() == Some(OsStr::new("rs")));
    if files.is_empty() { Err(format!("{member} has no source").into()) } else { Ok(files) }
}

/// The type that an item implements `Provider` for, or its name for a `Proxy`, which is one.
fn provider(item: &Item) -> Option<String> {
    if let Item::Type(alias) = item
        && let Type::Path(own) = &*alias.ty
    {
        return (own.path.segments.last()?.ident == "Proxy").then(|| alias.ident.to_string());
    }
    let Item::Impl(item) = item else { return None };
    let (of, _) = item.trait_.as_ref()?;
    match &*item.self_ty {
        Type::Path(own) if of.segments.last()?.ident == "Provider" => {
            Some(own.path.segments.last()?.ident.to_string())
        }
        _ => None,
    }
}

/// The names in the return types of public functions, and in public exports.
fn public(item: &Item, handed: &mut Vec<Vec<String>>) {
    let is_public = |vis: &Visibility| matches!(vis, Visibility::Public(_));
    let words = |tokens: proc_macro2::TokenStream| -> Vec<String> {
        let text = tokens.to_string();
        text.split(|c: char| !c.is_alphanumeric() && c != '_').map(str::to_owned).collect()
    };
    let returned = |output: &ReturnType| match output {
        ReturnType::Default => Vec::new(),
        ReturnType::Type(_, ty) => words(quote::ToTokens::to_token_stream(&**ty)),
    };
    match item {
        Item::Fn(item) if is_public(&item.vis) => handed.push(returned(&item.sig.output)),
        Item::Impl(item) => {
            for item in &item.items {
                if let ImplItem::Fn(function) = item
                    && is_public(&function.vis)
                {
                    handed.push(returned(&function.sig.output));
                }
            }
        }
        Item::Use(item) if is_public(&item.vis) => {
            handed.push(words(quote::ToTokens::to_token_stream(&item.tree)));
        }
        Item::Type(item) if is_public(&item.vis) => {
            handed.push(words(quote::ToTokens::to_token_stream(&*item.ty)));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn uses(pairs: &[(usize, usize)]) -> Uses {
        pairs.iter().map(|pair| (*pair, BTreeSet::new())).collect()
    }

    #[test]
    fn files_that_reach_each_other_are_one_circle() {
        let found = loops(5, &uses(&[(0, 1), (1, 2), (2, 0), (2, 3), (3, 4)]));
        assert_eq!(found, [BTreeSet::from([0, 1, 2])]);
    }

    #[test]
    fn arrows_that_only_point_down_are_none() {
        assert_eq!(loops(3, &uses(&[(0, 1), (0, 2), (1, 2)])), Vec::<BTreeSet<usize>>::new());
    }

    fn circles_of(name: &str, files: &[(&str, &str)]) -> usize {
        let folder = std::env::temp_dir().join(format!("xtask-structure-{}-{name}", std::process::id()));
        for (name, text) in files {
            let file = folder.join(name);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(file, text).unwrap();
        }
        let source = Crate::read(&folder, &folder.join("lib.rs")).unwrap();
        std::fs::remove_dir_all(&folder).unwrap();
        loops(source.files.len(), &source.uses()).len()
    }

    #[test]
    fn a_module_and_its_part_are_no_circle_but_two_parts_may_be() {
        let parent =
            "mod left; mod right; use left::make; pub struct Whole; pub fn whole() -> Whole { make() }";
        let left = "use super::Whole; use super::right::Other; pub fn make() -> Whole { Whole }";
        let (apart, tied) = ("pub struct Other;", "pub struct Other; use super::left::make;");
        assert_eq!(circles_of("apart", &[("lib.rs", parent), ("left.rs", left), ("right.rs", apart)]), 0);
        assert_eq!(circles_of("tied", &[("lib.rs", parent), ("left.rs", left), ("right.rs", tied)]), 1);
    }

    #[test]
    fn a_parent_that_hands_on_what_its_children_make_is_none() {
        let parent = "mod left; mod right; pub use left::Left; pub use right::Right;";
        let left = "pub struct Left;";
        let right = "use super::Left; pub struct Right(Left); #[cfg(test)] mod tests { use crate::Right; }";
        assert_eq!(circles_of("reexport", &[("lib.rs", parent), ("left.rs", left), ("right.rs", right)]), 0);
    }

    #[test]
    fn a_path_inside_a_macro_or_through_an_imported_module_counts() {
        let left = "use crate::right; pub fn go() { right::back(); }";
        let right = "pub fn back() { println!(\"{:?}\", crate::left::go()); }";
        assert_eq!(
            circles_of(
                "macro",
                &[("lib.rs", "mod left; mod right;"), ("left.rs", left), ("right.rs", right)]
            ),
            1
        );
    }

    #[test]
    fn a_public_function_that_returns_a_provider_is_a_door() {
        let item = |text: &str| syn::parse_str::<Item>(text).unwrap();
        let mut handed = Vec::new();
        public(&item("pub fn open() -> Result<SqliteProvider> { todo!() }"), &mut handed);
        public(&item("pub(crate) fn inner() -> Raw { todo!() }"), &mut handed);
        assert!(handed.iter().flatten().any(|word| word == "SqliteProvider"));
        assert!(!handed.iter().flatten().any(|word| word == "Raw"));
        assert_eq!(provider(&item("impl Provider for SqliteProvider {}")).as_deref(), Some("SqliteProvider"));
    }
}
