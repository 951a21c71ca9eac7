//! What may be reached, and what is sent along.

use std::sync::Arc;

use memory_core::{ErrorKind, Secret};
use memory_fakes::http::{Names, Server, builder, json, reply};
use memory_http::{AddressClass, Call, CallKind, Credential, EgressPolicy, Method, Origin};
use proptest::prelude::*;

fn get(url: &str) -> Call {
    Call::new(Method::Get, url).unwrap()
}

#[tokio::test]
async fn an_address_in_the_url_is_refused_in_every_spelling() {
    let client = builder(EgressPolicy::new()).build().unwrap();
    for host in [
        "127.0.0.1",
        "2130706433",
        "0x7f000001",
        "0x7f.1",
        "0177.0.0.1",
        "127.1",
        "127.0.1",
        "%31%32%37.0.0.1",
        "１２７.0.0.1",
        "127。0。0。1",
        "0",
        "0.0.0.0",
        "10.1.2.3",
        "172.16.0.1",
        "192.168.1.1",
        "100.64.0.1",
        "169.254.169.254",
        "0xa9fea9fe",
        "2852039166",
        "255.255.255.255",
        "224.0.0.1",
        "198.18.0.1",
        "192.0.2.1",
        "[::1]",
        "[::]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[::127.0.0.1]",
        "[64:ff9b::7f00:1]",
        "[64:ff9b:1::1]",
        "[2002:7f00:1::]",
        "[2001:0:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
        "[fc00::1]",
        "[ff02::1]",
    ] {
        let error = client.request(get(&format!("https://{host}/secret/path?key=1"))).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EgressDenied, "{host}: {error}");
        assert!(!format!("{error:?}").contains("secret"), "{error:?}");
    }
}

#[tokio::test]
async fn a_name_is_judged_by_the_address_it_resolves_to() {
    for address in
        ["127.0.0.1", "10.0.0.1", "169.254.169.254", "100.64.0.1", "::1", "::ffff:127.0.0.1", "64:ff9b::1"]
    {
        let names = Names::answering(&[address]);
        let client = builder(EgressPolicy::new()).resolver(Arc::clone(&names) as _).build().unwrap();
        let error = client.request(get("https://rebound.example/")).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EgressDenied, "{address}: {error:?}");
        assert!(!error.retry().is_retryable());
        assert_eq!(names.asked.lock().unwrap().len(), 1, "asked once: what was checked is what is used");
    }
}

#[tokio::test]
async fn a_listed_name_is_reached_at_a_private_address_on_its_port_alone() {
    let server = Server::always(json(&serde_json::json!({"ok": true}))).await;
    let port = server.address.port();
    let policy = EgressPolicy::new().allow_host(&format!("models.internal:{port}")).unwrap();
    let client = builder(policy).resolver(Names::answering(&["127.0.0.1"])).build().unwrap();
    let reply = client.request(get(&format!("http://models.internal:{port}/"))).await.unwrap();
    assert!(reply.is_success());

    let other = format!("https://models.internal:{}/", port.wrapping_add(1));
    assert_eq!(client.request(get(&other)).await.unwrap_err().kind(), ErrorKind::EgressDenied);
    let by_address = server.url("/");
    assert_eq!(client.request(get(&by_address)).await.unwrap_err().kind(), ErrorKind::EgressDenied);
    assert_eq!(server.count(), 1);
}

#[tokio::test]
async fn a_listed_name_does_not_lead_to_the_metadata_service() {
    let policy = EgressPolicy::new().allow_host("models.internal:80").unwrap();
    let client = builder(policy).resolver(Names::answering(&["169.254.169.254"])).build().unwrap();
    let error = client.request(get("http://models.internal/")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EgressDenied);
}

#[tokio::test]
async fn a_redirect_is_an_error_and_is_not_followed() {
    let target = Server::always(json(&serde_json::json!("reached"))).await;
    for location in [
        "http://169.254.169.254/latest/meta-data?token=s3cret".to_owned(),
        target.url("/elsewhere"),
        "/relative".to_owned(),
        "file:///etc/passwd".to_owned(),
    ] {
        for status in [301, 302, 303, 307, 308] {
            let server = Server::always(reply(status, &[("Location", &location)], b"")).await;
            let policy = server.policy().allow_host(&target.address.to_string()).unwrap();
            let client = builder(policy).build().unwrap();
            let error = client.request(get(&server.url("/"))).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::EgressDenied, "{status} {location}");
            assert!(error.message().contains("redirect"), "{error}");
            assert!(!format!("{error:?}").contains("s3cret"), "{error:?}");
            assert_eq!(server.count(), 1);
        }
    }
    assert_eq!(target.count(), 0);
}

#[test]
fn a_url_that_is_not_plain_https_or_http_is_refused_unquoted() {
    for url in [
        "",
        "localhost",
        "file:///etc/passwd",
        "ftp://h/",
        "gopher://h/",
        "unix:/run/x.sock",
        "data:,x",
        "//h/x",
        "https://",
        "https:h/x",
        "https:\\\\h\\x",
        "https://h\\@g/",
        "https:/h",
        "https:///x",
        "https://user@h/",
        "https://user:hunter2@h/",
        "https://:hunter2@h/",
        "http://[::1",
        "https://h\u{0}/",
        "https://h /",
        "ht\ntps://h/",
        "https://h/\r\nX: y",
        "https://h:99999/",
        "javascript:x",
    ] {
        let error = Call::new(Method::Get, url).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{url:?}");
        assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    }
    let long = format!("https://h/{}", "x".repeat(8_192));
    assert_eq!(Call::new(Method::Get, &long).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn plain_http_needs_a_listing() {
    let client = builder(EgressPolicy::new()).resolver(Names::answering(&["1.1.1.1"])).build().unwrap();
    let error = client.request(get("http://api.example/")).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::EgressDenied);
    assert!(error.message().contains("https"), "{error}");
}

#[tokio::test]
async fn a_credential_goes_to_its_own_origin_only() {
    let server = Server::always(json(&serde_json::json!({}))).await;
    let key = Secret::new("sk-very-secret");
    let own = Origin::of(&server.url("/")).unwrap();
    for other in ["http://127.0.0.1:1/", "https://127.0.0.1/", "http://localhost/"] {
        let other = Credential::bearer(Origin::of(other).unwrap(), &key).unwrap();
        let error = get(&server.url("/")).credential(other).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::EgressDenied);
        assert!(!format!("{error:?}").contains("very-secret"));
    }
    let call = get(&server.url("/")).credential(Credential::bearer(own.clone(), &key).unwrap()).unwrap();
    assert!(!format!("{call:?}").contains("very-secret"), "{call:?}");
    server.client().request(call).await.unwrap();
    let call =
        get(&server.url("/")).credential(Credential::header(own, "X-API-Key", "", &key).unwrap()).unwrap();
    server.client().request(call).await.unwrap();
    let requests = server.requests();
    assert_eq!(requests[0].header("authorization"), Some("Bearer sk-very-secret"));
    assert_eq!(requests[1].header("x-api-key"), Some("sk-very-secret"));
    assert_eq!(requests[1].header("authorization"), None);
}

#[test]
fn headers_that_carry_credentials_or_frame_the_message_are_not_set_by_hand() {
    for name in
        ["Authorization", "cookie", "X-API-Key", "Host", "content-length", "Transfer-Encoding", "Connection"]
    {
        let error = get("https://h/").header(name, "1").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument, "{name}");
    }
    for (name, value) in [("a b", "1"), ("", "1"), ("x", "1\r\ny: 2"), ("x", "\0")] {
        assert_eq!(get("https://h/").header(name, value).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    assert_eq!(get("https://h/").header("x", &"1".repeat(9_000)).unwrap_err().kind(), ErrorKind::TooLarge);
}

#[tokio::test]
async fn what_a_call_says_is_what_arrives() {
    let server = Server::always(json(&serde_json::json!({"answer": 42}))).await;
    let call = Call::new(Method::Patch, &server.url("/v1/items/7?x=1"))
        .unwrap()
        .kind(CallKind::Idempotent)
        .header("X-Agent", "a")
        .unwrap()
        .json(&serde_json::json!({"text": "é"}))
        .unwrap();
    let reply = server.client().request(call).await.unwrap();
    assert_eq!(reply.json::<serde_json::Value>().unwrap()["answer"], 42);
    let request = &server.requests()[0];
    assert!(request.head.starts_with("PATCH /v1/items/7?x=1 HTTP/1.1\r\n"), "{}", request.head);
    assert_eq!(request.header("content-type"), Some("application/json"));
    assert_eq!(request.header("x-agent"), Some("a"));
    assert_eq!(request.json()["text"], "é");
    assert_eq!(request.header("cookie"), None);
}

proptest! {
    #[test]
    fn every_spelling_of_an_address_is_judged_alike(bits in any::<u32>(), port in 1_u16..) {
        let [a, b, c, d] = bits.to_be_bytes();
        let address = std::net::Ipv4Addr::from(bits);
        let public = AddressClass::of(address.into()).is_public();
        let low = bits & 0x00ff_ffff;
        for spelling in [
            format!("{address}"),
            format!("{bits}"),
            format!("{bits:#x}"),
            format!("0{bits:o}"),
            format!("0x{a:x}.0x{b:X}.0x{c:02x}.{d}"),
            format!("0{a:o}.0{b:o}.{c}.{d}"),
            format!("{a}.{low}"),
            format!("{a}.{b}.{}", u16::from_be_bytes([c, d])),
            format!("{address}."),
        ] {
            let checked = EgressPolicy::new().check(&format!("https://{spelling}:{port}/"));
            prop_assert_eq!(checked.is_ok(), public, "{}", spelling);
        }
        let mapped = address.to_ipv6_mapped();
        let compatible = format!("::{address}");
        let nat64 = format!("64:ff9b::{address}");
        for spelling in [mapped.to_string(), compatible, nat64, format!("2002:{a:02x}{b:02x}:{c:02x}{d:02x}::1")] {
            let refused = EgressPolicy::new().check(&format!("https://[{spelling}]:{port}/")).is_err();
            prop_assert!(refused, "{}", spelling);
        }
    }

    #[test]
    fn no_url_makes_it_panic_and_none_unlisted_goes_in_clear(url in "(https?:|ftp:)?/{0,3}[ -~é]{0,60}") {
        if EgressPolicy::new().check(&url).is_ok() {
            prop_assert!(Origin::of(&url).unwrap().is_secure());
        }
    }

    #[test]
    fn no_listing_makes_it_panic_and_what_is_listed_is_reached(entry in "[a-z0-9.:\\[\\]*/-]{0,24}:[0-9]{0,6}") {
        if let Ok(policy) = EgressPolicy::new().allow_host(&entry) {
            let url = format!("http://{entry}/");
            prop_assert!(policy.check(&url).is_ok());
        }
    }
}
