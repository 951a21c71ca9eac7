//! Files are private from the moment they exist, whatever the umask.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Command;

use crate::support::child::{self, Child};
use crate::support::files::{beside, folder, place};
use crate::support::{Store, fast, skip, trace};

fn mode(path: &Path) -> u32 {
    fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// This binary, in a shell with an empty umask.
fn without_umask(test: &str, program: &str) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("umask 000; exec {program} \"$0\" \"$@\"")]);
    child::wrapped(shell, test, "write")
}

fn write_until_told() {
    let store = Store::open(Path::new(&child::given("DATABASE")), fast()).unwrap();
    child::say("opened");
    store.set("a", "1");
    store.find("1").unwrap();
    child::say("written");
    let mut line = String::new();
    std::io::stdin().read_line(&mut line).unwrap();
    store.close();
}

#[test]
fn files_are_0600_and_new_folders_0700_whatever_the_umask() {
    if child::role().is_some() {
        return write_until_told();
    }
    let folder = folder();
    let path = folder.path().join("new/newer/memory.db");
    let mut command = without_umask(child::this_test!(), "");
    let mut child = Child::start(command.env("DATABASE", &path));
    for moment in ["opened", "written"] {
        assert_eq!(child.expect_line(), moment);
        for file in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
            if moment == "written" || file.exists() {
                assert_eq!(mode(&file), 0o600, "{} once {moment}", file.display());
            }
        }
        for folder in [path.parent().unwrap(), path.parent().unwrap().parent().unwrap()] {
            assert_eq!(mode(folder), 0o700, "{}", folder.display());
        }
    }
    child.tell("end");
    child.finish();
    assert_eq!(mode(&path), 0o600, "after closing");
}

#[test]
fn folders_that_exist_keep_their_permissions() {
    for permissions in [0o700, 0o750, 0o755, 0o2775] {
        let folder = folder();
        let existing = folder.path().join("existing");
        fs::create_dir(&existing).unwrap();
        fs::set_permissions(&existing, fs::Permissions::from_mode(permissions)).unwrap();
        let store = Store::open(&existing.join("inner/memory.db"), fast()).unwrap();
        store.set("a", "1");
        store.close();
        assert_eq!(mode(&existing), permissions);
        assert_eq!(mode(&existing.join("inner")) & 0o777, 0o700);
    }
}

#[test]
fn a_file_that_exists_keeps_its_permissions_and_its_log_has_the_same() {
    let (_folder, path) = place();
    Store::open(&path, fast()).unwrap().close();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o640)).unwrap();
    let store = Store::open(&path, fast()).unwrap();
    store.set("a", "1");
    for file in [path.clone(), beside(&path, "-wal"), beside(&path, "-shm")] {
        assert_eq!(mode(&file), 0o640, "{}", file.display());
    }
}

/// Fixing the mode after creation would leave a moment for others to open the file.
#[cfg(target_os = "linux")]
#[test]
fn files_and_folders_are_private_in_the_call_that_creates_them() {
    let test = child::this_test!();
    if child::role().is_some() {
        return write_until_told();
    }
    if let Some(reason) = trace::unavailable() {
        return skip(test, &reason);
    }
    let folder = folder();
    let (path, output) = (folder.path().join("new/memory.db"), folder.path().join("trace"));
    let strace = format!(
        "strace -f -e trace=open,openat,creat,mkdir,mkdirat,chmod,fchmod,fchmodat -o '{}'",
        output.display()
    );
    let mut command = without_umask(test, &strace);
    let mut child = Child::start(command.env("DATABASE", &path));
    child.expect_line();
    child.expect_line();
    child.tell("end");
    child.finish();
    let (mut files, mut folders) = (0, 0);
    for call in trace::calls(&output) {
        if !call.arguments.contains(folder.path().to_str().unwrap()) {
            continue;
        }
        if call.name.starts_with("mkdir") {
            assert!(call.arguments.contains(", 0700)"), "{call:?}");
            folders += 1;
        } else if call.arguments.contains("O_CREAT") {
            assert!(call.arguments.contains(", 0600)"), "{call:?}");
            files += 1;
        }
    }
    assert_eq!(folders, 1);
    assert!(files >= 3, "database, log and index were created by {files} calls");
}
