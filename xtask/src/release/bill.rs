//! What the binary is made of: a bill of materials in the form of CycloneDX, and the licences.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use serde::Deserialize;
use serde_json::{Value, json};
use toml::Table;

use super::archive::{PACKAGE, PLATFORM};
use super::published_name;
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
    source: Option<String>,
}

impl Package {
    /// As registries know it: members have no source.
    fn public_name(&self) -> String {
        if self.source.is_some() { self.name.clone() } else { published_name(&self.name) }
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
    std::fs::write(out.join("memory.cdx.json"), serde_json::to_string_pretty(&bill(&parts, &sums)?)?)?;
    std::fs::write(out.join("licences.txt"), licences(&parts)?)?;
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

fn bill(parts: &Parts<'_>, sums: &BTreeMap<(String, String), String>) -> Result<Value> {
    let component = |package: &Package, kind: &str| {
        let sum = sums.get(&(package.name.clone(), package.version.clone()));
        let licenses = package.license.iter().map(|license| json!({ "expression": spdx(license) }));
        json!({
            "type": kind, "bom-ref": purl(package), "name": package.public_name(), "version": package.version,
            "purl": purl(package), "licenses": licenses.collect::<Vec<_>>(),
            "hashes": sum.iter().map(|sum| json!({ "alg": "SHA-256", "content": sum })).collect::<Vec<_>>(),
        })
    };
    let (root, _) =
        parts.values().find(|(package, _)| package.name == PACKAGE).ok_or("no package of the binary")?;
    let others = parts.values().filter(|(package, _)| package.name != PACKAGE);
    let components: Vec<Value> = others.map(|(package, _)| component(package, "library")).collect();
    let dependencies: Vec<Value> =
        parts.values().map(|(package, links)| json!({ "ref": purl(package), "dependsOn": links })).collect();
    Ok(json!({
        "bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": { "component": component(root, "application") },
        "components": components, "dependencies": dependencies,
    }))
}

/// Each licence with its packages. A package from a registry without one is an error.
fn licences(parts: &Parts<'_>) -> Result<String> {
    let mut by_licence = BTreeMap::<String, Vec<String>>::new();
    for (package, _) in parts.values() {
        let name = format!("{} {}", package.public_name(), package.version);
        let licence = match (&package.license, &package.license_file) {
            (Some(license), _) => spdx(license),
            (None, Some(file)) => format!("the file {file} of the package"),
            (None, None) if package.source.is_none() => continue,
            (None, None) => return Err(format!("{name} names no licence").into()),
        };
        by_licence.entry(licence).or_default().push(name);
    }
    let text =
        by_licence.into_iter().map(|(license, names)| format!("{license}\n    {}\n", names.join("\n    ")));
    Ok(text.collect::<Vec<_>>().join("\n"))
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

    #[test]
    fn members_have_the_names_under_which_they_are_published() {
        let package = |name: &str, source: Value| json!({ "id": name, "name": name, "version": "1.0.0", "license": "MIT", "license_file": null, "source": source });
        let link = json!({ "pkg": "serde", "dep_kinds": [{ "kind": null }] });
        let metadata = json!({
            "packages": [package(PACKAGE, Value::Null), package("serde", json!("registry+x"))],
            "resolve": { "nodes": [{ "id": PACKAGE, "deps": [link] }, { "id": "serde", "deps": [] }] },
        });
        let metadata: Metadata = serde_json::from_value(metadata).unwrap();
        let parts = parts(&metadata).unwrap();
        let bill = bill(&parts, &BTreeMap::new()).unwrap();
        let root = &bill["metadata"]["component"];
        assert_eq!(
            (&root["name"], &root["purl"]),
            (&json!("agentmem-memory-server"), &json!("pkg:cargo/agentmem-memory-server@1.0.0"))
        );
        assert_eq!(bill["components"][0]["purl"], "pkg:cargo/serde@1.0.0");
        assert!(licences(&parts).unwrap().contains("agentmem-memory-server 1.0.0"));
    }
}
