//! Traces, as a collector receives them.

use std::sync::mpsc::{Receiver, channel};

use serde_json::{Value, json};

use super::door::{Door, RULES};
use crate::support::service::Service;
use crate::support::user::User;

/// A caller's trace, and its span in it.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const PARENT: &str = "b7ad6b7169203331";

/// What a collector was sent: the path, the kind of its body, the body.
type Sent = (String, String, Vec<u8>);

fn collector() -> (Service, String, Receiver<Sent>) {
    let (send, sent) = channel();
    let service = Service::of(move |asked| {
        let kind = asked.header("content-type").unwrap_or_default().to_owned();
        let _ = send.send((asked.path.join("/"), kind, asked.raw.clone()));
        (200, json!({}))
    });
    let url = format!("http://{}", service.address());
    (service, url, sent)
}

fn attribute<'a>(span: &'a Value, name: &str) -> &'a Value {
    let all = span["attributes"].as_array().unwrap();
    all.iter().find(|one| one["key"] == name).map_or(&Value::Null, |one| &one["value"])
}

#[test]
fn a_request_and_its_operations_are_spans_of_the_callers_trace_and_hold_nothing_of_a_tenant() {
    let (_service, url, sent) = collector();
    let user = User::new();
    user.file("memory.toml", RULES);
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", url.as_str()), ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/json")];
    let mut door = Door::start_in(user, &[], &variables);
    let token = door.token("ann", &["--tenant", "acme", "--agent", "ann"]);
    let bearer = format!("Bearer {token}");
    let parent = format!("00-{TRACE}-{PARENT}-01");
    let headers = [
        ("Authorization", bearer.as_str()),
        ("traceparent", parent.as_str()),
        ("Content-Type", "application/json"),
    ];
    let path = "/v1/tenants/acme/agent/ann/entries/secret-key";
    let put = door.request("PUT", path, &headers, "\"secret-value\"");
    door.request("GET", path, &headers, "");
    door.signal("TERM");
    assert!(door.ended().0.success());

    let mut spans = Vec::new();
    for (path, kind, body) in sent.try_iter() {
        assert_eq!((path.as_str(), kind.as_str()), ("v1/traces", "application/json"));
        let text = String::from_utf8(body).unwrap();
        for word in ["acme", "ann", "secret", &token] {
            assert!(!text.contains(word), "{word}: {text}");
        }
        let body: Value = serde_json::from_str(&text).unwrap();
        for resource in body["resourceSpans"].as_array().unwrap() {
            assert_eq!(attribute(&resource["resource"], "service.name")["stringValue"], "memory");
            for scope in resource["scopeSpans"].as_array().unwrap() {
                spans.extend(scope["spans"].as_array().unwrap().clone());
            }
        }
    }
    let named = |name: &str| {
        spans.iter().find(|span| span["name"] == name).unwrap_or_else(|| panic!("{name}: {spans:#?}"))
    };
    let request = named("PUT /v1/*");
    assert_eq!((&request["traceId"], &request["parentSpanId"]), (&json!(TRACE), &json!(PARENT)));
    assert_eq!(attribute(request, "http.response.status_code")["intValue"], put.status.to_string());
    let operation = named("set");
    assert_eq!((&operation["traceId"], &operation["parentSpanId"]), (&json!(TRACE), &request["spanId"]));
    assert_eq!(attribute(operation, "db.system.name")["stringValue"], "sqlite");
    named("GET /v1/*");
    named("get");
}

#[test]
fn commands_send_traces_where_the_environment_says_so_and_what_is_not_understood_is_told() {
    let (_service, url, sent) = collector();
    let user = User::new();
    let run = |variables: &[(&str, &str)]| {
        let mut command = user.command(&["--url", "sqlite:m.db", "set", "k", "1"]);
        let ended = command.envs(variables.iter().copied()).output().unwrap();
        assert!(ended.status.success());
        let told = String::from_utf8(ended.stderr).unwrap();
        (told, sent.try_iter().map(|(path, kind, _)| (path, kind)).collect::<Vec<_>>())
    };
    let endpoint = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", format!("{url}/here"));
    let endpoint = (endpoint.0, endpoint.1.as_str());
    let one = vec![("here".to_owned(), "application/x-protobuf".to_owned())];
    assert_eq!(run(&[endpoint]), (String::new(), one));
    assert_eq!(run(&[]), (String::new(), Vec::new()));
    assert_eq!(run(&[endpoint, ("OTEL_SDK_DISABLED", "true")]), (String::new(), Vec::new()));
    assert_eq!(run(&[endpoint, ("OTEL_TRACES_EXPORTER", "none")]), (String::new(), Vec::new()));
    let (told, sent) = run(&[endpoint, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    assert_eq!(
        told,
        "memory: no traces are sent: OTEL_EXPORTER_OTLP_PROTOCOL is `grpc`; it can be http/protobuf or http/json\n"
    );
    assert!(sent.is_empty());
}
