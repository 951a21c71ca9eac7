//! `shell`: one prompt for the commands, in a terminal and in a pipe.

use serde_json::json;

use crate::support::user::{Ran, User};

fn piped(user: &User, options: &[&str], lines: &str) -> Ran {
    user.run_with(&[&["shell"], options].concat(), lines.as_bytes())
}

#[test]
fn lines_of_a_pipe_all_run_and_the_first_that_fails_decides() {
    let user = User::new();
    let ran = piped(&user, &[], "set a 1\n\n# why not\nmemory get a\nget missing\nnonsense\nserve\nget a");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(1), "created: a version 1\n1\n1\n"), "{ran:?}");
    for part in ["nothing is stored", "unrecognized subcommand", "leave the shell"] {
        assert!(ran.stderr.contains(part), "{part}: {ran:?}");
    }
    assert!(!ran.stderr.contains("default>"), "no prompt: {ran:?}");
    let ends = piped(&user, &[], "get a\nexit\nnonsense\n");
    assert_eq!((ends.code, ends.stdout.as_str()), (Some(0), "1\n"), "{ends:?}");
    let foreign = b"get a\nset b 'one \xff\nget missing'\n\xff\nget a\n";
    let ran = user.run_with(&["shell"], foreign);
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(3), "1\n1\n"), "{ran:?}");
    for line in ["line 2 of standard input is not UTF-8", "line 4 of standard input is not UTF-8"] {
        assert!(ran.stderr.contains(line) && !ran.stderr.contains("nothing is stored"), "{ran:?}");
    }
}

/// Some editors write one. Regression: the first command was unknown, and the others ran.
#[test]
fn a_byte_order_mark_is_no_part_of_a_command_or_of_json() {
    let user = User::new();
    let ran = piped(&user, &[], "\u{feff}set a 1\nget a\n");
    assert_eq!((ran.code, ran.stdout.as_str()), (Some(0), "created: a version 1\n1\n"), "{ran:?}");
    let messages = "\u{feff}[{\"role\":\"user\",\"content\":\"My sister lives in Bergen\"}]";
    let ran = user.run_with(&["add", "--messages", "-"], messages.as_bytes());
    assert_eq!(ran.code, Some(0), "{ran:?}");
    let ran = user.run_with(&["set", "b", "-"], "\u{feff}[1]".as_bytes());
    assert_eq!((ran.code, user.ok(&["get", "b"]).as_str()), (Some(0), "[1]\n"), "{ran:?}");
}

#[test]
fn the_store_stays_open_from_line_to_line() {
    let user = User::new();
    let lines = "set a 1\nincr a\nsql 'CREATE TABLE t (x)'\nsql\nINSERT INTO t\nVALUES (7);\n.quit\nsql 'SELECT x FROM t'\nget a\n";
    let ran = piped(&user, &["--url", "sqlite::memory:"], lines);
    assert_eq!(ran.code, Some(0), "{ran:?}");
    assert!(ran.stdout.ends_with("7\n(1 row)\n2\n"), "{ran:?}");
}

#[test]
fn options_of_the_shell_apply_where_a_line_has_none() {
    let user = User::new();
    let lines =
        "set k 1\nset k 2 --agent eve\nget k\nget k --scope agent:eve\nget k --user bob --json\nbad\n";
    let shell = ["shell", "--user", "ada", "--url", "sqlite:of-shell.db"];
    let mut command = user.command(&shell);
    command.env("MEMORY_URL", "sqlite:of-environment.db").stdin(std::process::Stdio::piped());
    let mut child = command.spawn().unwrap();
    std::io::Write::write_all(&mut child.stdin.take().unwrap(), lines.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(said.lines().skip(2).collect::<Vec<_>>(), ["1", "2", "null"], "{said}");
    assert!(user.home().join("of-shell.db").exists() && !user.home().join("of-environment.db").exists());
    let as_json = piped(&user, &["--json"], "nonsense\nget a -\n");
    assert!(as_json.stderr.lines().all(|line| line.starts_with("{\"error\":")), "{as_json:?}");
}

#[test]
fn what_would_surprise_is_refused() {
    let user = User::new();
    user.ok(&["set", "k", "1", "--user", "ada"]);
    let refused = piped(&user, &["--user", "ada"], "forget --yes\nset k -\nshell\nget k\n");
    assert_eq!((refused.code, refused.stdout.as_str()), (Some(3), "1\n"), "{refused:?}");
    for part in ["name what to forget", "instead of `-`", "this is the shell"] {
        assert!(refused.stderr.contains(part), "{part}: {refused:?}");
    }
    let named = piped(&user, &["--user", "bob"], "forget --user ada --yes\nget k --user ada\n");
    assert_eq!(named.code, Some(1), "{named:?}");
    assert!(named.stdout.starts_with("forgotten"), "{named:?}");
    let open = piped(&user, &[], "set text --text 'two\nlines'\nget text --text\nset more 'never closed\n");
    assert_eq!(open.code, Some(3), "{open:?}");
    assert!(open.stdout.ends_with("two\nlines\n") && open.stderr.contains("a quote is open"), "{open:?}");
    let read: Vec<_> = piped(&user, &["--json"], "get text\n").lines();
    assert_eq!(read[0]["value"], json!("two\nlines"));
}

#[cfg(target_os = "linux")]
mod terminal {
    use std::io::{Read as _, Write as _};
    use std::os::unix::fs::PermissionsExt as _;
    use std::process::{Child, ChildStdin, Command, Stdio};
    use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
    use std::time::Duration;

    use super::User;

    /// How long one answer may take on a starved machine.
    const PATIENCE: Duration = Duration::from_secs(120);

    /// The program in a terminal.
    struct Terminal {
        child: Child,
        keys: ChildStdin,
        shown: Receiver<u8>,
        all: String,
    }

    impl Terminal {
        /// `None` if this system has no `script` to make a terminal.
        fn open(user: &User, line: &str) -> Option<Self> {
            // `exec`, because a shell in between would take a Ctrl-C for its own.
            let inner = format!("stty rows 24 cols 200; exec {} {line}", crate::PROGRAM);
            let mut command = Command::new("script");
            command.args(["-qec", &inner, "/dev/null"]).current_dir(user.home());
            command.env("HOME", user.home()).env("TERM", "xterm").env("SHELL", "/bin/sh");
            command.env_remove("XDG_STATE_HOME").env_remove("XDG_DATA_HOME").env_remove("MEMORY_URL");
            let Ok(mut child) = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn() else {
                println!("skipped: this system has no `script`");
                return None;
            };
            let (send, shown) = channel();
            let mut output = child.stdout.take().unwrap();
            std::thread::spawn(move || {
                let mut bytes = [0; 4096];
                while let Ok(count @ 1..) = output.read(&mut bytes) {
                    if !bytes[..count].iter().all(|byte| send.send(*byte).is_ok()) {
                        break;
                    }
                }
            });
            Some(Self { keys: child.stdin.take().unwrap(), child, shown, all: String::new() })
        }

        fn send(&mut self, keys: &str) {
            self.keys.write_all(keys.as_bytes()).unwrap();
            self.keys.flush().unwrap();
        }

        /// Reads until this is shown, within `patience`.
        fn shows_within(&mut self, text: &str, patience: Duration) -> bool {
            let mut seen = Vec::new();
            while !seen.ends_with(text.as_bytes()) {
                match self.shown.recv_timeout(patience) {
                    Ok(byte) => seen.push(byte),
                    Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
                }
            }
            self.all.push_str(&String::from_utf8_lossy(&seen));
            seen.ends_with(text.as_bytes())
        }

        fn shows(&mut self, text: &str) {
            assert!(self.shows_within(text, PATIENCE), "{text} is not shown: {}", self.all);
        }

        fn ask(&mut self, keys: &str, answer: &str) {
            self.send(keys);
            self.shows(answer);
            self.shows("> ");
        }

        /// The exit code after Ctrl-D.
        fn end(mut self) -> Option<i32> {
            self.send("\x04");
            let code = self.child.wait().unwrap().code();
            drop(self.keys);
            code
        }
    }

    #[test]
    fn a_person_edits_completes_recalls_and_interrupts() {
        let user = User::new();
        let Some(mut shell) = Terminal::open(&user, "shell --user ada") else { return };
        shell.shows("Ctrl-D ends");
        shell.shows("memory user:ada> ");
        // Corrected with backspace.
        shell.ask("set greeting --text helpp\x7f\x7flo\r", "created: greeting");
        shell.ask("get gre\t--text\r", "\nhello\r\n");
        shell.ask("set token '\"hidden\"'\r", "created: token");
        shell.ask("nonsense\r", "unrecognized subcommand");
        shell.send("sql\r");
        shell.shows("sql> ");
        shell.ask("CREATE TABLE people (name TEXT);\r", "\n");
        shell.ask("SELECT count(*)\rFROM peo\t;\r", "(1 row)");
        let endless =
            "WITH RECURSIVE r(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r";
        shell.send(&format!("{endless};\r"));
        // Typed before the statement runs, it only ends the line.
        while !shell.shows_within("interrupted", Duration::from_millis(200)) {
            shell.send("\x03");
        }
        shell.ask(".quit\r", "ada");
        shell.send(&format!("sql --timeout 10m '{endless}'\r"));
        while !shell.shows_within("interrupted; what", Duration::from_millis(200)) {
            shell.send("\x03");
        }
        shell.ask("get greeting\r", "\"hello\"");
        assert_eq!(shell.end(), Some(0));

        let file = user.home().join(".local/state/memory/shell_history");
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let kept = std::fs::read_to_string(&file).unwrap();
        assert!(kept.contains("get greeting --text") && !kept.contains("hidden"), "{kept}");
        let mut again = Terminal::open(&user, "shell --user ada --no-history").unwrap();
        again.shows("> ");
        // With a line before it, this would not be a command.
        again.ask("\x1b[Astats\r", "entries");
        assert_eq!(again.end(), Some(0));
        assert_eq!(std::fs::read_to_string(&file).unwrap(), kept);
        let mut last = Terminal::open(&user, "shell --user ada").unwrap();
        last.shows("> ");
        last.ask("\x1b[A\r", "\"hello\"");
        assert_eq!(last.end(), Some(0));
    }
}
