//! JWTs of an issuer played by the test.

use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::door::{Door, RULES};
use super::page::{Browser, sign_in};
use crate::support::service::Service;
use crate::support::user::User;

/// The modulus of an RSA key whose private half is gone, and two JWTs that it signed: for acme's agent ann, until 2100.
const RSA: &str = concat!(
    "v9KO0_6e7vKAG8W43HjhPOOQFyZufo-Q78ClrVLNr_PG19BL55XKrA5O8pKbvISi43StDIEqEMsc2JeMf3Voa8EaqvhK_FQcLEDNqpq53JDNZ-",
    "H8EV_usRL71H9Xp6hatQIsF5PjoLYGhLl1P6HwM5VBQGbHEP7aNZCdSYfUK_Vu7XKlr7ip8biSdX8b8YnqOuPMAGwanz0pSIBQmuY228s8aCks",
    "wXqb25otfHNeeBCDX3LSX-vrlGBZY6m3jo-p-eKkKqVEvAzQg9RMO5HCqPZy5qt6o5nmlZvYoPmXpeOvVWOR9SnIOaMrvVkZq1SGS50LkkTnJ6",
    "bleQIncvGPjQ",
);
const RS256: &str = concat!(
    "eyJhbGciOiAiUlMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJtZW1vcnkiLCAidGVuY",
    "W50IjogImFjbWUiLCAic3ViIjogImFubiIsICJleHAiOiA0MTAyNDQ0ODAwfQ.QCXqAXeHgSptp7Wk4wZujpQwP912Ap9cRgEko3kJEQc_i1kg",
    "VLA_eyAAwHARNIgyXexNkYb3bN2dWvhyEKM2_ScfcmWq1ftM3qVc99srnbSzvF_gXruuSFvEjSRdq35dWsFaThzP657WnL2UP08jtv7JHpdO-v",
    "GXd1TxJGiU2W77JzqRL8WwN-w9tWFcsNkvB0S3VyoB6NGu75HBqbTWsGPMu_tavsXdM6aNY7L0jeyuO7UwNLKTI0XoJWlPQomo8vuGwga0BrM9",
    "KpNu53Vv58qNXfBS23Nv5TIf80AUwLcBuL2SaUU-VqPnqvZzv8YIuWNVRzJEttrjv34ipbtS2w",
);
const PS256: &str = concat!(
    "eyJhbGciOiAiUFMyNTYiLCAia2lkIjogInJzYSJ9.eyJpc3MiOiAiaHR0cHM6Ly9pZC5leGFtcGxlIiwgImF1ZCI6ICJtZW1vcnkiLCAidGVuY",
    "W50IjogImFjbWUiLCAic3ViIjogImFubiIsICJleHAiOiA0MTAyNDQ0ODAwfQ.WhOsi7Ch9OfUtmseqEliQe9gih6NOmFr6LFbNQRrRIFw9UKq",
    "r3FsjqWx9c7S0CLZoh_m8pO_yH_0VxF4qq7zC2dxgEe2qFdT4JoO-55NcKabm8CMJkUejeTdvZfdVe7YjqJXSwIWExv4q6NT4cai2MsKwadhXS",
    "j_P3bV2u38nfSE576eAjmaoGAbbHGBS5qBrWekvyCIu_2Z75kjr2cvvoeLfcWFkmURKPn1E67Q7LRKG8i3Ael7dgbYJFVhMapMCSMqibRFKc9w",
    "9-G5sDu88tIxEYdsDuSQVoi4zsqAYMNborRZGTsAlbAz4G4iGFfsT90dr8NtlG3JzZWXWH_tVg",
);

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

/// A key of the issuer.
enum Signer {
    Es256(EcdsaKeyPair),
    EdDsa(Ed25519KeyPair),
}

impl Signer {
    fn es256() -> Self {
        let random = SystemRandom::new();
        let key = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        Self::Es256(
            EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, key.as_ref(), &random).unwrap(),
        )
    }

    fn eddsa() -> Self {
        let key = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new()).unwrap();
        Self::EdDsa(Ed25519KeyPair::from_pkcs8(key.as_ref()).unwrap())
    }

    fn jwk(&self, id: &str) -> Value {
        match self {
            Self::Es256(key) => {
                let point = key.public_key().as_ref();
                json!({"kty": "EC", "crv": "P-256", "kid": id, "use": "sig", "alg": "ES256",
                       "x": encoded(&point[1..33]), "y": encoded(&point[33..])})
            }
            Self::EdDsa(key) => {
                json!({"kty": "OKP", "crv": "Ed25519", "kid": id, "x": encoded(key.public_key())})
            }
        }
    }

    fn sign(&self, header: &Value, claims: &Value) -> String {
        let message = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
        let signature = match self {
            Self::Es256(key) => key.sign(&SystemRandom::new(), message.as_bytes()).unwrap().as_ref().to_vec(),
            Self::EdDsa(key) => key.sign(message.as_bytes()).as_ref().to_vec(),
        };
        format!("{message}.{}", encoded(signature))
    }

    fn jwt(&self, id: &str, claims: &Value) -> String {
        let algorithm = if matches!(self, Self::Es256(_)) { "ES256" } else { "EdDSA" };
        self.sign(&json!({"alg": algorithm, "typ": "JWT", "kid": id}), claims)
    }
}

fn now() -> i64 {
    i64::try_from(std::time::UNIX_EPOCH.elapsed().unwrap().as_secs()).unwrap()
}

/// The claims of ann's JWT, changed by this.
fn claims(change: Value) -> Value {
    let mut claims = json!({
        "iss": "https://id.example", "aud": ["other", "memory"], "tenant": "acme", "sub": "ann", "exp": now() + 600
    });
    for (name, value) in change.as_object().unwrap() {
        claims[name] = value.clone();
    }
    claims
}

const SECTION: &str = "[http.jwt]\nissuer = \"https://id.example\"\naudience = \"memory\"\n";

fn door(rules: &str, keys: &Value) -> Door {
    let user = User::new();
    user.file("jwks.json", json!({"keys": keys}).to_string());
    user.file("memory.toml", format!("{RULES}{SECTION}jwks = \"jwks.json\"\n{rules}"));
    Door::start(user, &[])
}

/// A bearer's response to a request: its status and code.
fn asks(door: &Door, token: &str, op: &str, body: &Value) -> (u16, String) {
    let bearer = format!("Bearer {token}");
    let answer =
        door.request("POST", &format!("/v1/ops/{op}"), &[("Authorization", &bearer)], &body.to_string());
    (answer.status, if answer.status == 200 { answer.body } else { answer.code() })
}

fn entry(tenant: &str, id: &str) -> Value {
    json!({"scope": {"tenant": tenant, "kind": "agent", "id": id}, "key": "k"})
}

#[test]
fn a_jwt_speaks_for_the_agent_that_it_names_with_each_algorithm() {
    let (ec, ed) = (Signer::es256(), Signer::eddsa());
    let rsa = json!({"kty": "RSA", "kid": "rsa", "n": RSA, "e": "AQAB"});
    // A key of another kind is left to others.
    let keys = json!([{"kty": "EC", "crv": "secp256k1", "x": "", "y": ""}, rsa, ec.jwk("ec"), ed.jwk("ed")]);
    let door = door("", &keys);
    for token in [
        ec.jwt("ec", &claims(json!({}))),
        ed.jwt("ed", &claims(json!({}))),
        RS256.to_owned(),
        PS256.to_owned(),
    ] {
        assert_eq!(asks(&door, &token, "get", &entry("acme", "ann")), (200, "null".to_owned()), "{token}");
        for (tenant, agent) in [("globex", "ann"), ("acme", "bob")] {
            assert_eq!(asks(&door, &token, "get", &entry(tenant, agent)), (403, "scope_denied".to_owned()));
        }
        assert_eq!(asks(&door, &token, "tenants", &json!({"limit": 1})).0, 403);
    }
    // Over MCP a renewed JWT is the same caller, but one with other rights is not.
    let session = door.session(&ec.jwt("ec", &claims(json!({}))));
    let renewed = ec.jwt("ec", &claims(json!({"exp": now() + 900})));
    assert_eq!(door.ok(&renewed, &session, json!({"op": "set", "key": "k", "value": 1}))["version"], 1);
    let other = ec.jwt("ec", &claims(json!({"sub": "bob"})));
    assert_eq!(
        door.post(&other, Some(&session), r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#).status,
        404
    );
    // Tokens are accepted beside.
    let token = door.token("ann", &["--tenant", "acme", "--agent", "ann"]);
    assert!(asks(&door, &token, "get", &entry("acme", "ann")).1.contains("\"value\":1"));
}

#[test]
fn what_is_not_genuine_or_not_for_this_server_or_not_in_force_is_refused() {
    let (ec, thief, another) = (Signer::es256(), Signer::es256(), Signer::es256());
    let public = ec.jwk("ec");
    let door = door(
        "",
        &json!([public, another.jwk("another"), {"kty": "RSA", "kid": "rsa", "n": RSA, "e": "AQAB"}]),
    );
    let good = ec.jwt("ec", &claims(json!({})));
    assert_eq!(asks(&door, &good, "get", &entry("acme", "ann")).0, 200);
    let header = |value: Value| ec.sign(&value, &claims(json!({})));
    let with = |change: Value| ec.jwt("ec", &claims(change));
    let without = |name: &str| {
        let mut claims = claims(json!({}));
        claims.as_object_mut().unwrap().remove(name);
        ec.jwt("ec", &claims)
    };
    let parts: Vec<&str> = good.split('.').collect();
    let altered = format!("{}.{}.{}", parts[0], encoded(claims(json!({"sub": "bob"})).to_string()), parts[2]);
    let none = format!("{}.{}.", encoded(r#"{"alg":"none","kid":"ec"}"#), parts[1]);
    let shared = |algorithm: &str| {
        // Signed with a secret that everybody knows: the public key.
        let message = format!("{}.{}", encoded(json!({"alg": algorithm, "kid": "ec"}).to_string()), parts[1]);
        let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, public["x"].as_str().unwrap().as_bytes());
        format!("{message}.{}", encoded(ring::hmac::sign(&key, message.as_bytes())))
    };
    for (what, token) in [
        ("another's key", thief.jwt("ec", &claims(json!({})))),
        ("altered", altered),
        ("none", none),
        ("HS256", shared("HS256")),
        ("a key of another algorithm", header(json!({"alg": "ES256", "kid": "rsa"}))),
        ("an algorithm of another key", header(json!({"alg": "RS256", "kid": "ec"}))),
        ("an unknown key", header(json!({"alg": "ES256", "kid": "none"}))),
        ("no key named among several", header(json!({"alg": "ES256"}))),
        ("its own key", header(json!({"alg": "ES256", "kid": "own", "jwk": thief.jwk("own")}))),
        ("critical", header(json!({"alg": "ES256", "kid": "ec", "crit": ["b64"]}))),
        ("expired", with(json!({"exp": now() - 60}))),
        ("for ever", without("exp")),
        ("expiry as text", with(json!({"exp": "4102444800"}))),
        ("not yet", with(json!({"nbf": now() + 60}))),
        ("not yet, as text", with(json!({"nbf": "0"}))),
        ("another audience", with(json!({"aud": "other"}))),
        ("no audience", without("aud")),
        ("another issuer", with(json!({"iss": "https://evil.example"}))),
        ("several issuers", with(json!({"iss": ["https://id.example"]}))),
        ("no tenant", without("tenant")),
        ("a tenant that is no text", with(json!({"tenant": ["acme"]}))),
        ("a tenant that is no id", with(json!({"tenant": ""}))),
        ("no agent", without("sub")),
        ("huge", with(json!({"more": "x".repeat(20_000)}))),
        ("no JSON", format!("{}.{}.{}", encoded("{"), parts[1], parts[2])),
        ("dots", "ey..".to_owned()),
    ] {
        assert_eq!(
            asks(&door, &token, "get", &entry("acme", "ann")),
            (401, "unauthenticated".to_owned()),
            "{what}"
        );
    }
    // Clocks may differ a little.
    for change in [json!({"exp": now() - 5}), json!({"nbf": now() + 5})] {
        assert_eq!(asks(&door, &with(change), "get", &entry("acme", "ann")).0, 200);
    }
}

#[test]
fn keys_of_two_types_share_an_id_and_one_without_may_be_the_only_one_of_its_type() {
    let (ec, ed) = (Signer::es256(), Signer::eddsa());
    let rsa = json!({"kty": "RSA", "kid": "rsa", "n": RSA, "e": "AQAB"});
    let door = door("", &json!([rsa, ec.jwk("rsa"), ed.jwk("rsa")]));
    let unnamed = ec.sign(&json!({"alg": "ES256"}), &claims(json!({})));
    let named = [&ec, &ed].map(|key| key.jwt("rsa", &claims(json!({}))));
    for token in [RS256.to_owned(), unnamed].into_iter().chain(named) {
        assert_eq!(asks(&door, &token, "get", &entry("acme", "ann")).0, 200, "{token}");
    }
    let stolen = Signer::es256().jwt("rsa", &claims(json!({})));
    assert_eq!(asks(&door, &stolen, "get", &entry("acme", "ann")).0, 401);
}

#[test]
fn claims_and_the_section_only_narrow() {
    let key = Signer::eddsa();
    let door = door(
        "user_claim = \"email\"\nops_claim = \"scope\"\nops = [\"get\", \"set\"]\nrate = 6\n",
        &json!([key.jwk("a")]),
    );
    let jwt = |change: Value| key.jwt("a", &claims(change));
    let reads = jwt(json!({"email": "ada", "scope": "openid get list"}));
    assert_eq!(asks(&door, &reads, "get", &entry("acme", "ann")).0, 200);
    let user = json!({"scope": {"tenant": "acme", "kind": "user", "id": "ada"}, "key": "k"});
    assert_eq!(asks(&door, &reads, "get", &user).0, 200);
    // `set` is not claimed, and `list` is not in the section.
    let set = json!({"scope": entry("acme", "ann")["scope"], "key": "k", "value": 1});
    assert_eq!(asks(&door, &reads, "set", &set), (403, "forbidden".to_owned()));
    let list = json!({"scope": entry("acme", "ann")["scope"]});
    assert_eq!(asks(&door, &reads, "list", &list), (403, "forbidden".to_owned()));
    for missing in [json!({"email": "ada"}), json!({"scope": "get"})] {
        assert_eq!(asks(&door, &jwt(missing), "get", &entry("acme", "ann")).0, 401);
    }
    for left in [true, true, false] {
        let answer = asks(&door, &reads, "get", &entry("acme", "ann"));
        assert_eq!(answer.0, if left { 200 } else { 429 }, "{answer:?}");
    }
}

/// An issuer that serves this key, what it serves, and a server that trusts it.
fn beside_issuer(old: &Signer) -> (Service, Arc<Mutex<Value>>, Door) {
    let served = Arc::new(Mutex::new(json!({"keys": [old.jwk("old")]})));
    let now_served = Arc::clone(&served);
    let issuer = Service::of(move |_| (200, now_served.lock().unwrap().clone()));
    let user = User::new();
    let address = issuer.address();
    user.file(
        "memory.toml",
        format!("{RULES}{SECTION}jwks = \"http://{address}/keys\"\n[egress]\nallow = [\"{address}\"]\n"),
    );
    (issuer, served, Door::start(user, &[]))
}

#[test]
fn keys_from_a_url_are_kept_and_read_again_for_an_unknown_key_but_not_for_each() {
    let (old, new) = (Signer::eddsa(), Signer::eddsa());
    let (issuer, served, door) = beside_issuer(&old);
    let get = |token: &str| asks(&door, token, "get", &entry("acme", "ann")).0;
    for _ in 0..3 {
        assert_eq!(get(&old.jwt("old", &claims(json!({})))), 200);
    }
    assert_eq!(issuer.asked().len(), 1);
    *served.lock().unwrap() = json!({"keys": [new.jwk("new")]});
    assert_eq!(get(&new.jwt("new", &claims(json!({})))), 200, "the issuer has another key now");
    assert_eq!(issuer.asked().len(), 2);
    for unknown in 0..30 {
        assert_eq!(get(&old.jwt(&format!("u{unknown}"), &claims(json!({})))), 401);
    }
    assert_eq!(get(&old.jwt("old", &claims(json!({})))), 401, "a key that was withdrawn");
    assert_eq!(issuer.asked().len(), 2, "nobody makes this server ask at will");
}

#[test]
fn a_jwt_signs_in_at_the_page_for_its_agent_and_its_session_ends_with_the_issuers_key() {
    let (old, new) = (Signer::es256(), Signer::eddsa());
    let (_issuer, served, door) = beside_issuer(&old);
    let jwt = old.jwt("old", &claims(json!({})));
    let mut set = entry("acme", "ann");
    set["value"] = json!("xylograph");
    assert_eq!(asks(&door, &jwt, "set", &set).0, 200);
    for wrong in [
        Signer::es256().jwt("old", &claims(json!({}))),
        old.jwt("old", &claims(json!({"exp": now() - 60}))),
        old.jwt("old", &claims(json!({"aud": "other"}))),
    ] {
        let refused = sign_in(&door, &wrong);
        assert_eq!((refused.status, refused.header("set-cookie")), (401, None), "{refused:?}");
    }

    let browser = Browser::signed_in(&door, &jwt);
    let page = browser.shown("/");
    assert!(page.contains("Scopes of this token") && !page.contains(&jwt), "{page}");
    assert!(browser.shown("/page/entry?kind=agent&id=ann&key=k").contains("xylograph"));
    let globex = Browser::signed_in(&door, &old.jwt("old", &claims(json!({"tenant": "globex"}))));
    assert!(!globex.get("/page/entry?kind=agent&id=ann&key=k").body.contains("xylograph"));
    for (browser, place) in [(&browser, "kind=agent&id=bob"), (&globex, "tenant=acme&kind=agent&id=ann")] {
        assert_eq!(browser.get(&format!("/page/entry?{place}&key=k")).status, 403, "{place}");
    }
    let delete = [("kind", "agent"), ("id", "ann"), ("key", "\"k\""), ("version", "1")];
    assert_eq!(browser.submit("/page/entry", &delete).status, 303);
    assert_eq!(asks(&door, &jwt, "get", &entry("acme", "ann")).1, "null");

    *served.lock().unwrap() = json!({"keys": [new.jwk("new")]});
    let renewed = Browser::signed_in(&door, &new.jwt("new", &claims(json!({}))));
    let ended = browser.get("/");
    assert!(ended.status == 401 && ended.body.contains("was revoked or has expired"), "{ended:?}");
    renewed.shown("/");
}

#[test]
fn a_server_does_not_start_with_keys_that_it_cannot_use() {
    for (keys, word) in [
        ("{}", "JWK Set"),
        (r#"{"keys": []}"#, "public key"),
        (r#"{"keys": [{"kty": "oct", "k": "c2VjcmV0", "alg": "HS256"}]}"#, "public key"),
    ] {
        let user = User::new();
        user.file("jwks.json", keys);
        user.file("memory.toml", format!("{RULES}{SECTION}jwks = \"jwks.json\"\n"));
        let ran = user.run(&["serve", "--http", "127.0.0.1:0"]);
        assert!(ran.code != Some(0) && ran.stderr.contains(word), "{ran:?}");
    }
}

#[test]
fn oauth_clients_are_told_who_issues_jwts_whatever_their_request_claims() {
    let key = Signer::es256();
    let door = door("resource = \"https://memory.example/mcp\"\n", &json!([key.jwk("a")]));
    let path = "/.well-known/oauth-protected-resource/mcp";
    let forged =
        [("X-Forwarded-Host", "evil.example"), ("Forwarded", "host=evil.example"), ("Host", "localhost")];
    let told = door.get(path, &forged);
    assert_eq!((told.status, told.header("content-type")), (200, Some("application/json")), "{told:?}");
    let told: Value = serde_json::from_str(&told.body).unwrap();
    assert_eq!(
        told,
        json!({"resource": "https://memory.example/mcp", "authorization_servers": ["https://id.example"],
               "bearer_methods_supported": ["header"]})
    );

    let at = format!("resource_metadata=\"https://memory.example{path}\"");
    let asked = |path: &str, token: &str| {
        let headers = [("Authorization", token), ("X-Forwarded-Host", "evil.example")];
        let answer = door.request("POST", path, headers.get(usize::from(token.is_empty())..).unwrap(), "{}");
        assert_eq!(answer.status, 401, "{answer:?}");
        answer.header("www-authenticate").unwrap().to_owned()
    };
    assert_eq!(asked("/mcp", ""), format!("Bearer {at}"));
    let expired = format!("Bearer {}", key.jwt("a", &claims(json!({"exp": now() - 60}))));
    assert_eq!(asked("/mcp", &expired), format!("Bearer error=\"invalid_token\", {at}"));
    // What is said of one resource is not said of another.
    assert_eq!(asked("/v1/ops/get", ""), "Bearer");
    assert_eq!(asked("/v1/ops/get", &expired), "Bearer error=\"invalid_token\"");
    assert_eq!(asked("/.well-known/oauth-protected-resource", ""), "Bearer");

    let bearer = format!("Bearer {}", key.jwt("a", &claims(json!({}))));
    let theirs =
        door.request("POST", "/v1/ops/get", &[("Authorization", &bearer)], &entry("acme", "bob").to_string());
    assert_eq!(
        (theirs.status, theirs.header("www-authenticate")),
        (403, Some("Bearer error=\"insufficient_scope\""))
    );
    let elsewhere = door.request("POST", "/mcp", &[("Host", "evil.example")], "{}");
    assert_eq!((elsewhere.status, elsewhere.header("www-authenticate")), (403, None));
}

#[test]
fn a_resource_is_a_url_of_mcp_and_needs_an_issuer_that_is_one() {
    let key = Signer::es256();
    for resource in [
        "https://memory.example",
        "memory.example/mcp",
        "http://memory.example/mcp",
        "https://memory.example/mcp?a",
        "https://a@memory.example/mcp",
        "https:///mcp",
        "https://memory.example:x/mcp",
        "https://memory.example/\\\"/mcp",
        "https://memory.example/{a}/mcp",
        "https://memory.example/:a/mcp",
    ] {
        let user = User::new();
        user.file("jwks.json", json!({"keys": [key.jwk("a")]}).to_string());
        user.file(
            "memory.toml",
            format!("{RULES}{SECTION}jwks = \"jwks.json\"\nresource = \"{resource}\"\n"),
        );
        let ran = user.run(&["serve", "--http", "127.0.0.1:0"]);
        assert!(ran.code != Some(0) && ran.stderr.contains("the URL of /mcp"), "{resource}: {ran:?}");
    }
    door("resource = \"http://[::1]:7077/under/mcp\"\n", &json!([key.jwk("a")]));
}
