//! A separate PostgreSQL server for a test, which can be configured, killed and restarted.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The programs of a server with pgvector; `cargo xtask test` sets it.
pub(crate) const PROGRAMS: &str = "MEMORY_TEST_POSTGRES_BIN";
/// The programs of a server with TLS.
pub(crate) const TLS_PROGRAMS: &str = "MEMORY_TEST_POSTGRES_PLAIN_BIN";

const NOBODY: u32 = 65_534;

/// Stops the server and removes its folder once the test's process ends in any way.
const KEEPER: &str = r#"
folder=$1
shift
"$@" > "$folder/log" 2>&1 < /dev/null &
server=$!
cat > /dev/null
kill -QUIT "$server" 2> /dev/null
wait "$server"
"#;

/// A server and its data.
#[derive(Debug)]
pub(crate) struct Server {
    programs: PathBuf,
    folder: tempfile::TempDir,
    pub(crate) port: u16,
    keeper: Option<Child>,
}

/// The programs named by a variable; `None` without it, after printing a note.
pub(crate) fn programs(variable: &str) -> Option<PathBuf> {
    let found = std::env::var_os(variable).map(PathBuf::from);
    if found.is_none() {
        println!("skipped: no PostgreSQL programs; `cargo xtask test` has them, or set {variable}");
    }
    found
}

fn is_root() -> bool {
    let printed = Command::new("id").arg("-u").output().unwrap().stdout;
    String::from_utf8_lossy(&printed).trim() == "0"
}

/// PostgreSQL refuses to run as root.
fn unprivileged(command: &mut Command) -> &mut Command {
    if is_root() {
        use std::os::unix::process::CommandExt as _;
        command.uid(NOBODY).gid(NOBODY);
    }
    command.current_dir("/")
}

fn run(command: &mut Command) {
    let output = unprivileged(command).stdin(Stdio::null()).output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

fn private_folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("memory-postgres-test-").tempdir().unwrap();
    give(folder.path());
    folder
}

fn give(path: &Path) {
    if is_root() {
        std::os::unix::fs::chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

impl Server {
    /// An empty cluster, not yet started, with a superuser `postgres` without password on loopback.
    pub(crate) fn new(programs: &Path) -> Self {
        let server = Self::without_data(programs);
        let mut initdb = Command::new(programs.join("initdb"));
        initdb.args(["--username=postgres", "--auth=trust", "--encoding=UTF8", "--locale=C", "--no-sync"]);
        run(initdb.arg("--pgdata").arg(server.data()));
        server.configure("listen_addresses = '127.0.0.1'\nunix_socket_directories = ''\nfsync = off\nmax_connections = 60\n");
        server
    }

    fn without_data(programs: &Path) -> Self {
        Self { programs: programs.to_owned(), folder: private_folder(), port: free_port(), keeper: None }
    }

    /// A standby of a running server, not yet started.
    pub(crate) fn standby_of(primary: &Self, name: &str) -> Self {
        let standby = Self::without_data(&primary.programs);
        let mut copy = Command::new(primary.programs.join("pg_basebackup"));
        copy.args(["--write-recovery-conf", "--wal-method=stream", "--checkpoint=fast", "--no-sync"]);
        copy.arg("--pgdata").arg(standby.data());
        let source = format!("host=127.0.0.1 port={} user=postgres application_name={name}", primary.port);
        run(copy.arg("--dbname").arg(source));
        standby
    }

    pub(crate) fn data(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// Appends to postgresql.conf.
    pub(crate) fn configure(&self, lines: &str) {
        let path = self.data().join("postgresql.conf");
        let mut file = fs::OpenOptions::new().append(true).open(path).unwrap();
        file.write_all(lines.as_bytes()).unwrap();
    }

    /// Replaces pg_hba.conf.
    pub(crate) fn admit(&self, lines: &str) {
        fs::write(self.data().join("pg_hba.conf"), lines).unwrap();
    }

    /// Puts a private file into the data folder.
    pub(crate) fn file(&self, name: &str, contents: &str) {
        use std::os::unix::fs::PermissionsExt as _;
        let path = self.data().join(name);
        fs::write(&path, contents).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        give(&path);
    }

    /// Starts it and waits until it answers.
    pub(crate) fn start(&mut self) {
        let mut keeper = Command::new("/bin/sh");
        keeper.args(["-c", KEEPER, "keeper"]).arg(self.folder.path()).arg(self.programs.join("postgres"));
        keeper.arg("-D").arg(self.data()).args(["-p", &self.port.to_string()]);
        std::os::unix::process::CommandExt::process_group(&mut keeper, 0);
        unprivileged(&mut keeper).stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        self.keeper = Some(keeper.spawn().unwrap());
        let deadline = Instant::now() + Duration::from_secs(60);
        loop {
            let mut asks = Command::new(self.programs.join("pg_isready"));
            asks.args(["--quiet", "--host=127.0.0.1", &format!("--port={}", self.port)]);
            if asks.status().unwrap().success() {
                return;
            }
            assert!(Instant::now() < deadline, "the server did not start: {}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.folder.path().join("log")).unwrap_or_default()
    }

    /// Promotes a standby.
    pub(crate) fn promote(&self) {
        run(Command::new(self.programs.join("pg_ctl")).args(["promote", "-w", "-D"]).arg(self.data()));
    }

    /// Kills all its processes at once, like a power cut.
    pub(crate) fn kill(&mut self) {
        let file = fs::read_to_string(self.data().join("postmaster.pid")).unwrap();
        let postmaster = file.lines().next().unwrap().to_owned();
        let mut all = children_of(&postmaster);
        all.insert(0, postmaster);
        // Some may have exited by then.
        let _ = Command::new("kill").arg("-KILL").args(&all).stderr(Stdio::null()).status().unwrap();
        self.end_keeper();
        let _ = fs::remove_file(self.data().join("postmaster.pid"));
    }

    fn end_keeper(&mut self) {
        if let Some(mut keeper) = self.keeper.take() {
            drop(keeper.stdin.take());
            let _ = keeper.wait();
        }
    }

    pub(crate) fn url(&self, database: &str) -> String {
        format!("postgres://postgres@127.0.0.1:{}/{database}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end_keeper();
    }
}

/// A primary that acknowledges only what its standby has.
pub(crate) async fn pair() -> Option<(Server, Server)> {
    let programs = programs(PROGRAMS)?;
    let mut primary = Server::new(&programs);
    primary.start();
    let mut standby = Server::standby_of(&primary, "standby");
    standby.start();
    let admin = super::connect(&primary.url("postgres")).await;
    admin.batch_execute("ALTER SYSTEM SET synchronous_standby_names = 'standby'").await.unwrap();
    admin.batch_execute("SELECT pg_reload_conf()").await.unwrap();
    let deadline = Instant::now() + Duration::from_secs(30);
    loop {
        let synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        if admin.query_one(synchronous, &[]).await.unwrap().get::<_, i64>(0) == 1 {
            return Some((primary, standby));
        }
        assert!(Instant::now() < deadline, "no synchronous standby: {}", standby.log());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn children_of(parent: &str) -> Vec<String> {
    let mut children = Vec::new();
    for entry in fs::read_dir("/proc").unwrap().filter_map(Result::ok) {
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.bytes().all(|byte| byte.is_ascii_digit()) {
            let stat = fs::read_to_string(entry.path().join("stat")).unwrap_or_default();
            // `pid (name) state parent …`; the name may hold anything.
            let fields = stat.rsplit_once(')').map(|(_, fields)| fields).unwrap_or_default();
            if fields.split_whitespace().nth(1) == Some(parent) {
                children.push(name);
            }
        }
    }
    children
}
