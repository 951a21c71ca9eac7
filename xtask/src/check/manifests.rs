//! Rules for the members' manifests: one version table, one set of lints, one package header.

use std::path::Path;

use toml::{Table, Value};

use crate::Result;
use crate::workspace::Workspace;

/// Package keys every member inherits.
const INHERITED: &[&str] = &["version", "edition", "rust-version", "license", "repository"];

pub(crate) fn check(workspace: &Workspace) -> Result<()> {
    let mut wrong = Vec::new();
    for member in &workspace.members {
        let manifest = member.manifest_path.strip_prefix(&workspace.root).unwrap_or(&member.manifest_path);
        let table: Table = workspace.read(manifest)?.parse()?;
        wrong.extend(faults(&table).into_iter().map(|fault| format!("{}: {fault}", shown(manifest))));
    }
    if wrong.is_empty() { Ok(()) } else { Err(wrong.join("\n").into()) }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

fn faults(manifest: &Table) -> Vec<String> {
    let mut faults = Vec::new();
    for key in INHERITED {
        if !manifest.get("package").and_then(|p| p.get(key)).is_some_and(inherits) {
            faults.push(format!("package.{key} is not `{key}.workspace = true`"));
        }
    }
    if !manifest.get("lints").is_some_and(inherits) {
        faults.push("[lints] is not `workspace = true`".to_owned());
    }
    dependencies(manifest, "", &mut faults);
    if let Some(targets) = manifest.get("target").and_then(Value::as_table) {
        for (target, table) in targets {
            if let Some(table) = table.as_table() {
                dependencies(table, &format!("target.{target}."), &mut faults);
            }
        }
    }
    faults
}

fn dependencies(table: &Table, prefix: &str, faults: &mut Vec<String>) {
    for section in ["dependencies", "dev-dependencies", "build-dependencies"] {
        let Some(entries) = table.get(section).and_then(Value::as_table) else { continue };
        for (name, entry) in entries {
            if !inherits(entry) {
                faults.push(format!("{prefix}{section}.{name} is not taken from [workspace.dependencies]"));
            }
        }
    }
}

fn inherits(value: &Value) -> bool {
    value.get("workspace").and_then(Value::as_bool) == Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "[package]\nversion.workspace = true\nedition.workspace = true\nrust-version.workspace = true\n\
                          license.workspace = true\nrepository.workspace = true\n[lints]\nworkspace = true\n";

    fn faults_of(rest: &str) -> Vec<String> {
        faults(&format!("{HEADER}{rest}").parse().unwrap())
    }

    #[test]
    fn dependencies_of_the_workspace_table_pass() {
        let rest =
            "[dependencies]\nserde.workspace = true\ntokio = { workspace = true, features = [\"rt\"] }\n";
        assert_eq!(faults_of(rest), Vec::<String>::new());
    }

    #[test]
    fn a_version_or_path_of_its_own_is_a_fault_in_every_section() {
        let rest = "[dependencies]\na = \"1\"\n[dev-dependencies]\nb = { path = \"../b\" }\n\
                    [target.'cfg(unix)'.build-dependencies]\nc = { version = \"2\" }\n";
        assert_eq!(
            faults_of(rest),
            [
                "dependencies.a is not taken from [workspace.dependencies]",
                "dev-dependencies.b is not taken from [workspace.dependencies]",
                "target.cfg(unix).build-dependencies.c is not taken from [workspace.dependencies]",
            ]
        );
    }

    #[test]
    fn a_member_without_the_shared_lints_is_a_fault() {
        let manifest: Table = HEADER.replace("[lints]\nworkspace = true\n", "").parse().unwrap();
        assert_eq!(faults(&manifest), ["[lints] is not `workspace = true`"]);
    }
}
