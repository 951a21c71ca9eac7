//! `cargo xtask model`: a small static model for tests and first experiments, from a Python package, in the target folder.

use std::fs;
use std::path::PathBuf;

use crate::Result;
use crate::pip::{self, Archive, Package};
use crate::workspace::Workspace;

/// Tells tests the model's folder.
pub(crate) const VARIABLE: &str = "MEMORY_TEST_MODEL";

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
