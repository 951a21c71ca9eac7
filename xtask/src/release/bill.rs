//! What the binary is made of, with the model that it carries: a bill of materials in the form of CycloneDX, and the licences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use toml::Table;

use super::archive::{PACKAGE, PLATFORM};
use super::published_name;
use crate::check::product;
use crate::workspace::Workspace;
use crate::{Result, process};

#[derive(Deserialize)]
struct Metadata {
    packages: Vec<Package>,
    resolve: Resolve,
}

#[derive(Deserialize)]
struct Package {
    id: String,
    name: String,
    version: String,
    license: Option<String>,
    license_file: Option<String>,
    manifest_path: PathBuf,
    source: Option<String>,
}

impl Package {
    /// As registries know it: members have no source.
    fn public_name(&self) -> String {
        if self.source.is_some() { self.name.clone() } else { published_name(&self.name) }
    }

    /// The text of its licence, where it names a file and no expression.
    fn own_licence(&self) -> Result<Option<String>> {
        let Some(file) = self.license_file.as_ref().filter(|_| self.license.is_none()) else {
            return Ok(None);
        };
        let path = self.manifest_path.with_file_name(file);
        let text = std::fs::read_to_string(&path);
        text.map(Some).map_err(|error| format!("{}: {error}", path.display()).into())
    }

    /// Licences and notices that came with it, which whoever passes the binary on must pass on too.
    fn notices(&self) -> Result<BTreeSet<String>> {
        let mut texts: BTreeSet<String> = self.own_licence()?.into_iter().collect();
        let folder = self.manifest_path.parent().ok_or("a manifest without a folder")?;
        if self.source.is_some() && folder.is_dir() {
            for file in std::fs::read_dir(folder)? {
                let file = file?;
                let name = file.file_name().to_string_lossy().to_uppercase();
                if NOTICES.iter().any(|begin| name.starts_with(begin)) && file.file_type()?.is_file() {
                    texts.insert(String::from_utf8_lossy(&std::fs::read(file.path())?).into_owned());
                }
            }
        }
        Ok(texts.iter().map(|text| text.replace("\r\n", "\n").trim().to_owned()).collect())
    }
}

/// What the names of files with licences begin with, in capitals.
const NOTICES: [&str; 6] = ["LICENSE", "LICENCE", "UNLICENSE", "COPYING", "COPYRIGHT", "NOTICE"];

/// The embedding model that the binary carries.
struct Model {
    name: String,
    revision: String,
    sum: String,
}

/// The package whose data it is, and its licence (`memory-model/make/README.md`).
const MODEL_PACKAGE: &str = "memory-model";
const MODEL_LICENCE: &str = "MIT OR Apache-2.0";
/// What parts of it were taken from, with their licence.
const MODEL_ORIGIN: (&str, &str) = ("all-MiniLM-L6-v2", "Apache-2.0");

impl Model {
    /// By the head of its file: `MSM1`, four numbers of which the third is the length of the name, and the name, `NAME@REVISION`.
    fn read(file: &[u8]) -> Result<Self> {
        let named = || {
            let length = file.strip_prefix(b"MSM1")?.get(8..12)?.first_chunk()?;
            let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
            std::str::from_utf8(file.get(20..)?.get(..length)?).ok()?.split_once('@')
        };
        let (name, revision) =
            named().ok_or("the embedding model's file does not say its name and revision")?;
        let sum = Sha256::digest(file).iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(Self { name: name.to_owned(), revision: revision.to_owned(), sum })
    }

    fn reference(&self) -> String {
        format!("model:{}@{}", self.name, self.revision)
    }

    fn component(&self) -> Value {
        let (origin, licence) = MODEL_ORIGIN;
        json!({
            "type": "machine-learning-model", "bom-ref": self.reference(), "name": self.name, "version": self.revision,
            "licenses": [{ "expression": MODEL_LICENCE }],
            "hashes": [{ "alg": "SHA-256", "content": self.sum }],
            "pedigree": { "ancestors": [{
                "type": "machine-learning-model", "name": origin, "licenses": [{ "expression": licence }],
            }] },
        })
    }
}

#[derive(Deserialize)]
struct Resolve {
    nodes: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    id: String,
    deps: Vec<Link>,
}

#[derive(Deserialize)]
struct Link {
    pkg: String,
    dep_kinds: Vec<Kind>,
}

#[derive(Deserialize)]
struct Kind {
    kind: Option<String>,
}

/// Writes `memory.cdx.json` and `licences.txt`.
pub(super) fn write(workspace: &Workspace, out: &Path) -> Result<()> {
    let mut cargo = workspace.cargo();
    cargo.args(["metadata", "--format-version", "1", "--locked", "--filter-platform", PLATFORM]);
    let metadata: Metadata = serde_json::from_str(&process::capture(&mut cargo)?)?;
    let sums = checksums(&workspace.read(Path::new("Cargo.lock"))?)?;
    let parts = parts(&metadata)?;
    let model = Model::read(&std::fs::read(workspace.root.join(product::MODEL))?)?;
    std::fs::write(
        out.join("memory.cdx.json"),
        serde_json::to_string_pretty(&bill(&parts, &sums, &model)?)?,
    )?;
    std::fs::write(out.join("licences.txt"), licences(&parts, &model)?)?;
    println!("bill of materials: {} packages in {}", parts.len(), out.join("memory.cdx.json").display());
    Ok(())
}

/// A package with what it depends on.
type Parts<'m> = BTreeMap<(&'m str, &'m str), (&'m Package, BTreeSet<String>)>;

/// Everything that the binary is built from, without what tests use.
fn parts(metadata: &Metadata) -> Result<Parts<'_>> {
    let packages: BTreeMap<&str, &Package> =
        metadata.packages.iter().map(|each| (each.id.as_str(), each)).collect();
    let nodes: BTreeMap<&str, &Node> =
        metadata.resolve.nodes.iter().map(|node| (node.id.as_str(), node)).collect();
    let root =
        metadata.packages.iter().find(|package| package.name == PACKAGE).ok_or("no package of the binary")?;
    let (mut parts, mut next) = (Parts::new(), vec![root.id.as_str()]);
    while let Some(id) = next.pop() {
        let package = packages.get(id).ok_or("a package is missing")?;
        if parts.contains_key(&(package.name.as_str(), package.version.as_str())) {
            continue;
        }
        let mut links = BTreeSet::new();
        for link in nodes.get(id).map_or(&[][..], |node| &node.deps) {
            if link.dep_kinds.iter().any(|each| each.kind.as_deref() != Some("dev")) {
                links.insert(purl(packages.get(link.pkg.as_str()).ok_or("a package is missing")?));
                next.push(&link.pkg);
            }
        }
        parts.insert((&package.name, &package.version), (package, links));
    }
    Ok(parts)
}

/// Older manifests divide alternatives by `/`, which is not SPDX.
fn spdx(license: &str) -> String {
    license.split('/').map(str::trim).collect::<Vec<_>>().join(" OR ")
}

fn purl(package: &Package) -> String {
    format!("pkg:cargo/{}@{}", package.public_name(), package.version)
}

fn bill(parts: &Parts<'_>, sums: &BTreeMap<(String, String), String>, model: &Model) -> Result<Value> {
    let component = |package: &Package, kind: &str| -> Result<Value> {
        let sum = sums.get(&(package.name.clone(), package.version.clone()));
        let expression = package.license.iter().map(|license| json!({ "expression": spdx(license) }));
        let own = package.own_licence()?.map(|text| {
            json!({ "license": { "name": format!("licence of {}", package.name), "text": { "content": text } } })
        });
        Ok(json!({
            "type": kind, "bom-ref": purl(package), "name": package.public_name(), "version": package.version,
            "purl": purl(package), "licenses": expression.chain(own).collect::<Vec<_>>(),
            "hashes": sum.iter().map(|sum| json!({ "alg": "SHA-256", "content": sum })).collect::<Vec<_>>(),
        }))
    };
    let (root, _) =
        parts.values().find(|(package, _)| package.name == PACKAGE).ok_or("no package of the binary")?;
    let others = parts.values().filter(|(package, _)| package.name != PACKAGE);
    let components = others.map(|(package, _)| component(package, "library"));
    let components = components.chain([Ok(model.component())]).collect::<Result<Vec<Value>>>()?;
    let links = parts.values().map(|(package, links)| {
        let mut links = links.clone();
        if package.name == MODEL_PACKAGE {
            links.insert(model.reference());
        }
        json!({ "ref": purl(package), "dependsOn": links })
    });
    let dependencies: Vec<Value> = links.collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": component(root, "application")? },
        "components": components, "dependencies": dependencies,
    }))
}

/// Each licence with its packages, then every text that came with them, once. A package from a registry without a licence is an error.
fn licences(parts: &Parts<'_>, model: &Model) -> Result<String> {
    let mut by_licence = BTreeMap::<String, Vec<String>>::new();
    let mut texts = BTreeMap::<String, Vec<String>>::new();
    for (package, _) in parts.values() {
        let name = format!("{} {}", package.public_name(), package.version);
        let licence = match (&package.license, package.own_licence()?) {
            (Some(license), _) => spdx(license),
            (None, Some(_)) => "its own licence, below".to_owned(),
            (None, None) if package.source.is_none() => continue,
            (None, None) => return Err(format!("{name} names no licence").into()),
        };
        for text in package.notices()? {
            texts.entry(text).or_default().push(name.clone());
        }
        by_licence.entry(licence).or_default().push(name);
    }
    let named = format!("the embedding model {} {}", model.name, model.revision);
    let (origin, licence) = MODEL_ORIGIN;
    by_licence
        .entry(licence.to_owned())
        .or_default()
        .push(format!("{origin}, of which {named} has the vocabulary"));
    by_licence.entry(MODEL_LICENCE.to_owned()).or_default().push(named);
    let text =
        by_licence.into_iter().map(|(license, names)| format!("{license}\n    {}\n", names.join("\n    ")));
    let texts =
        texts.into_iter().map(|(text, names)| format!("\nThe licence of {}:\n\n{text}\n", names.join(", ")));
    Ok(text.collect::<Vec<_>>().join("\n") + &texts.collect::<String>())
}

fn checksums(lock: &str) -> Result<BTreeMap<(String, String), String>> {
    let lock: Table = lock.parse()?;
    let packages = lock.get("package").and_then(toml::Value::as_array).ok_or("Cargo.lock has no packages")?;
    let text =
        |package: &toml::Value, key: &str| package.get(key).and_then(toml::Value::as_str).map(str::to_owned);
    Ok(packages
        .iter()
        .filter_map(|each| Some(((text(each, "name")?, text(each, "version")?), text(each, "checksum")?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, source: Value) -> Value {
        json!({
            "id": name, "name": name, "version": "1.0.0", "license": "MIT", "license_file": null, "source": source,
            "manifest_path": "/none/Cargo.toml",
        })
    }

    fn model() -> Model {
        Model::read(b"MSM1\x01\0\0\0\x02\0\0\0\x06\0\0\0\x01\0\0\0tiny@7 and the rest").unwrap()
    }

    fn metadata(packages: &[Value], nodes: Value) -> Metadata {
        serde_json::from_value(json!({ "packages": packages, "resolve": { "nodes": nodes } })).unwrap()
    }

    #[test]
    fn members_have_the_names_under_which_they_are_published() {
        let link = json!({ "pkg": "serde", "dep_kinds": [{ "kind": null }] });
        let metadata = metadata(
            &[package(PACKAGE, Value::Null), package("serde", json!("registry+x"))],
            json!([{ "id": PACKAGE, "deps": [link] }, { "id": "serde", "deps": [] }]),
        );
        let parts = parts(&metadata).unwrap();
        let bill = bill(&parts, &BTreeMap::new(), &model()).unwrap();
        let root = &bill["metadata"]["component"];
        assert_eq!(
            (&root["name"], &root["purl"]),
            (&json!("agentmem-memory-server"), &json!("pkg:cargo/agentmem-memory-server@1.0.0"))
        );
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/serde@1.0.0");
        assert!(licences(&parts, &model()).unwrap().contains("agentmem-memory-server 1.0.0"));
    }

    /// The list said only that the package has a file.
    #[test]
    fn a_licence_that_only_a_file_has_is_given_in_full() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("LICENSE"), "Permission is granted.\n").unwrap();
        let mut odd = package("odd", json!("registry+x"));
        (odd["license"], odd["license_file"]) = (Value::Null, json!("LICENSE"));
        odd["manifest_path"] = json!(folder.path().join("Cargo.toml"));
        let link = json!({ "pkg": "odd", "dep_kinds": [{ "kind": null }] });
        let nodes = json!([{ "id": PACKAGE, "deps": [link] }, { "id": "odd", "deps": [] }]);
        let metadata = metadata(&[package(PACKAGE, Value::Null), odd], nodes);
        let parts = parts(&metadata).unwrap();
        let bill = bill(&parts, &BTreeMap::new(), &model()).unwrap();
        assert_eq!(
            bill["components"][0]["licenses"][0]["license"]["text"]["content"],
            "Permission is granted.\n"
        );
        let list = licences(&parts, &model()).unwrap();
        assert!(list.ends_with("The licence of odd 1.0.0:\n\nPermission is granted.\n"), "{list}");
        std::fs::remove_file(folder.path().join("LICENSE")).unwrap();
        assert!(licences(&parts, &model()).unwrap_err().to_string().contains("LICENSE"));
    }

    /// The list named licences whose texts and copyright notices must come with a binary, and had none of them.
    #[test]
    fn every_notice_that_came_with_a_package_is_given_once() {
        let folder = tempfile::tempdir().unwrap();
        let mut packages = vec![package(PACKAGE, Value::Null)];
        for (name, file) in [("one", "LICENSE-MIT"), ("two", "license.md")] {
            std::fs::create_dir(folder.path().join(name)).unwrap();
            std::fs::write(folder.path().join(name).join(file), "Copyright of both\r\n").unwrap();
            std::fs::write(folder.path().join(name).join("README.md"), "not a licence").unwrap();
            let mut package = package(name, json!("registry+x"));
            package["manifest_path"] = json!(folder.path().join(name).join("Cargo.toml"));
            packages.push(package);
        }
        let link = |to| json!({ "pkg": to, "dep_kinds": [{ "kind": null }] });
        let nodes = json!([{ "id": PACKAGE, "deps": [link("one"), link("two")] }, { "id": "one", "deps": [] },
            { "id": "two", "deps": [] }]);
        let metadata = metadata(&packages, nodes);
        let list = licences(&parts(&metadata).unwrap(), &model()).unwrap();
        assert!(list.ends_with("\nThe licence of one 1.0.0, two 1.0.0:\n\nCopyright of both\n"), "{list}");
        assert_eq!((list.matches("Copyright").count(), list.contains("not a licence")), (1, false), "{list}");
    }

    #[test]
    fn the_model_that_the_binary_carries_is_a_component() {
        let link = json!({ "pkg": MODEL_PACKAGE, "dep_kinds": [{ "kind": null }] });
        let nodes = json!([{ "id": PACKAGE, "deps": [link] }, { "id": MODEL_PACKAGE, "deps": [] }]);
        let metadata = metadata(&[package(PACKAGE, Value::Null), package(MODEL_PACKAGE, Value::Null)], nodes);
        let parts = parts(&metadata).unwrap();
        let bill = bill(&parts, &BTreeMap::new(), &model()).unwrap();
        let component = &bill["components"][1];
        assert_eq!(
            (&component["type"], &component["name"], &component["version"], &component["licenses"]),
            (
                &json!("machine-learning-model"),
                &json!("tiny"),
                &json!("7"),
                &json!([{ "expression": MODEL_LICENCE }])
            )
        );
        assert_eq!(component["hashes"][0]["content"].as_str().unwrap().len(), 64);
        let links = bill["dependencies"].as_array().unwrap();
        let of_model =
            links.iter().find(|one| one["ref"] == "pkg:cargo/agentmem-memory-model@1.0.0").unwrap();
        assert_eq!(of_model["dependsOn"], json!(["model:tiny@7"]));
        assert!(licences(&parts, &model()).unwrap().contains("the embedding model tiny 7"));
        assert!(Model::read(b"MSM1").is_err());
    }
}
