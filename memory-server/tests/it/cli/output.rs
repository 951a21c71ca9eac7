//! Help, completions, pipes, colour.

use std::io::Read as _;
use std::process::Stdio;

use crate::support::user::User;

#[test]
fn help_names_every_command_and_the_exit_codes() {
    let user = User::new();
    let help = user.ok(&["--help"]);
    for part in ["search", "import", "Exit codes:", "130  interrupted", "--url <URL>"] {
        assert!(help.contains(part), "{part}");
    }
    assert!(user.ok(&["--version"]).starts_with("memory "));
    assert!(user.ok(&["help", "import"]).contains("chatgpt"));
}

#[test]
fn every_shell_gets_its_completions() {
    let user = User::new();
    for (shell, part) in [
        ("bash", "complete -F _memory"),
        ("zsh", "#compdef memory"),
        ("fish", "complete -c memory"),
        ("powershell", "Register-ArgumentCompleter"),
        ("elvish", "edit:completion"),
    ] {
        let script = user.ok(&["completions", shell]);
        assert!(script.contains(part) && script.contains("import"), "{shell}");
    }
    assert_eq!(user.run(&["completions", "tcsh"]).code, Some(2));
}

#[test]
fn every_command_has_a_manual_page() {
    let user = User::new();
    user.ok(&["man", "pages"]);
    let page = |name: &str| std::fs::read_to_string(user.home().join("pages").join(name)).unwrap();
    assert!(page("memory.1").starts_with(".ie") && page("memory.1").contains("memory\\-import(1)"));
    assert!(page("memory-token-create.1").contains("memory token create"));
}

#[test]
fn a_closed_pipe_ends_the_command_silently() {
    let user = User::new();
    let chat: String =
        (0..5_000).map(|n| format!("{{\"role\":\"user\",\"content\":\"turn {n}\"}}\n")).collect();
    user.file("chat.jsonl", chat);
    user.ok(&["import", "--entries", "chat.jsonl"]);
    for arguments in [&["list", "--all", "--json"][..], &["list", "--all"], &["export"]] {
        let mut child = user.command(arguments).spawn().unwrap();
        let mut first = [0; 16];
        child.stdout.take().unwrap().read_exact(&mut first).unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(0), "{arguments:?}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{arguments:?}");
    }
}

#[test]
fn piped_output_has_neither_colour_nor_progress() {
    let user = User::new();
    user.file("chat.jsonl", "{\"role\":\"user\",\"content\":\"\\u001b[31mred\"}");
    let ran = user.run(&["import", "--entries", "chat.jsonl"]);
    assert_eq!(ran.stderr, "");
    let table = user.ok(&["list"]);
    assert!(!table.contains('\u{1b}') && table.contains("\\u001b[31mred"), "{table}");
}

#[test]
fn a_full_disk_is_reported() {
    let Ok(full) = std::fs::OpenOptions::new().write(true).open("/dev/full") else {
        println!("skipped: this system has no /dev/full");
        return;
    };
    let user = User::new();
    user.ok(&["set", "k", "1"]);
    let output = user.command(&["get", "k", "--json"]).stdout(Stdio::from(full)).output().unwrap();
    assert_eq!(output.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&output.stderr).contains("cannot be written"));
}

#[test]
fn names_with_line_breaks_stay_on_their_line() {
    let user = User::new();
    assert_eq!(user.ok(&["set", "a\nb", "1"]), "created: a\\nb version 1\n");
    assert_eq!(user.ok(&["delete", "a\nb"]), "deleted: a\\nb\n");
    user.file("odd\nname.jsonl", "{\"role\":\"user\",\"content\":\"x\"}\nbroken\n");
    user.file("other\nname.txt", "Dear diary");
    for name in ["odd\nname.jsonl", "other\nname.txt", "no\nsuch"] {
        let told = user.run(&["import", name]).stderr;
        assert!(told.contains("\\n") && told.trim_end().lines().count() == 1, "{told:?}");
    }
}
