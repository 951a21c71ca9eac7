//! Certificates: which are trusted, and which are not.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use memory_core::{ErrorKind, Retry};
use memory_fakes::http::{Names, builder, read_request};
use memory_http::{Call, EgressPolicy, HttpClientBuilder, Limits, Method, RetryPolicy};
use rcgen::{Certificate, CertificateParams, Issuer, KeyPair};
use tokio::io::AsyncWriteExt as _;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};

/// A root, and a server at 127.0.0.1 with a certificate from it for `name`.
async fn server(name: &str) -> (SocketAddr, String) {
    server_at("127.0.0.1:0", name).await
}

async fn server_at(place: &str, name: &str) -> (SocketAddr, String) {
    let mut root = CertificateParams::new(Vec::new()).unwrap();
    root.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let root_key = KeyPair::generate().unwrap();
    let root_pem = root.self_signed(&root_key).unwrap().pem();
    let issuer = Issuer::new(root, root_key);
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    (showing(place, &leaf, &key).await, root_pem)
}

/// A server that shows this certificate.
async fn showing(place: &str, certificate: &Certificate, key: &KeyPair) -> SocketAddr {
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate.der().clone()], key)
        .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = tokio::net::TcpListener::bind(place).await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut stream) = acceptor.accept(stream).await else { return };
                if read_request(&mut stream).await.is_some() {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}").await;
                    let _ = stream.shutdown().await;
                }
            });
        }
    });
    address
}

fn listing(address: SocketAddr) -> HttpClientBuilder {
    let policy = EgressPolicy::new().allow_host(&format!("models.internal:{}", address.port())).unwrap();
    builder(policy).resolver(Names::answering(&["127.0.0.1"]))
}

fn call(address: SocketAddr) -> Call {
    Call::new(Method::Get, &format!("https://models.internal:{}/", address.port())).unwrap()
}

#[tokio::test]
async fn a_certificate_that_no_trusted_root_signed_is_refused_for_good() {
    let (address, _) = server("models.internal").await;
    let error = listing(address).build().unwrap().request(call(address)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never), "{error:?}");
    assert!(error.message().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_root_that_the_operator_gives_is_trusted_for_the_names_it_signed() {
    let (address, root) = server("models.internal").await;
    let client = listing(address).trust_pem(root.as_bytes()).unwrap().build().unwrap();
    assert!(client.request(call(address)).await.unwrap().is_success());

    let (address, root) = server("other.internal").await;
    let client = listing(address).trust_pem(root.as_bytes()).unwrap().build().unwrap();
    let error = client.request(call(address)).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable, "{error:?}");
    assert!(error.message().contains("certificate"), "{error}");
}

#[tokio::test]
async fn a_servers_certificate_that_is_an_authoritys_is_told_apart_although_it_is_trusted() {
    let mut own = CertificateParams::new(vec!["models.internal".to_owned()]).unwrap();
    own.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let own = own.self_signed(&key).unwrap();
    let address = showing("127.0.0.1:0", &own, &key).await;
    let client = listing(address).trust_pem(own.pem().as_bytes()).unwrap().build().unwrap();
    let error = client.request(call(address)).await.unwrap_err();
    assert_eq!((error.kind(), error.retry()), (ErrorKind::Unavailable, Retry::Never), "{error:?}");
    assert!(error.message().contains("CA:FALSE"), "{error}");
}

#[tokio::test]
async fn a_server_without_tls_is_not_spoken_to_in_clear() {
    let server = memory_fakes::http::Server::always(memory_fakes::http::reply(200, &[], b"{}")).await;
    let url = format!("https://{}/", server.address);
    let limits = Limits { connect_timeout: Duration::from_millis(300), ..Limits::default() };
    let retry = RetryPolicy { attempts: 1, ..RetryPolicy::default() };
    let client = builder(server.policy()).limits(limits).retry(retry).build().unwrap();
    let error = client.request(Call::new(Method::Get, &url).unwrap()).await.unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Unavailable | ErrorKind::Timeout), "{error:?}");
    assert_eq!(server.count(), 0);
}

#[test]
fn roots_that_are_no_certificates_are_refused() {
    for pem in ["", "not pem", "-----BEGIN PRIVATE KEY-----\nMAA=\n-----END PRIVATE KEY-----\n"] {
        let error = builder(EgressPolicy::new()).trust_pem(pem.as_bytes()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    }
    let odd = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    let built = builder(EgressPolicy::new()).trust_pem(odd.as_bytes()).and_then(HttpClientBuilder::build);
    assert_eq!(built.unwrap_err().kind(), ErrorKind::InvalidArgument);
}

/// A public address on this machine, in a network namespace without anyone else.
const PUBLIC: &str = "11.0.0.1";
const INSIDE: &str = "MEMORY_HTTP_TEST_INSIDE_NAMESPACE";

#[test]
fn a_public_name_is_reached_by_https_unlisted_and_only_at_its_public_address() {
    if std::env::var_os(INSIDE).is_some() {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(reach_public());
        return;
    }
    let namespace = |after: &str| {
        let script = format!("ip link set lo up && ip addr add {PUBLIC}/32 dev lo{after}");
        let mut command = std::process::Command::new("unshare");
        command.args(["-rn", "sh", "-c", &script]);
        command
    };
    if !namespace("").output().is_ok_and(|output| output.status.success()) {
        println!("skipped: no network namespace can be made here");
        return;
    }
    let status = namespace(" && exec \"$0\" \"$@\"")
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", "tls::a_public_name_is_reached_by_https_unlisted_and_only_at_its_public_address"])
        .env(INSIDE, "1")
        .status()
        .unwrap();
    assert!(status.success());
}

async fn reach_public() {
    let (address, root) = server_at(&format!("{PUBLIC}:0"), "api.example").await;
    let trap = tokio::net::TcpListener::bind(("127.0.0.1", address.port())).await.unwrap();
    let client = |answer: &[&str]| {
        builder(EgressPolicy::new())
            .resolver(Names::answering(answer))
            .trust_pem(root.as_bytes())
            .unwrap()
            .build()
            .unwrap()
    };
    let call = || Call::new(Method::Get, &format!("https://api.example:{}/", address.port())).unwrap();
    assert!(client(&[PUBLIC]).request(call()).await.unwrap().is_success());
    assert!(client(&["127.0.0.1", PUBLIC]).request(call()).await.unwrap().is_success());
    let error = client(&["127.0.0.1"]).request(call()).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EgressDenied);
    let accepted = tokio::time::timeout(Duration::from_millis(50), trap.accept()).await;
    assert!(accepted.is_err(), "the loopback address was connected to");

    let by_address = Call::new(Method::Get, &format!("https://{PUBLIC}:{}/", address.port())).unwrap();
    let error = client(&[]).request(by_address).await.unwrap_err();
    assert!(error.message().contains("certificate"), "reached, and its name is not the address: {error}");
}
