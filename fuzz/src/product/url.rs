//! URLs of backends: any text is read or refused, and secrets are never shown.
//!
//! Lines: scheme, user, host, path, parameter, and what precedes and follows the secret.

use memory::BackendUrl;

const SECRET: &str = "hunter2";

/// Tries one URL, and places where a URL may carry a secret.
pub fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    any(&text);
    let mut lines = text.split('\n');
    let mut line = || lines.next().unwrap_or_default().replace(SECRET, "");
    let (scheme, user, host, path, parameter) = (line(), line(), line(), line(), line());
    if scheme.contains(':') {
        return;
    }
    let secret = format!("{}{SECRET}{}", line(), line());
    for url in [
        format!("{scheme}://{user}:{secret}@{host}/{path}?{parameter}=x"),
        format!("{scheme}:{user}:{secret}@{host}"),
        format!("{scheme}:{secret}@{host}?{parameter}"),
        format!("{scheme}://{host}/{path}#{secret}"),
    ] {
        hidden(&url);
    }
    // A value ends at the next parameter, and a path after a host at the first.
    if !secret.contains(['&', '?', '#']) && !parameter.contains(['&', '#']) {
        hidden(&format!("{scheme}:{path}?{parameter}={secret}"));
        hidden(&format!("{scheme}://{user}@{host}?x={secret}&{parameter}"));
        if !host.is_empty() && !host.starts_with('/') && !host.contains(['?', '#']) {
            hidden(&format!("{scheme}://{host}/{path}{secret}"));
        }
    }
}

fn any(text: &str) {
    match BackendUrl::parse(text) {
        Ok(url) => {
            assert_eq!(format!("{}:{}", url.scheme(), url.expose_rest()), text);
            assert!(url.to_string().starts_with(url.scheme()));
            for error in [url.decoded_path().err(), url.parameters().err()].into_iter().flatten() {
                assert!(!error.to_string().is_empty());
            }
            if let Ok(path) = url.decoded_path() {
                assert!(path.len() <= url.expose_rest().len() && !path.contains('\0'));
            }
        }
        Err(error) => assert!(text.len() < 24 || !error.to_string().contains(text)),
    }
}

fn hidden(text: &str) {
    any(text);
    match BackendUrl::parse(text) {
        Ok(url) => {
            for shown in [url.to_string(), format!("{url:?}")] {
                assert!(!shown.contains(SECRET), "{text} shows as {shown}");
            }
            for error in [url.decoded_path().err(), url.parameters().err()].into_iter().flatten() {
                assert!(!format!("{error} {error:?}").contains(SECRET), "{text}: {error}");
            }
        }
        Err(error) => assert!(!format!("{error} {error:?}").contains(SECRET), "{text}: {error}"),
    }
}
