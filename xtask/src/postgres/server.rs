//! One server with its own data folder, kept by a process that outlives this one long enough to clean up.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use crate::{Result, process};

/// The user that runs the server: PostgreSQL refuses to run as root.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    /// The current user.
    Same,
    /// `nobody`, if the current user is root.
    Nobody,
}

const NOBODY: u32 = 65_534;

impl User {
    pub(super) fn of_servers() -> Result<Self> {
        let printed = process::capture(Command::new("id").arg("-u"))?;
        Ok(if printed.trim() == "0" { Self::Nobody } else { Self::Same })
    }

    fn run(self, command: &mut Command) -> &mut Command {
        #[cfg(unix)]
        if self == Self::Nobody {
            use std::os::unix::process::CommandExt as _;
            command.uid(NOBODY).gid(NOBODY);
        }
        // The working directory may be one that this user cannot enter.
        command.current_dir("/").env_remove("PGDATA").env("HOME", "/")
    }

    #[cfg(unix)]
    fn own(self, folder: &Path) -> Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700))?;
        if self == Self::Nobody {
            std::os::unix::fs::chown(folder, Some(NOBODY), Some(NOBODY))?;
        }
        Ok(())
    }

    #[cfg(not(unix))]
    fn own(self, _folder: &Path) -> Result<()> {
        Ok(())
    }

    /// Whether the user can run the programs in place: a clone may be in a folder private to root.
    fn reaches(self, programs: &Path) -> bool {
        process::capture(self.run(Command::new(programs.join("initdb")).arg("--version"))).is_ok()
    }
}

/// How a server is kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keeping<'a> {
    pub(super) user: User,
    /// Each server makes a folder here. Not below the target folder, which may be private to root.
    pub(super) temporary: &'a Path,
    pub(super) fsync: bool,
}

/// A running server; stops when dropped.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) folder: PathBuf,
    pub(super) programs: PathBuf,
    port: u16,
    keeper: Child,
    /// The keeper reads the other end, and ends when this process does.
    life: Option<ChildStdin>,
}

/// Runs the server, stops it once its standard input ends, and removes the folder. In a separate process group, so that
/// Ctrl-C does not kill it before it has cleaned up.
const KEEPER: &str = r#"
folder=$1
shift
"$@" > "$folder/log" 2>&1 &
server=$!
cat > /dev/null
kill -INT "$server" 2> /dev/null
( sleep 10; kill -KILL "$server" ) > /dev/null 2>&1 < /dev/null &
timer=$!
wait "$server"
kill "$timer" 2> /dev/null
rm -rf "$folder"
"#;

impl Server {
    /// Creates a cluster and starts it on a free loopback port.
    pub(super) fn start(programs: &Path, keeping: &Keeping<'_>) -> Result<Self> {
        let mut tries = 0;
        loop {
            let folder = private_folder(keeping.temporary, keeping.user)?;
            let refusal = match Self::start_in(&folder, programs, keeping) {
                Ok(server) => return Ok(server),
                Err(error) => error.to_string(),
            };
            // The keeper does this too, if it got that far.
            let _ = fs::remove_dir_all(&folder);
            tries += 1;
            // Another process may take the free port first.
            if tries == 5 || !refusal.contains("could not bind") {
                return Err(refusal.into());
            }
        }
    }

    fn start_in(folder: &Path, programs: &Path, keeping: &Keeping<'_>) -> Result<Self> {
        let programs = reachable(programs, folder, keeping.user)?;
        let data = folder.join("data");
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args([
            "--username=postgres",
            "--auth=trust",
            "--encoding=UTF8",
            "--no-sync",
            "--no-instructions",
        ]);
        initdb.arg(format!("--locale={}", locale())).arg("--pgdata").arg(&data);
        process::capture(keeping.user.run(&mut initdb))?;
        let server = Self::keep(folder, &programs, &data, keeping)?;
        match server.wait_until_ready() {
            Ok(()) => Ok(server),
            Err(error) => Err(format!("{error}\n{}", tail(&folder.join("log"))).into()),
        }
    }

    fn keep(folder: &Path, programs: &Path, data: &Path, keeping: &Keeping<'_>) -> Result<Self> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(folder).arg(programs.join("postgres")).arg("-D").arg(data);
        let fsync = if keeping.fsync { "on" } else { "off" };
        for setting in [
            format!("port={port}"),
            "listen_addresses=127.0.0.1".to_owned(),
            "unix_socket_directories=".to_owned(),
            "max_connections=200".to_owned(),
            "shared_buffers=128MB".to_owned(),
            "max_wal_size=512MB".to_owned(),
            format!("fsync={fsync}"),
            format!("full_page_writes={fsync}"),
        ] {
            keeper.arg("-c").arg(setting);
        }
        keeping.user.run(&mut keeper).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        #[cfg(unix)]
        std::os::unix::process::CommandExt::process_group(&mut keeper, 0);
        let mut keeper = keeper.spawn().map_err(|error| format!("cannot start /bin/sh: {error}"))?;
        let life = keeper.stdin.take();
        Ok(Self { folder: folder.to_owned(), programs: programs.to_owned(), port, keeper, life })
    }

    fn wait_until_ready(&self) -> Result<()> {
        let deadline = Instant::now() + Duration::from_secs(60);
        let log = self.folder.join("log");
        loop {
            let mut asks = Command::new(self.programs.join("pg_isready"));
            asks.args(["--quiet", "--host=127.0.0.1", "--timeout=3", &format!("--port={}", self.port)]);
            if process::capture(&mut asks).is_ok()
                && File::open(self.folder.join("data/postmaster.pid")).is_ok()
            {
                return Ok(());
            }
            if tail(&log).contains("database system is shut down") || tail(&log).contains("could not bind") {
                return Err("the PostgreSQL server did not start".into());
            }
            if Instant::now() > deadline {
                return Err("the PostgreSQL server was not ready after a minute".into());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// The superuser's URL.
    pub(super) fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        drop(self.life.take());
        let _ = self.keeper.wait();
    }
}

/// A private folder in this one.
fn private_folder(temporary: &Path, user: User) -> Result<PathBuf> {
    for number in 0..1_000 {
        let folder = temporary.join(format!("memory-postgres-{}-{number}", std::process::id()));
        match fs::create_dir(&folder) {
            Ok(()) => {
                user.own(&folder)?;
                return Ok(folder);
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(format!("cannot make {}: {error}", folder.display()).into()),
        }
    }
    Err("no free name for a temporary folder".into())
}

/// The programs where the user can run them: in place, or copied into the server's folder.
fn reachable(programs: &Path, folder: &Path, user: User) -> Result<PathBuf> {
    if user.reaches(programs) {
        return Ok(programs.to_owned());
    }
    // `…/PACKAGE/pginstall/bin` finds its libraries in `…/PACKAGE.libs`, and its files next to itself.
    let package = programs.ancestors().nth(3).ok_or("the programs have no folder to copy")?;
    let copy = folder.join("programs");
    println!(
        "copying PostgreSQL to {}: the user it runs as cannot enter {}",
        copy.display(),
        package.display()
    );
    copy_folder(package, &copy, user)?;
    let copied = copy.join(programs.strip_prefix(package)?);
    if user.reaches(&copied) {
        return Ok(copied);
    }
    Err(format!(
        "an unprivileged user can run programs neither in {} nor in {}",
        package.display(),
        copy.display()
    )
    .into())
}

fn copy_folder(from: &Path, to: &Path, user: User) -> Result<()> {
    fs::create_dir(to)?;
    user.own(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let copy = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy_folder(&entry.path(), &copy, user)?;
        } else {
            // Keeps permissions; a link is copied as its target.
            fs::copy(entry.path(), &copy)?;
            #[cfg(unix)]
            if user == User::Nobody {
                std::os::unix::fs::chown(&copy, Some(NOBODY), Some(NOBODY))?;
            }
        }
    }
    Ok(())
}

/// A locale that does not sort by bytes, if available: code that sorts by bytes must say so.
fn locale() -> &'static str {
    let known = process::capture(Command::new("locale").arg("-a")).unwrap_or_default();
    let has = |name: &str| known.lines().any(|line| line.eq_ignore_ascii_case(name));
    if has("en_US.utf8") || has("en_US.UTF-8") {
        "en_US.UTF-8"
    } else if has("C.utf8") || has("C.UTF-8") {
        "C.UTF-8"
    } else {
        "C"
    }
}

fn tail(log: &Path) -> String {
    let text = fs::read(log).map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    lines.get(lines.len().saturating_sub(10)..).unwrap_or_default().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_is_new_and_for_its_user_alone() {
        let temporary = std::env::temp_dir();
        let make = || private_folder(&temporary, User::Same).unwrap();
        let (first, second) = (make(), make());
        assert_ne!(first, second);
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt as _;
            assert_eq!(fs::metadata(&first).unwrap().permissions().mode() & 0o777, 0o700);
        }
        for folder in [first, second] {
            fs::remove_dir(folder).unwrap();
        }
    }

    #[test]
    fn the_end_of_a_log_is_its_last_lines() {
        let folder = private_folder(&std::env::temp_dir(), User::Same).unwrap();
        let log = folder.join("log");
        let lines: Vec<String> = (0..30).map(|line| line.to_string()).collect();
        fs::write(&log, lines.join("\n")).unwrap();
        assert!(tail(&log).starts_with("20\n") && tail(&log).ends_with("29"));
        assert_eq!(tail(&folder.join("none")), "");
        fs::remove_dir_all(folder).unwrap();
    }
}
