//! Those of the crate registry. Each is built in a small project of its own under `target/`, so that it is no dependency of this
//! workspace.

use std::path::{Path, PathBuf};

use memory_server::terminal::note;
use tokio::process::Command;

use super::table::Outcome;
use super::theirs::{answered, output};

const FOLDER: &str = "target/compare/crates";
const MAIN: &str = include_str!("main.rs");
const MANIFEST: &str = r#"[package]
name = "theirs"
version = "0.0.0"
edition = "2021"

# No member of the workspace around it.
[workspace]

[dependencies]
serde = { version = "1", features = ["derive"] }
serde_json = "1"
"#;

/// A product, and the program that does the work with it.
pub(super) struct Crate {
    version: &'static str,
    dependencies: &'static str,
    program: &'static str,
}

pub(super) const MEMRUST: Crate =
    Crate { version: "0.6.1", dependencies: "memrust = \"=0.6.1\"\n", program: include_str!("memrust.rs") };
pub(super) const CEL_MEMORY_SQLITE: Crate = Crate {
    version: "0.2.1",
    dependencies: "async-trait = \"0.1\"\ncel-memory = \"=0.2.1\"\ncel-memory-sqlite = \"=0.2.1\"\n\
                   tokio = { version = \"1\", features = [\"rt-multi-thread\"] }\n",
    program: include_str!("cel_memory_sqlite.rs"),
};

/// What one product took; why not, if it cannot be had.
pub(super) async fn measure(name: &str, product: &Crate, work: &Path, own: &Path) -> Outcome {
    let ran = async {
        let program = built(name, product).await?;
        answered(Command::new(program).arg(work).arg(own).arg(product.version)).await
    };
    ran.await.unwrap_or_else(Outcome::absent)
}

async fn built(name: &str, product: &Crate) -> Result<PathBuf, String> {
    let project = Path::new(FOLDER).join(name);
    let manifest = project.join("Cargo.toml");
    let shown = |error: std::io::Error| error.to_string();
    std::fs::create_dir_all(project.join("src")).map_err(shown)?;
    let files = [
        (manifest.clone(), format!("{MANIFEST}{}", product.dependencies)),
        (project.join("src/main.rs"), MAIN.to_owned()),
        (project.join("src/product.rs"), product.program.to_owned()),
    ];
    for (file, text) in files {
        // Cargo builds again what is newer.
        if std::fs::read_to_string(&file).is_ok_and(|written| written == text) {
            continue;
        }
        std::fs::write(file, text).map_err(shown)?;
    }
    note(&format!("building {name} {} in {}", product.version, project.display()));
    let target = project.join("target");
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.args(["build", "--release", "--quiet", "--manifest-path"]).arg(manifest);
    cargo.arg("--target-dir").arg(&target);
    output(&mut cargo).await.map_err(|why| format!("it cannot be built here: {why}"))?;
    Ok(target.join("release/theirs"))
}
