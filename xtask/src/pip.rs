//! Archives that pip fetches: at a pinned version, unpacked under the target folder.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace::Workspace;
use crate::{Result, process};

/// One archive of the Python package index.
#[derive(Debug)]
pub(crate) struct Package {
    /// `name==version`.
    pub(crate) requirement: &'static str,
    pub(crate) megabytes: u32,
    /// Of the one archive that will do; without it, pip chooses one for this machine.
    pub(crate) archive: Option<Archive>,
}

#[derive(Debug)]
pub(crate) struct Archive {
    pub(crate) sha256: &'static str,
    /// Named, so that an older or newer Python accepts it too.
    pub(crate) platform: &'static str,
    pub(crate) implementation: &'static str,
}

/// The folder with the package's files, filled the first time.
///
/// `usable` looks at it before it counts as complete.
pub(crate) fn unpacked(
    workspace: &Workspace,
    package: &Package,
    usable: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let Package { requirement, megabytes, archive } = package;
    filled(&workspace.target.join("packages").join(requirement.replace("==", "-")), |folder| {
        println!("downloading {requirement} ({megabytes} MB) into {}", folder.display());
        let mut pip = Command::new(python()?);
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-input"]);
        pip.args(["--timeout", "20", "--retries", "1", "--no-deps", "--only-binary=:all:", "--no-compile"]);
        pip.arg("--target").arg(folder);
        if let Some(Archive { sha256, platform, implementation }) = archive {
            let pinned = folder.join("pinned.txt");
            fs::write(&pinned, format!("{requirement} --hash=sha256:{sha256}\n"))?;
            pip.args(["--platform", platform, "--implementation", implementation]);
            pip.args(["--python-version", "3.11", "--require-hashes", "--requirement"]).arg(pinned);
        } else {
            pip.arg(requirement);
        }
        process::capture(&mut pip)?;
        usable(folder)
    })
}

/// Fills a folder once; an incomplete one is filled again.
pub(crate) fn filled(folder: &Path, fill: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
    let mark = folder.join("complete");
    if !mark.is_file() {
        if folder.exists() {
            fs::remove_dir_all(folder)?;
        }
        fs::create_dir_all(folder)?;
        fill(folder)?;
        fs::write(mark, "")?;
    }
    Ok(folder.to_owned())
}

/// Python's name here.
pub(crate) fn python() -> Result<&'static str> {
    let found = ["python3", "python"].into_iter().find(|name| process::starts(name));
    found.ok_or_else(|| "no Python, whose pip would download it; install Python 3.10 or newer".into())
}
