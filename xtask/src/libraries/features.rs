//! Which features can be built here.

use std::process::Command;

use super::clang::Libclang;
use super::ladybug::Ladybug;
use crate::workspace::{Member, Workspace};

const FUZZER: (&str, &str) = ("memory-fuzz", "libfuzzer");

/// What this run can build.
#[derive(Debug)]
pub(crate) struct Libraries {
    clang: Libclang,
    ladybug: Option<Ladybug>,
}

impl Libraries {
    /// Finds or installs libclang; takes the graph engine's library if the environment names it, since its bridge to C++
    /// takes minutes to compile.
    pub(crate) fn prepare(workspace: &Workspace) -> Self {
        let ladybug = Ladybug::given();
        if ladybug.is_none() {
            println!(
                "LadybugDB: not named by the environment (`cargo xtask ladybug`), what needs it is left out of what is built"
            );
        }
        Self { clang: Libclang::prepare(workspace), ladybug }
    }

    /// Give a build what was found.
    pub(crate) fn apply<'c>(&self, command: &'c mut Command) -> &'c mut Command {
        if let Some(ladybug) = &self.ladybug {
            ladybug.apply(command);
        }
        self.clang.apply(command)
    }

    /// The arguments that turn on every feature of every member that can be built.
    pub(crate) fn every_feature(&self, workspace: &Workspace) -> Vec<String> {
        let mut features = Vec::new();
        for member in &workspace.members {
            let kept = member.features.keys().filter(|feature| {
                self.builds(member, feature)
                    || (self.ladybug.is_some() && Ladybug::is_needed(&member.name, feature))
            });
            features.extend(kept.map(|feature| format!("{}/{feature}", member.name)));
        }
        vec!["--features".to_owned(), features.join(",")]
    }

    /// Whether a feature of a member can be built by itself. libFuzzer's cannot: it needs a C++ compiler and special flags. The
    /// graph engine's is built with all others only, which is slow enough.
    pub(crate) fn builds(&self, member: &Member, feature: &str) -> bool {
        (member.name.as_str(), feature) != FUZZER
            && !Ladybug::is_needed(&member.name, feature)
            && !self.clang.is_missing_for(feature)
    }
}
