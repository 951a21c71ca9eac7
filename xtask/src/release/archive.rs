//! The binary as an archive that anybody can build again, byte for byte.

use std::path::Path;
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::check::product;
use crate::workspace::Workspace;
use crate::{Result, process};

/// The package with the binary.
pub(super) const PACKAGE: &str = "memory-server";
/// The Cargo profile of the binary, which is also the folder that it is built in.
const PROFILE: &str = "dist";
/// Size limit of the binary, beside the embedding model that it carries as data.
const MAX_BYTES: u64 = 28_800_000;
pub(super) const PLATFORM: &str = "x86_64-unknown-linux-gnu";
/// The archive's only folder, for cargo-binstall.
pub(super) const STEM: &str = "memory-{ version }-{ target }";
pub(super) const URL: &str = "{ repo }/releases/download/v{ version }/memory-{ version }-{ target }.tar.gz";

/// Builds the binary and archives it with its licences and a checksum.
pub(super) fn binary(workspace: &Workspace, out: &Path) -> Result<()> {
    let stem = format!("memory-{}-{PLATFORM}", version(workspace)?);
    let epoch = epoch(workspace)?;
    let home = std::env::var("CARGO_HOME")
        .or_else(|_| std::env::var("HOME").map(|home| format!("{home}/.cargo")))?;
    // Where it was built must not show in it.
    let places = [(workspace.root.display().to_string(), "/memory"), (home, "/cargo")];
    let rust: Vec<String> =
        places.iter().map(|(from, to)| format!("--remap-path-prefix={from}={to}")).collect();
    let c: Vec<String> = places.iter().map(|(from, to)| format!("-ffile-prefix-map={from}={to}")).collect();
    let target = workspace.target.join("release-binary");
    let mut cargo = workspace.cargo();
    cargo.args([
        "build",
        "--profile",
        PROFILE,
        "--locked",
        "--package",
        PACKAGE,
        "--bin",
        "memory",
        "--target",
        PLATFORM,
    ]);
    cargo.env("CARGO_TARGET_DIR", &target).env("SOURCE_DATE_EPOCH", &epoch).env("CARGO_INCREMENTAL", "0");
    cargo.env("CARGO_ENCODED_RUSTFLAGS", rust.join("\u{1f}")).env("CFLAGS", c.join(" "));
    process::run(&mut cargo)?;
    let built = target.join(PLATFORM).join(PROFILE).join("memory");
    product::fits(workspace, &std::fs::read(&built)?, MAX_BYTES)?;
    process::run(Command::new(&built).arg("demo"))?;

    let folder = out.join(&stem);
    if folder.exists() {
        std::fs::remove_dir_all(&folder)?;
    }
    std::fs::create_dir_all(&folder)?;
    std::fs::copy(&built, folder.join("memory"))?;
    help(&folder)?;
    for file in ["LICENSE-APACHE", "LICENSE-MIT", "README.md"] {
        std::fs::copy(workspace.root.join(file), folder.join(file))?;
    }
    for file in ["licences.txt", "memory.cdx.json"] {
        std::fs::copy(out.join(file), folder.join(file))?;
    }
    let sum = pack(out, &stem, &epoch)?;
    println!("{sum}  {stem}.tar.gz");
    Ok(())
}

/// Asks the binary for its manual pages and for completions.
fn help(folder: &Path) -> Result<()> {
    let binary = folder.join("memory");
    process::run(Command::new(&binary).arg("man").arg(folder.join("man")))?;
    let completions = folder.join("completions");
    std::fs::create_dir_all(&completions)?;
    for (shell, file) in [
        ("bash", "memory.bash"),
        ("elvish", "memory.elv"),
        ("fish", "memory.fish"),
        ("powershell", "_memory.ps1"),
        ("zsh", "_memory"),
    ] {
        let script = process::capture(Command::new(&binary).args(["completions", shell]))?;
        std::fs::write(completions.join(file), script)?;
    }
    Ok(())
}

/// Makes `STEM.tar.gz` of the folder `STEM`, and `STEM.tar.gz.sha256`. Needs GNU tar.
fn pack(out: &Path, stem: &str, epoch: &str) -> Result<String> {
    let name = format!("{stem}.tar.gz");
    let mut tar = Command::new("tar");
    tar.current_dir(out).args(["--create", "--sort=name", "--format=ustar", "--owner=0", "--group=0"]);
    tar.args(["--numeric-owner", "--mode=u=rwX,go=rX", &format!("--mtime=@{epoch}")]);
    // gzip writes no name and no time with -n.
    process::run(tar.args(["--use-compress-program=gzip -9 -n", "--file", &name, stem]))?;
    let sum =
        Sha256::digest(std::fs::read(out.join(&name))?).iter().map(|byte| format!("{byte:02x}")).collect();
    std::fs::write(out.join(format!("{name}.sha256")), format!("{sum}  {name}\n"))?;
    Ok(sum)
}

fn version(workspace: &Workspace) -> Result<String> {
    let manifest: toml::Table = workspace.read(Path::new("Cargo.toml"))?.parse()?;
    let version =
        manifest.get("workspace").and_then(|root| root.get("package")).and_then(|all| all.get("version"));
    Ok(version.and_then(toml::Value::as_str).ok_or("the workspace has no version")?.to_owned())
}

/// The time of the commit, unless `SOURCE_DATE_EPOCH` says another.
fn epoch(workspace: &Workspace) -> Result<String> {
    if let Ok(given) = std::env::var("SOURCE_DATE_EPOCH") {
        return Ok(given);
    }
    let mut git = Command::new("git");
    git.current_dir(&workspace.root).args(["log", "-1", "--format=%ct"]);
    Ok(process::capture(&mut git)?.trim().to_owned())
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    #[test]
    fn the_same_files_make_the_same_archive_whenever_they_were_written() {
        let sum = |name: &str| {
            let out = std::env::temp_dir().join(format!("memory-archive-{}-{name}", std::process::id()));
            std::fs::create_dir_all(out.join("a")).unwrap();
            for file in if name == "one" { ["x", "y"] } else { ["y", "x"] } {
                std::fs::write(out.join("a").join(file), file).unwrap();
            }
            let old = std::time::UNIX_EPOCH + std::time::Duration::from_secs(name.len() as u64 * 1000);
            std::fs::File::options().write(true).open(out.join("a/x")).unwrap().set_modified(old).unwrap();
            let sum = pack(&out, "a", "1000000000").unwrap();
            std::fs::remove_dir_all(&out).unwrap();
            sum
        };
        assert_eq!(sum("one"), sum("three"));
    }
}
