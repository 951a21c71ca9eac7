//! The modules of a crate from its source: what each defines, imports and names. Parsed by `syn`, without a build.
//!
//! Test code is left out. Names made by macros are unknown; a path to one counts as a path to the module it goes
//! through.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use proc_macro2::{TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, Item, UseTree, Visibility};

use crate::Result;

/// How many re-exports are followed from a name to its definition.
const MAX_HOPS: usize = 16;

/// A module; `file` is an index into [`Crate::files`].
#[derive(Debug, Default)]
struct Module {
    file: usize,
    children: BTreeSet<String>,
    defines: BTreeSet<String>,
    imports: BTreeMap<String, Import>,
    globs: Vec<Vec<String>>,
    /// Paths in code, as written.
    paths: Vec<Vec<String>>,
}

#[derive(Clone, Debug)]
struct Import {
    path: Vec<String>,
    /// Only re-exported: the module itself may never use it.
    is_reexport: bool,
}

/// A crate's modules by path from its root.
#[derive(Debug)]
pub(crate) struct Crate {
    /// Relative to the workspace.
    pub(crate) files: Vec<PathBuf>,
    modules: BTreeMap<Vec<String>, Module>,
}

/// One file names what another defines.
pub(crate) type Uses = BTreeMap<(usize, usize), BTreeSet<String>>;

impl Crate {
    /// Reads the modules that `root` (`src/lib.rs`) declares, and theirs.
    pub(crate) fn read(workspace: &Path, root: &Path) -> Result<Self> {
        let mut this = Self { files: Vec::new(), modules: BTreeMap::new() };
        this.read_file(workspace, root, Vec::new())?;
        Ok(this)
    }

    fn read_file(&mut self, workspace: &Path, file: &Path, path: Vec<String>) -> Result<()> {
        let shown = file.strip_prefix(workspace).unwrap_or(file).to_owned();
        let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", shown.display()))?;
        let items = parse(&text).map_err(|error| format!("{}: {error}", shown.display()))?;
        let index = self.files.len();
        self.files.push(shown);
        let depth = path.len();
        for (child, at) in self.read_items(index, path, items) {
            let found = child_file(file, child.get(depth..).unwrap_or_default(), at.as_deref());
            let found =
                found.ok_or_else(|| format!("{}: no file for a module it declares", file.display()))?;
            self.read_file(workspace, &found, child)?;
        }
        Ok(())
    }

    /// Records the items of a module; returns the modules with files of their own.
    fn read_items(
        &mut self,
        file: usize,
        path: Vec<String>,
        items: Vec<Item>,
    ) -> Vec<(Vec<String>, Option<String>)> {
        let mut module = Module { file, ..Module::default() };
        let mut below = Vec::new();
        for item in items.into_iter().filter(|item| !is_test(attributes(item))) {
            match item {
                Item::Mod(item) => {
                    let name = item.ident.to_string();
                    let child: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
                    module.children.insert(name);
                    match item.content {
                        Some((_, items)) => below.extend(self.read_items(file, child, items)),
                        None => below.push((child, path_attribute(&item.attrs))),
                    }
                }
                Item::Use(item) => {
                    let is_reexport = !matches!(item.vis, Visibility::Inherited);
                    module.import(&item.tree, &mut Vec::new(), is_reexport);
                }
                item => {
                    module.defines.extend(defined(&item));
                    let mut reader = Reader { module: &mut module };
                    reader.visit_item(&item);
                }
            }
        }
        self.modules.insert(path, module);
        below
    }

    /// Which file names what of which other, ignoring enclosing modules.
    pub(crate) fn uses(&self) -> Uses {
        let mut uses = Uses::new();
        for (path, module) in &self.modules {
            let imported = module.imports.values().filter(|import| !import.is_reexport);
            for named in imported.map(|import| &import.path).chain(&module.paths).chain(&module.globs) {
                let Some(file) = self.file_of(path, named, 0) else { continue };
                if file != module.file && !self.is_above(file, path) {
                    let name = named.last().cloned().unwrap_or_default();
                    uses.entry((module.file, file)).or_default().insert(name);
                }
            }
        }
        uses
    }

    /// Whether a file holds a module that encloses `path`. A module and the one around it depend on each other by
    /// nature: they are one thing split into files.
    fn is_above(&self, file: usize, path: &[String]) -> bool {
        (0..path.len()).any(|depth| {
            let above = path.get(..depth).and_then(|above| self.modules.get(above));
            above.is_some_and(|module| module.file == file)
        })
    }

    /// The file that defines what a path names; `None` for other crates, or for a module as such.
    fn file_of(&self, from: &[String], named: &[String], hops: usize) -> Option<usize> {
        if hops > MAX_HOPS {
            return None;
        }
        let (first, rest) = named.split_first()?;
        let module = self.modules.get(from)?;
        match first.as_str() {
            "crate" => self.inside(&[], rest, hops),
            "self" => self.inside(from, rest, hops),
            "super" => self.inside(from.split_last()?.1, rest, hops),
            name => {
                if let Some(import) = module.imports.get(name) {
                    let whole: Vec<String> = import.path.iter().chain(rest).cloned().collect();
                    // `use memory;` names a crate, not itself.
                    return if whole == named { None } else { self.file_of(from, &whole, hops + 1) };
                }
                if module.children.contains(name) || module.defines.contains(name) {
                    return self.inside(from, named, hops);
                }
                module.globs.iter().find_map(|glob| self.through_glob(from, glob, named, hops))
            }
        }
    }

    fn inside(&self, at: &[String], rest: &[String], hops: usize) -> Option<usize> {
        let (first, below) = rest.split_first()?;
        let module = self.modules.get(at)?;
        if first == "super" {
            return self.inside(at.split_last()?.1, below, hops);
        }
        if module.children.contains(first) {
            let child: Vec<String> = at.iter().cloned().chain([first.clone()]).collect();
            return self.inside(&child, below, hops);
        }
        if module.defines.contains(first) {
            return Some(module.file);
        }
        if let Some(import) = module.imports.get(first) {
            let whole: Vec<String> = import.path.iter().chain(below).cloned().collect();
            return self.file_of(at, &whole, hops + 1);
        }
        module
            .globs
            .iter()
            .find_map(|glob| self.through_glob(at, glob, rest, hops))
            // Made by a macro of the module.
            .or(Some(module.file))
    }

    fn through_glob(&self, at: &[String], glob: &[String], rest: &[String], hops: usize) -> Option<usize> {
        let target = glob.split_last()?.1;
        let whole: Vec<String> = target.iter().chain(rest).cloned().collect();
        let module = self.module_of(at, target)?;
        let first = rest.first()?;
        let known = self.modules.get(&module)?;
        let has = known.children.contains(first)
            || known.defines.contains(first)
            || known.imports.contains_key(first);
        if has { self.file_of(at, &whole, hops + 1) } else { None }
    }

    fn module_of(&self, at: &[String], named: &[String]) -> Option<Vec<String>> {
        let mut path = at.to_vec();
        for segment in named {
            match segment.as_str() {
                "crate" => path.clear(),
                "self" => {}
                "super" => drop(path.pop()?),
                name => path.push(name.to_owned()),
            }
        }
        self.modules.contains_key(&path).then_some(path)
    }
}

impl Module {
    fn import(&mut self, tree: &UseTree, before: &mut Vec<String>, is_reexport: bool) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.import(&path.tree, before, is_reexport);
                before.pop();
            }
            UseTree::Name(name) if name.ident == "self" => {
                if let Some(last) = before.last().cloned() {
                    self.imports.insert(last, Import { path: before.clone(), is_reexport });
                }
            }
            UseTree::Name(name) => {
                self.import_as(&name.ident.to_string(), &name.ident.to_string(), before, is_reexport);
            }
            UseTree::Rename(rename) => {
                self.import_as(&rename.ident.to_string(), &rename.rename.to_string(), before, is_reexport);
            }
            UseTree::Glob(_) => self.globs.push(before.iter().cloned().chain(["*".to_owned()]).collect()),
            UseTree::Group(group) => {
                group.items.iter().for_each(|tree| self.import(tree, before, is_reexport));
            }
        }
    }

    fn import_as(&mut self, name: &str, shown: &str, before: &[String], is_reexport: bool) {
        let path: Vec<String> = before.iter().cloned().chain([name.to_owned()]).collect();
        if shown == "_" {
            self.paths.push(path);
        } else {
            self.imports.insert(shown.to_owned(), Import { path, is_reexport });
        }
    }
}

/// Collects the paths in an item.
struct Reader<'m> {
    module: &'m mut Module,
}

impl<'ast> Visit<'ast> for Reader<'_> {
    fn visit_path(&mut self, path: &'ast syn::Path) {
        if path.leading_colon.is_none() {
            self.module.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    // `pub(in crate::there)` is not a use.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}

    fn visit_item(&mut self, item: &'ast Item) {
        if !is_test(attributes(item)) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_test(&function.attrs) {
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.module.import(&item.tree, &mut Vec::new(), false);
    }

    fn visit_macro(&mut self, found: &'ast syn::Macro) {
        visit::visit_macro(self, found);
        self.paths_in(found.tokens.clone());
    }
}

impl Reader<'_> {
    /// Paths among tokens: names with `::` between them.
    fn paths_in(&mut self, tokens: TokenStream) {
        let mut path = Vec::new();
        let mut colons = 0;
        for token in tokens {
            match token {
                TokenTree::Ident(name) => {
                    if colons != 2 {
                        self.note(&mut path);
                    }
                    path.push(name.to_string());
                    colons = 0;
                }
                TokenTree::Punct(mark) if mark.as_char() == ':' => colons += 1,
                TokenTree::Group(group) => {
                    self.note(&mut path);
                    colons = 0;
                    self.paths_in(group.stream());
                }
                TokenTree::Punct(_) | TokenTree::Literal(_) => {
                    self.note(&mut path);
                    colons = 0;
                }
            }
        }
        self.note(&mut path);
    }

    fn note(&mut self, path: &mut Vec<String>) {
        if !path.is_empty() {
            self.module.paths.push(std::mem::take(path));
        }
    }
}

fn parse(text: &str) -> syn::Result<Vec<Item>> {
    Ok(syn::parse_file(text)?.items)
}

/// The items of a file that are not test code.
pub(crate) fn items(text: &str) -> syn::Result<Vec<Item>> {
    Ok(parse(text)?.into_iter().filter(|item| !is_test(attributes(item))).collect())
}

fn is_test(attributes: &[Attribute]) -> bool {
    attributes.iter().any(|attribute| {
        attribute.path().is_ident("test")
            || attribute.path().is_ident("cfg")
                && attribute.meta.require_list().is_ok_and(|list| {
                    let words = list.tokens.to_string();
                    words == "test" || words.starts_with("all (test") || words.starts_with("all(test")
                })
    })
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Const(item) => &item.attrs,
        Item::Enum(item) => &item.attrs,
        Item::Fn(item) => &item.attrs,
        Item::Impl(item) => &item.attrs,
        Item::Macro(item) => &item.attrs,
        Item::Mod(item) => &item.attrs,
        Item::Static(item) => &item.attrs,
        Item::Struct(item) => &item.attrs,
        Item::Trait(item) => &item.attrs,
        Item::Type(item) => &item.attrs,
        Item::Union(item) => &item.attrs,
        Item::Use(item) => &item.attrs,
        _ => &[],
    }
}

fn defined(item: &Item) -> Option<String> {
    let name = match item {
        Item::Const(item) => &item.ident,
        Item::Enum(item) => &item.ident,
        Item::Fn(item) => &item.sig.ident,
        Item::Macro(item) => item.ident.as_ref()?,
        Item::Static(item) => &item.ident,
        Item::Struct(item) => &item.ident,
        Item::Trait(item) => &item.ident,
        Item::Type(item) => &item.ident,
        Item::Union(item) => &item.ident,
        _ => return None,
    };
    Some(name.to_string())
}

fn path_attribute(attributes: &[Attribute]) -> Option<String> {
    let attribute = attributes.iter().find(|attribute| attribute.path().is_ident("path"))?;
    match &attribute.meta.require_name_value().ok()?.value {
        syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) => Some(text.value()),
        _ => None,
    }
}

/// The file of a module that `parent` declares; `child` is its path from there, through inline modules.
fn child_file(parent: &Path, child: &[String], at: Option<&str>) -> Option<PathBuf> {
    let folder = parent.parent()?;
    if let Some(at) = at {
        return Some(folder.join(at));
    }
    let stem = parent.file_stem()?.to_str()?;
    let is_root = matches!(stem, "lib" | "main" | "mod");
    let base = if is_root { folder.to_owned() } else { folder.join(stem) };
    let (name, inline) = child.split_last()?;
    let base = inline.iter().fold(base, |base, name| base.join(name));
    [base.join(format!("{name}.rs")), base.join(name).join("mod.rs")].into_iter().find(|file| file.is_file())
}
