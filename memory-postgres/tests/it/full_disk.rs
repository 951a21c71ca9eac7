//! A full disk under the server refuses writes with a typed error; acknowledged writes stay, reads work, and writes
//! work again once there is space.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use memory_core::{Backend as _, BackendExt as _, ErrorKind, Json, Key, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider};

use crate::support;
use crate::support::server::{self, Server};

/// A file system of this size in MiB, which only root can create; removed at the end.
struct Small(PathBuf);

impl Small {
    fn mount(at: &Path, mebibytes: u32) -> Option<Self> {
        std::fs::create_dir(at).unwrap();
        let options = format!("size={mebibytes}m,uid=65534,gid=65534,mode=0700");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &options, "tmpfs"]).arg(at).stderr(Stdio::null());
        if mount.status().is_ok_and(|status| status.success()) {
            Some(Self(at.to_owned()))
        } else {
            println!("skipped: no small file system can be mounted here");
            None
        }
    }

    fn grow(&self, mebibytes: u32) {
        let options = format!("remount,size={mebibytes}m");
        let status = Command::new("mount").args(["-o", &options]).arg(&self.0).status().unwrap();
        assert!(status.success());
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // The server with files there ends after this: detached, it disappears with them.
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_refuses_and_loses_nothing() {
    let Some(programs) = server::programs(server::PROGRAMS) else { return };
    let mut server = Server::new(&programs);
    let Some(small) = Small::mount(&server.data().with_file_name("small"), 24) else { return };
    server.start();
    let admin = support::connect(&server.url("postgres")).await;
    // The log is elsewhere: if that is full, PostgreSQL stops entirely.
    admin.batch_execute(&format!("CREATE TABLESPACE small LOCATION '{}'", small.0.display())).await.unwrap();
    admin.batch_execute("CREATE DATABASE memory TEMPLATE template0 TABLESPACE small").await.unwrap();
    let config = PostgresConfig::new(server.url("memory")).with_max_value_bytes(1 << 20);
    let provider = PostgresProvider::open(config).await.unwrap();
    let scope = Scope::agent("acme", "full").unwrap();
    let key = |number: usize| Key::new(format!("entry/{number:05}")).unwrap();
    // Incompressible letters.
    let value = |number: usize| {
        let mut state = number as u64 + 1;
        let letters: String = (0..60_000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'a' + u8::try_from((state >> 33) % 26).unwrap())
            })
            .collect();
        Json::parse(format!("\"{letters}\"")).unwrap()
    };
    let mut written = 0;
    let refusal = loop {
        match provider.put(&scope, &key(written), value(written)).await {
            Ok(_) => written += 1,
            Err(error) => break error,
        }
        assert!(written < 2_000, "the disk is not full after {written} values");
    };
    assert_eq!(refusal.kind(), ErrorKind::Unavailable, "{refusal:?}");
    assert!(refusal.message().contains("disk"), "{refusal}");
    for number in 0..written {
        let stored =
            provider.value(&scope, &key(number)).await.unwrap().expect("an acknowledged write is there");
        assert_eq!(stored.as_str(), value(number).as_str());
    }
    assert!(provider.value(&scope, &key(written)).await.unwrap().is_none());
    small.grow(64);
    provider.put(&scope, &key(written), value(written)).await.unwrap();
    provider.drop_scope(&scope).await.unwrap();
    println!("{written} values of 60,000 bytes, then: {refusal}");
}
