//! The library of the graph engine LadybugDB, under the target folder: that of the Python package, which exports the C++
//! interface that the crate `lbug` calls. Compiling it instead would take the better part of an hour.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Deserialize;

use crate::pip::{self, Archive, Package};
use crate::workspace::Workspace;
use crate::{Result, process};

/// Of the version of `lbug` in `Cargo.toml`, which `lbug_folder` checks.
const VERSION: &str = "0.15.3";
const PACKAGE: Package = Package {
    requirement: "real-ladybug==0.15.3",
    megabytes: 8,
    archive: Some(Archive {
        sha256: "289414b0588375b53aec3530c36337f58d2978f98de249b2d359cebf8015ff4f",
        platform: "manylinux_2_28_x86_64",
        implementation: "cp",
    }),
};
const LIBRARY: &str = "real_ladybug/_lbug.cpython-311-x86_64-linux-gnu.so";
/// Where the build script of `lbug` looks for a library, if both are set.
const LIBRARY_FOLDER: &str = "LBUG_LIBRARY_DIR";
const INCLUDE_FOLDER: &str = "LBUG_INCLUDE_DIR";
/// The features that need it.
const FEATURES: &[(&str, &str)] =
    &[("memory-ladybug", "engine"), ("memory", "ladybug"), ("memory-server", "ladybug")];

/// A C++20 header that GCC has from version 13 on; what the engine's headers use of it, for older ones.
const FORMAT: &str = r#"#pragma once
#if __has_include_next(<format>)
#include_next <format>
#else
#include <sstream>
#include <string>
#include <string_view>
namespace std {
template <typename... Args> string format(string_view text, const Args&... args) {
    ostringstream out;
    auto next = [&](const auto& arg) {
        auto at = text.find("{}");
        out << text.substr(0, at) << arg;
        text.remove_prefix(at == string_view::npos ? text.size() : at + 2);
    };
    (next(args), ...);
    out << text;
    return out.str();
}
}
#endif
"#;
/// Two functions of the interface that the package does not export, and that nothing here calls.
const ABSENT: &[&str] = &[
    "_ZN4lbug6common15RecursiveRelVal8getNodesEPKNS0_5ValueE",
    "_ZN4lbug6common15RecursiveRelVal7getRelsEPKNS0_5ValueE",
];

/// What a build needs to find the library.
#[derive(Debug)]
pub(crate) struct Ladybug(Vec<(&'static str, String)>);

impl Ladybug {
    /// Finds the library or sets it up.
    pub(crate) fn prepare(workspace: &Workspace) -> Result<Self> {
        if let Some(given) = Self::given() {
            return Ok(given);
        }
        if !cfg!(all(target_os = "linux", target_arch = "x86_64")) {
            return Err("its library is set up on Linux on x86-64 only".into());
        }
        for program in ["c++", "nm"] {
            if !process::starts(program) {
                return Err(format!("no `{program}`; install a C++ compiler with binutils").into());
            }
        }
        let usable = |folder: &Path| match folder.join(LIBRARY).is_file() {
            true => Ok(()),
            false => Err(format!("{} has no library", PACKAGE.requirement).into()),
        };
        let library = pip::unpacked(workspace, &PACKAGE, usable)?.join(LIBRARY);
        let folder = pip::filled(&Self::folder(workspace), |folder| {
            link(&library, &folder.join("lib"))?;
            include(&lbug_folder(workspace)?, &folder.join("include"))
        })?;
        println!("LadybugDB: {}", folder.display());
        Ok(Self::at(&folder))
    }

    /// Whether a feature of a member needs the library.
    pub(crate) fn is_needed(member: &str, feature: &str) -> bool {
        FEATURES.contains(&(member, feature))
    }

    /// What a build, and what it built, finds the library by.
    pub(crate) fn variables(&self) -> &[(&'static str, String)] {
        &self.0
    }

    /// Gives them to a command.
    pub(crate) fn apply<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        command.envs(self.0.iter().map(|(name, value)| (name, value)))
    }

    /// Prints the variables, for a shell.
    pub(crate) fn print(&self) {
        self.0.iter().for_each(|(name, value)| println!("export {name}={value}"));
    }

    /// One that the environment names.
    pub(crate) fn given() -> Option<Self> {
        (std::env::var_os(LIBRARY_FOLDER).is_some() && std::env::var_os(INCLUDE_FOLDER).is_some())
            .then(|| Self(Vec::new()))
    }

    fn folder(workspace: &Workspace) -> PathBuf {
        workspace.target.join("packages").join(format!("ladybug-{VERSION}"))
    }

    fn at(folder: &Path) -> Self {
        let library = folder.join("lib").display().to_string();
        let known = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
        let run = if known.is_empty() { library.clone() } else { format!("{library}:{known}") };
        let include = folder.join("include").display().to_string();
        Self(vec![
            ("LBUG_SHARED", "1".to_owned()),
            (LIBRARY_FOLDER, library),
            (INCLUDE_FOLDER, include),
            ("LD_LIBRARY_PATH", run),
        ])
    }
}

/// Makes `liblbug.so` of the package's library and of one with the symbols that it lacks: those of Python, which loads it
/// otherwise. They are never called.
fn link(library: &Path, folder: &Path) -> Result<()> {
    fs::create_dir_all(folder)?;
    let mut nm = Command::new("nm");
    let listed = process::capture(nm.args(["--dynamic", "--undefined-only", "--format=posix"]).arg(library))?;
    let names = listed.lines().filter_map(|line| line.split_whitespace().next());
    let of_python = names.filter(|name| name.trim_start_matches('_').starts_with("Py"));
    let source: String =
        of_python.chain(ABSENT.iter().copied()).map(|name| format!("char {name}[512];\n")).collect();
    let (file, absent) = (folder.join("absent.c"), folder.join("libabsent.so"));
    fs::write(&file, source)?;
    // By its name too, by which a program asks for it when it starts.
    let own = folder.join(library.file_name().ok_or("a library has a name")?);
    fs::copy(library, &own)?;
    let mut compiler = Command::new("c++");
    process::capture(
        compiler
            .args(["-x", "c", "-shared", "-fPIC", "-Wl,-soname,libabsent.so", "-o"])
            .arg(&absent)
            .arg(&file),
    )?;
    fs::write(folder.join("liblbug.so"), format!("INPUT({} {})\n", own.display(), absent.display()))?;
    Ok(())
}

/// The engine's headers, with one that names those which `lbug` includes.
fn include(lbug: &Path, folder: &Path) -> Result<()> {
    copy(&lbug.join("lbug-src/src/include"), folder)?;
    fs::write(folder.join("format"), FORMAT)?;
    // Those that the bridge includes when the engine is built with it.
    let bridge = fs::read_to_string(lbug.join("include/lbug_rs.h"))?;
    let bundled = bridge.split("#ifdef LBUG_BUNDLED").nth(1).and_then(|rest| rest.split("#else").next());
    fs::write(folder.join("lbug.hpp"), bundled.ok_or("the headers of lbug are not as expected")?)?;
    Ok(())
}

/// Copies a folder with what is below it: cargo may remove the sources, which it can download again.
fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// The sources of the crate.
fn lbug_folder(workspace: &Workspace) -> Result<PathBuf> {
    #[derive(Deserialize)]
    struct Metadata {
        packages: Vec<Found>,
    }
    #[derive(Deserialize)]
    struct Found {
        name: String,
        version: String,
        manifest_path: PathBuf,
    }
    let mut cargo = workspace.cargo();
    cargo.args(["metadata", "--format-version", "1", "--features", "memory-ladybug/engine"]);
    let metadata: Metadata = serde_json::from_str(&process::capture(&mut cargo)?)?;
    let found = metadata.packages.into_iter().find(|package| package.name == "lbug");
    let found = found.filter(|package| package.version == VERSION);
    let folder = found.and_then(|package| package.manifest_path.parent().map(Path::to_owned));
    folder.ok_or_else(|| format!("the crate lbug is not at version {VERSION}, as the library is").into())
}
