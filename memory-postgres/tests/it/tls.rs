//! TLS with a server certificate from a test authority: what each `sslmode` accepts.

use std::time::Duration;

use memory_core::{Error, HealthStatus, Provider as _};
use memory_postgres::{PostgresConfig, PostgresProvider};

use crate::support;
use crate::support::authority::Authority;
use crate::support::server::{self, Server};

async fn healthy(url: String) -> Result<(), Error> {
    let config = PostgresConfig::from_url(&url)?.with_wait_timeout(Duration::from_millis(500));
    let provider = PostgresProvider::open(config).await?;
    assert_eq!(provider.health().await?.status, HealthStatus::Ok);
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn each_sslmode_accepts_what_libpq_accepts() {
    let Some(programs) = server::programs(server::TLS_PROGRAMS) else { return };
    let authority = Authority::new();
    let (certificate, key) = authority.sign("db.test", &["db.test"]);
    let mut server = Server::new(&programs);
    server.configure("ssl = on\nssl_ca_file = 'ca.crt'\npassword_encryption = 'scram-sha-256'\n");
    server.file("server.crt", &certificate);
    server.file("server.key", &key);
    server.file("ca.crt", &authority.pem);
    server.admit(
        "host all postgres 127.0.0.1/32 trust\n\
         hostssl all app 127.0.0.1/32 scram-sha-256\n\
         hostssl all certified 127.0.0.1/32 cert\n",
    );
    server.start();
    let admin = support::connect(&server.url("postgres")).await;
    admin
        .batch_execute(
            "CREATE ROLE app LOGIN PASSWORD 'hunter2'; CREATE ROLE certified LOGIN; \
             GRANT CREATE ON DATABASE postgres TO app, certified",
        )
        .await
        .unwrap();

    let files = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = files.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let roots = write("ca.pem", &authority.pem);
    let others = write("others.pem", &Authority::new().pem);
    let (client_certificate, client_key) = authority.sign("certified", &[]);
    let (client_certificate, client_key) =
        (write("client.pem", &client_certificate), write("client.key", &client_key));
    // The name is the URL's, the address is loopback.
    let url = |user: &str, host: &str, query: &str| {
        format!(
            "postgres://{user}@{host}:{}/postgres?hostaddr=127.0.0.1&schema=of_{}&{query}",
            server.port,
            user.split(':').next().unwrap()
        )
    };
    let app = |host: &str, query: &str| healthy(url("app:hunter2", host, query));

    app("db.test", "sslmode=prefer").await.unwrap();
    app("db.test", "sslmode=require").await.unwrap();
    app("db.test", "sslmode=require&channel_binding=require").await.unwrap();
    app("other.test", &format!("sslmode=verify-ca&sslrootcert={roots}")).await.unwrap();
    app("db.test", &format!("sslmode=verify-full&sslrootcert={roots}")).await.unwrap();

    let refused = [
        ("other.test", format!("sslmode=verify-full&sslrootcert={roots}"), "TLS"),
        ("db.test", format!("sslmode=verify-full&sslrootcert={others}"), "TLS"),
        ("db.test", format!("sslmode=verify-ca&sslrootcert={others}"), "TLS"),
        ("db.test", format!("sslmode=require&sslrootcert={others}"), "TLS"),
        ("db.test", "sslmode=disable".to_owned(), "refuses this user"),
        ("db.test", "sslmode=verify-full&sslrootcert=/no/such/file".to_owned(), "sslrootcert"),
    ];
    for (host, query, said) in refused {
        let error = app(host, &query).await.unwrap_err();
        assert!(error.message().contains(said), "{host} {query}: {error:?}");
        assert!(!error.retry().is_retryable() && !format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let error = healthy(url("app:wrong", "db.test", "sslmode=require")).await.unwrap_err();
    assert_eq!(error.kind().code(), "unauthenticated");

    let query =
        format!("sslmode=verify-full&sslrootcert={roots}&sslcert={client_certificate}&sslkey={client_key}");
    healthy(url("certified", "db.test", &query)).await.unwrap();
    let without =
        healthy(url("certified", "db.test", &format!("sslmode=verify-full&sslrootcert={roots}"))).await;
    assert_eq!(without.unwrap_err().kind().code(), "unauthenticated");

    // By reference: the file is read, and a file that others can read is not used.
    let passwords = write("passwords", &format!("db.test:{}:postgres:app:hunter2\n", server.port));
    let by_file = format!("sslmode=require&passfile={passwords}");
    use std::os::unix::fs::PermissionsExt as _;
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o644)).unwrap();
    assert!(healthy(url("app", "db.test", &by_file)).await.unwrap_err().message().contains("0600"));
    std::fs::set_permissions(&passwords, std::fs::Permissions::from_mode(0o600)).unwrap();
    healthy(url("app", "db.test", &by_file)).await.unwrap();
}
