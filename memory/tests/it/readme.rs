//! The program shown in the README.

const CHILD: &str = "MEMORY_README_TEST_CHILD";

#[tokio::test]
async fn the_program_of_the_readme_runs() -> Result<(), Box<dyn std::error::Error>> {
    // The README uses the working directory, which the whole process shares, so this runs in a child.
    if std::env::var_os(CHILD).is_none() {
        let folder = tempfile::tempdir()?;
        let child = std::process::Command::new(std::env::current_exe()?)
            .args(["--exact", "readme::the_program_of_the_readme_runs"])
            .env(CHILD, "1")
            .current_dir(folder.path())
            .status()?;
        assert!(child.success() && folder.path().join("agent.db").is_file());
        return Ok(());
    }
    // README begins
    use memory::{Scope, ScopeKind, SearchQuery, SetOptions};

    let provider = memory::open("sqlite:agent.db").await?;
    let backend = provider.backend().ok_or("this provider has no key/value facet")?;

    let scope = Scope::new("acme".parse()?, ScopeKind::Agent, "planner".parse()?);
    backend
        .set(&scope, &"note/1".parse()?, r#""Dinner in Lisbon on Friday""#.parse()?, SetOptions::default())
        .await?;
    let found = backend.search(&scope, SearchQuery::new("where is dinner")).await?;
    provider.close().await?; // waits for what it holds back: access counts
    // README ends
    assert_eq!(found.hits.len(), 1);
    Ok(())
}

#[test]
fn the_readme_shows_the_program_tested_here() {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/..");
    let readme = std::fs::read_to_string(format!("{root}/README.md")).expect("the README is at the root");
    let shown =
        readme.split("```rust\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a block of Rust");
    let tested = include_str!("readme.rs");
    let tested =
        tested.split("// README begins\n").nth(1).and_then(|rest| rest.split("    // README ends").next());
    let words = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    assert_eq!(words(shown), words(tested.expect("the marks")));
}
