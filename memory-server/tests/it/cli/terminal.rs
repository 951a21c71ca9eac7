//! What a person sees when output or input is a terminal.
#![cfg(target_os = "linux")]

use std::process::{Command, Stdio};

use crate::support::user::User;

/// Runs a command line in a terminal of 60 columns; standard error is separate. `None` if this system has no `script`
/// to make one.
fn at_a_terminal(user: &User, line: &str, stdin: Stdio) -> Option<(String, String)> {
    let errors = user.home().join("stderr");
    let inner = format!("stty rows 24 cols 60; {} {line} 2>{}", crate::PROGRAM, errors.display());
    let mut command = Command::new("script");
    command
        .args(["-qec", &inner, "/dev/null"])
        .current_dir(user.home())
        .env("HOME", user.home())
        .env("TERM", "dumb");
    let Ok(output) = command.stdin(stdin).output() else {
        println!("skipped: this system has no `script`");
        return None;
    };
    let text = String::from_utf8(output.stdout).unwrap().replace("\r\n", "\n");
    Some((text, std::fs::read_to_string(errors).unwrap_or_default()))
}

#[test]
fn tables_fit_the_width_of_a_terminal_and_are_whole_in_a_pipe() {
    let user = User::new();
    let long = "a long value 東京 ".repeat(20);
    user.ok(&["set", &format!("key/{}", "k".repeat(40)), "--text", &long]);
    user.ok(&["set", "short", "1"]);
    user.ok(&["sql", "CREATE TABLE t (a, b)"]);
    user.ok(&["sql", "INSERT INTO t VALUES (?, 1)", "--arg", &serde_json::json!(long).to_string()]);
    for line in ["list", "config", "scopes", "sql 'SELECT * FROM t'"] {
        let Some((shown, errors)) = at_a_terminal(&user, line, Stdio::null()) else { return };
        assert_eq!(errors, "", "{line}");
        assert!(shown.lines().count() >= 2, "{line}: {shown}");
        // Four of the characters take two columns.
        assert!(shown.lines().all(|line| line.chars().count() <= 60), "{line}: {shown}");
    }
    let (shown, _) = at_a_terminal(&user, "list", Stdio::null()).unwrap();
    assert!(shown.contains('…') && shown.contains("short"), "{shown}");
    let (json, _) = at_a_terminal(&user, "list --json", Stdio::null()).unwrap();
    assert!(json.contains(long.trim_end()) && !json.contains('…'), "{json}");
    for piped in [user.ok(&["list"]), user.ok(&["sql", "SELECT * FROM t"]), user.ok(&["search", "value"])] {
        assert!(piped.contains(long.trim_end()) && !piped.contains('…'), "{piped}");
    }
    assert!(user.ok(&["list"]).contains(&"k".repeat(40)));
}

#[test]
fn serve_at_a_terminal_says_what_it_is_how_to_connect_and_how_to_stop() {
    let user = User::new();
    // The terminal's input ends at once, which stops the server.
    let Some((_, said)) = at_a_terminal(&user, "serve --agent claude --user ada", Stdio::null()) else {
        return;
    };
    let store = format!("It serves sqlite:{}", user.home().display());
    for part in ["MCP server", &store, "mcpServers", "\"serve\"", "--print-config", "Ctrl-C", "Ctrl-D"] {
        assert!(said.contains(part), "{part}: {said}");
    }
    let (_, quiet) = at_a_terminal(&user, "serve --agent claude --user ada --quiet", Stdio::null()).unwrap();
    assert_eq!(quiet, "");
    let piped = user.run(&["serve", "--agent", "claude"]);
    assert_eq!((piped.code, piped.stdout.as_str(), piped.stderr.as_str()), (Some(0), "", ""));
}
