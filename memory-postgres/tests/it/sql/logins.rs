//! Logins of scope roles on a server that checks passwords: their passwords, changing the key while replicas run, and
//! changes to a role by others.

use std::time::Duration;

use hmac::{Hmac, KeyInit as _, Mac as _};
use memory_core::{Error, ErrorKind, Provider as _, Scope};
use memory_postgres::{PostgresConfig, PostgresProvider, SqlConfig, operator};
use sha2::Sha256;
use tempfile::NamedTempFile;
use tokio_postgres::Client;

use crate::support;
use crate::support::authority::Authority;
use crate::support::server::{self, Server};
use crate::support::sql::{self, exec};

const FIRST: &[u8; 32] = b"0123456789abcdef0123456789abcdef";
const SECOND: &[u8; 32] = b"fedcba9876543210fedcba9876543210";

fn key(bytes: &[u8]) -> NamedTempFile {
    let file = sql::key_file();
    std::fs::write(file.path(), bytes).unwrap();
    file
}

fn scope(name: &str) -> Scope {
    Scope::agent("acme", name).unwrap()
}

/// A role's password by a key, as described in docs/sql.md.
fn password(key: &[u8], role: &str) -> String {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).unwrap();
    mac.update(b"memory.sql.role.v1\0");
    mac.update(role.as_bytes());
    mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A server that trusts only its superuser.
async fn strict(programs: &str, hba: &str, settings: &str) -> Option<(Server, Client)> {
    let programs = server::programs(programs)?;
    let mut server = Server::new(&programs);
    server.configure(&format!("password_encryption = 'scram-sha-256'\n{settings}"));
    server.admit(&format!("host all postgres 127.0.0.1/32 trust\n{hba}"));
    server.start();
    let admin = support::connect(&server.url("postgres")).await;
    admin.batch_execute("CREATE DATABASE agents TEMPLATE template0").await.unwrap();
    let admin = support::connect(&server.url("agents")).await;
    Some((server, admin))
}

fn config(server: &Server, key: &NamedTempFile) -> PostgresConfig {
    let sql = SqlConfig::new(server.url("agents")).with_key_file(key.path());
    PostgresConfig::new(server.url("postgres")).with_sql(sql)
}

async fn role_of(admin: &Client, name: &str) -> String {
    let row = admin.query_one("SELECT 'mem_r_' || hex FROM mem_sql.scopes WHERE id = $1", &[&name]).await;
    row.unwrap().get(0)
}

/// Whether the server accepts the role's password.
async fn lets_in(server: &Server, role: &str, password: &str) -> bool {
    let url = format!("postgres://{role}:{password}@127.0.0.1:{}/agents", server.port);
    match tokio_postgres::connect(&url, tokio_postgres::NoTls).await {
        Ok(_) => true,
        Err(error) => {
            assert_eq!(
                error.code().map(|code| code.code().to_owned()).as_deref(),
                Some("28P01"),
                "{error:?}"
            );
            false
        }
    }
}

const SCRAM: &str = "host all all 127.0.0.1/32 scram-sha-256\n";

/// Closes the roles' sessions, so that they must log in again.
async fn end_sessions(admin: &Client) {
    let end =
        "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity WHERE usename::text LIKE 'mem\\_r\\_%'";
    admin.query(end, &[]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_logs_in_only_with_the_password_from_the_key() {
    let Some((server, admin)) = strict(server::PROGRAMS, SCRAM, "").await else { return };
    let key = key(FIRST);
    let provider = PostgresProvider::open(config(&server, &key)).await.unwrap();
    exec(&provider, &scope("a"), "CREATE TABLE t (n int)").await.unwrap();
    exec(&provider, &scope("b"), "CREATE TABLE t (n int)").await.unwrap();
    let (a, b) = (role_of(&admin, "a").await, role_of(&admin, "b").await);
    assert!(lets_in(&server, &a, &password(FIRST, &a)).await);
    assert!(!lets_in(&server, &a, &password(FIRST, &b)).await);
    assert!(!lets_in(&server, &a, &password(SECOND, &a)).await);
    let kept: String =
        admin.query_one("SELECT rolpassword FROM pg_authid WHERE rolname = $1", &[&a]).await.unwrap().get(0);
    assert!(kept.starts_with("SCRAM-SHA-256$"), "the server keeps no password");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_takes_over_while_replicas_use_the_old_one() {
    let Some((server, admin)) = strict(server::PROGRAMS, SCRAM, "").await else { return };
    let (old_key, new_key) = (key(FIRST), key(SECOND));
    let old = PostgresProvider::open(config(&server, &old_key)).await.unwrap();
    for name in ["a", "b"] {
        exec(&old, &scope(name), "CREATE TABLE t (n int)").await.unwrap();
    }
    let role = role_of(&admin, "a").await;
    // Replicas are restarted with the new key one by one; the others keep running.
    let new = PostgresProvider::open(config(&server, &new_key)).await.unwrap();
    for _ in 0..3 {
        for provider in [&new, &old] {
            assert_eq!(
                exec(provider, &scope("a"), "INSERT INTO t VALUES (1)").await.unwrap().rows_affected,
                1
            );
            end_sessions(&admin).await;
        }
    }
    old.close().await.unwrap();
    assert_eq!(exec(&new, &scope("a"), "DELETE FROM t").await.unwrap().rows_affected, 6);
    assert!(lets_in(&server, &role, &password(SECOND, &role)).await);
    assert!(!lets_in(&server, &role, &password(FIRST, &role)).await, "the old key is of no more use here");

    // An unused scope keeps the old password until all are changed.
    let untouched = role_of(&admin, "b").await;
    assert!(lets_in(&server, &untouched, &password(FIRST, &untouched)).await);
    assert_eq!(operator::rekey(&config(&server, &new_key)).await.unwrap(), 2);
    for role in [&role, &untouched] {
        assert!(!lets_in(&server, role, &password(FIRST, role)).await);
        assert!(lets_in(&server, role, &password(SECOND, role)).await);
    }
    assert_eq!(exec(&new, &scope("b"), "INSERT INTO t VALUES (1)").await.unwrap().rows_affected, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_to_a_role_are_repaired() {
    let Some((server, admin)) = strict(server::PROGRAMS, SCRAM, "").await else { return };
    let key = key(FIRST);
    let provider = PostgresProvider::open(config(&server, &key)).await.unwrap();
    exec(&provider, &scope("a"), "CREATE TABLE t (n int)").await.unwrap();
    let role = role_of(&admin, "a").await;
    for change in
        ["PASSWORD 'another'", "PASSWORD NULL", "NOLOGIN", "CONNECTION LIMIT 0", "VALID UNTIL '2001-01-01'"]
    {
        admin.batch_execute(&format!("ALTER ROLE {role} {change}")).await.unwrap();
        end_sessions(&admin).await;
        assert_eq!(
            exec(&provider, &scope("a"), "INSERT INTO t VALUES (1)").await.unwrap().rows_affected,
            1,
            "{change}"
        );
    }
    assert_eq!(exec(&provider, &scope("a"), "DELETE FROM t").await.unwrap().rows_affected, 5);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_rejects_roles_is_distinguished_from_a_missing_one() {
    let Some((server, _admin)) = strict(server::PROGRAMS, "", "").await else { return };
    let key = key(FIRST);
    let provider = PostgresProvider::open(config(&server, &key)).await.unwrap();
    let error = exec(&provider, &scope("a"), "CREATE TABLE t (n int)").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.message().contains("pg_hba.conf"), "{error:?}");
    assert!(!format!("{error:?}").contains(&password(FIRST, "mem_r_")[..8]), "{error:?}");
}

/// TLS with a checked name, channel binding, and a missing host in the list.
#[tokio::test(flavor = "multi_thread")]
async fn roles_connect_by_tls_and_find_the_running_host() {
    let authority = Authority::new();
    let Some(programs) = server::programs(server::TLS_PROGRAMS) else { return };
    let (certificate, key_of_server) = authority.sign("db.test", &["db.test"]);
    let mut server = Server::new(&programs);
    server.configure("ssl = on\npassword_encryption = 'scram-sha-256'\n");
    server.file("server.crt", &certificate);
    server.file("server.key", &key_of_server);
    server.admit("hostnossl all postgres 127.0.0.1/32 trust\nhostssl all all 127.0.0.1/32 scram-sha-256\n");
    server.start();
    let admin = support::connect(&server.url("postgres")).await;
    admin.batch_execute("CREATE DATABASE agents TEMPLATE template0").await.unwrap();
    admin.batch_execute("ALTER ROLE postgres PASSWORD 'hunter2'").await.unwrap();
    let roots = NamedTempFile::new().unwrap();
    std::fs::write(roots.path(), &authority.pem).unwrap();
    let key = key(FIRST);
    let open = async |host: &str, options: &str| {
        // Nothing listens on the first one.
        let agents = format!(
            "postgres://postgres:hunter2@{host}:1,{host}:{}/agents?hostaddr=127.0.0.1,127.0.0.1&{options}",
            server.port
        );
        let sql = SqlConfig::new(agents).with_key_file(key.path());
        let config = PostgresConfig::new(format!("{}?sslmode=disable", server.url("postgres"))).with_sql(sql);
        let config = config.with_wait_timeout(Duration::from_secs(2));
        let provider = PostgresProvider::open(config).await?;
        exec(&provider, &scope("a"), "CREATE TABLE IF NOT EXISTS t (n int)").await?;
        Ok::<_, Error>(exec(&provider, &scope("a"), "INSERT INTO t VALUES (1)").await?.rows_affected)
    };
    let checked = format!("sslmode=verify-full&sslrootcert={}", roots.path().display());
    assert_eq!(open("db.test", &format!("{checked}&channel_binding=require")).await.unwrap(), 1);
    let row = admin
        .query_one(
            "SELECT count(*) FROM pg_stat_ssl s JOIN pg_stat_activity a USING (pid) \
                               WHERE s.ssl AND a.usename::text LIKE 'mem\\_r\\_%'",
            &[],
        )
        .await
        .unwrap();
    println!("{} sessions of roles by TLS", row.get::<_, i64>(0));
    let error = open("other.test", &checked).await.unwrap_err();
    assert!(format!("{error:?}").contains("TLS"), "{error:?}");
    let error = open("db.test", "sslmode=disable").await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.message().contains("pg_hba.conf"), "{error:?}");
}
