//! Tells OAuth clients who issues JWTs for this server: protected resource metadata (RFC 9728), and challenges that
//! point to it (RFC 6750).

use axum::http::HeaderValue;
use memory::config::JwtSection;
use serde_json::json;

/// Where the metadata of a resource is: between its host and its path.
const WELL_KNOWN: &str = "/.well-known/oauth-protected-resource";

/// What is said of `/mcp`, all of it from the configuration: nothing that a request claims changes it.
#[derive(Debug)]
pub struct Resource {
    /// The path of the metadata.
    pub path: String,
    /// The metadata, as JSON.
    pub document: String,
    without_token: HeaderValue,
    with_invalid_token: HeaderValue,
}

impl Resource {
    pub(super) fn of(section: &JwtSection) -> Option<Self> {
        let resource = section.resource.as_deref()?;
        let (scheme, rest) = resource.split_once("://")?;
        let (host, path) = rest.split_once('/')?;
        let path = format!("{WELL_KNOWN}/{path}");
        let document = json!({
            "resource": resource,
            "authorization_servers": [section.issuer],
            "bearer_methods_supported": ["header"],
        });
        let at = format!("resource_metadata=\"{scheme}://{host}{path}\"");
        Some(Self {
            path,
            document: document.to_string(),
            without_token: HeaderValue::try_from(format!("Bearer {at}")).ok()?,
            with_invalid_token: HeaderValue::try_from(format!("{INVALID}, {at}")).ok()?,
        })
    }
}

const INVALID: &str = "Bearer error=\"invalid_token\"";

/// The challenge to a request without a valid token; `resource` if it was for `/mcp`.
pub(crate) fn challenge(resource: Option<&Resource>, has_token: bool) -> HeaderValue {
    match (resource, has_token) {
        (Some(resource), false) => resource.without_token.clone(),
        (Some(resource), true) => resource.with_invalid_token.clone(),
        (None, false) => HeaderValue::from_static("Bearer"),
        (None, true) => HeaderValue::from_static(INVALID),
    }
}
