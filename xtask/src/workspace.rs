//! The workspace according to `cargo metadata`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::{Result, process};

/// The workspace's location and members.
#[derive(Debug, Deserialize)]
pub(crate) struct Workspace {
    #[serde(rename = "workspace_root")]
    pub(crate) root: PathBuf,
    #[serde(rename = "target_directory")]
    pub(crate) target: PathBuf,
    /// With `--no-deps`, exactly the members.
    #[serde(rename = "packages")]
    pub(crate) members: Vec<Member>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) manifest_path: PathBuf,
    pub(crate) rust_version: Option<String>,
    pub(crate) repository: Option<String>,
    /// Registries it may go to: `None` for any.
    publish: Option<Vec<String>>,
    pub(crate) features: BTreeMap<String, Vec<String>>,
    pub(crate) targets: Vec<Target>,
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Target {
    pub(crate) name: String,
    kind: Vec<String>,
    src_path: PathBuf,
}

#[derive(Debug, Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
    /// Set for a path dependency, as between members.
    pub(crate) path: Option<PathBuf>,
}

impl Workspace {
    pub(crate) fn load() -> Result<Self> {
        let mut command = Command::new(cargo_program());
        command.args(["metadata", "--format-version", "1", "--no-deps"]);
        Ok(serde_json::from_str(&process::capture(&mut command)?)?)
    }

    /// `cargo`, at the workspace's root.
    pub(crate) fn cargo(&self) -> Command {
        let mut command = Command::new(cargo_program());
        command.current_dir(&self.root);
        command
    }

    pub(crate) fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name == name)
    }

    /// Files that are, or will be, under version control, relative to the root.
    pub(crate) fn files(&self) -> Result<Vec<PathBuf>> {
        let mut git = Command::new("git");
        git.current_dir(&self.root).args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]);
        let listed = process::capture(&mut git)?;
        let files = listed.split_terminator('\0').map(PathBuf::from);
        // A file deleted from the folder but not from the index is listed too.
        let mut files: Vec<PathBuf> = files.filter(|file| self.root.join(file).is_file()).collect();
        files.sort();
        files.dedup();
        Ok(files)
    }

    pub(crate) fn read(&self, file: &Path) -> Result<String> {
        std::fs::read_to_string(self.root.join(file)).map_err(|e| format!("{}: {e}", file.display()).into())
    }
}

impl Member {
    pub(crate) fn is_published(&self) -> bool {
        self.publish.as_ref().is_none_or(|registries| !registries.is_empty())
    }

    pub(crate) fn has_library(&self) -> bool {
        self.targets.iter().any(|target| target.is("lib"))
    }

    /// The root files of its library and programs.
    pub(crate) fn roots(&self) -> impl Iterator<Item = &Path> {
        let built = self.targets.iter().filter(|target| target.is("lib") || target.is("bin"));
        built.map(|target| target.src_path.as_path())
    }

    /// Integration tests: files in the member's `tests/`.
    pub(crate) fn tests(&self) -> impl Iterator<Item = &str> {
        self.targets.iter().filter(|target| target.is("test")).map(|target| target.name.as_str())
    }
}

impl Target {
    fn is(&self, kind: &str) -> bool {
        self.kind.iter().any(|k| k == kind)
    }
}

/// The cargo that runs this, so that a toolchain from the command line stays selected.
fn cargo_program() -> PathBuf {
    std::env::var_os("CARGO").map_or_else(|| PathBuf::from("cargo"), PathBuf::from)
}
