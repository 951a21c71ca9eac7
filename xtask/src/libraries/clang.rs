//! libclang, needed to build PostgreSQL's own grammar: an installed one, or that of a Python package, under the target
//! folder.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::pip::{self, Package};
use crate::process;
use crate::workspace::Workspace;

const PACKAGE: Package = Package { requirement: "libclang==18.1.1", megabytes: 25, archive: None };
const LIBRARY: &str = "clang/native";
/// Where bindgen looks for the library.
const VARIABLE: &str = "LIBCLANG_PATH";
/// Arguments that bindgen passes to it: the package lacks headers, so the C compiler's are used.
const ARGUMENTS: &str = "BINDGEN_EXTRA_CLANG_ARGS";
/// The feature that needs it.
const FEATURE: &str = "pg-grammar";

/// What this run can build.
#[derive(Debug)]
pub(crate) struct Libclang {
    variables: Vec<(&'static str, String)>,
    found: bool,
}

impl Libclang {
    /// Find or install it; without it print why, and continue.
    pub(crate) fn prepare(workspace: &Workspace) -> Self {
        if let Some(folder) = std::env::var_os(VARIABLE) {
            println!("libclang: {}", folder.to_string_lossy());
            return Self { variables: Vec::new(), found: true };
        }
        let usable = |folder: &Path| match folder.join(LIBRARY).is_dir() {
            true => Ok(()),
            false => Err(format!("{} has no library", PACKAGE.requirement).into()),
        };
        match pip::unpacked(workspace, &PACKAGE, usable).map(|folder| folder.join(LIBRARY)) {
            Ok(folder) => {
                println!("libclang: {}", folder.display());
                let mut variables = vec![(VARIABLE, folder.display().to_string())];
                if let (None, Some(headers)) = (std::env::var_os(ARGUMENTS), headers()) {
                    variables.push((ARGUMENTS, format!("-isystem {}", headers.display())));
                }
                Self { variables, found: true }
            }
            Err(error) => {
                println!("libclang: none, the feature {} is left out of what is built: {error}", FEATURE);
                Self { variables: Vec::new(), found: false }
            }
        }
    }

    /// Whether the feature can be built.
    pub(crate) fn found(&self) -> bool {
        self.found
    }

    /// Give a build what was found.
    pub(crate) fn apply<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs(self.variables.iter().map(|(name, value)| (name, value)))
    }

    /// Whether it is what a feature lacks.
    pub(crate) fn is_missing_for(&self, feature: &str) -> bool {
        !self.found && feature == FEATURE
    }
}

/// The C compiler's own headers (`stddef.h`).
fn headers() -> Option<PathBuf> {
    let compiler = std::env::var("CC").ok();
    let candidates = compiler.iter().map(String::as_str).chain(["cc", "gcc", "clang"]);
    candidates.into_iter().find_map(|compiler| {
        let mut words = compiler.split_whitespace();
        let mut command = Command::new(words.next()?);
        let printed = process::capture(command.args(words).arg("-print-file-name=include")).ok()?;
        let folder = Path::new(printed.trim());
        folder.join("stddef.h").is_file().then(|| folder.to_owned())
    })
}
