//! TLS by rustls with the ring provider and the operating system's roots.

use std::sync::{Arc, OnceLock};

use memory_core::{Error, Result};
use rustls::client::Resumption;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{ClientConfig, RootCertStore};
use rustls_platform_verifier::Verifier;

/// Trusts only the system's roots. Reading and parsing them takes milliseconds, so a process does it once.
static SYSTEM: OnceLock<ClientConfig> = OnceLock::new();

/// TLS 1.2 and 1.3 with the system's roots and `extra` ones.
pub(crate) fn config(extra: Vec<CertificateDer<'static>>) -> Result<ClientConfig> {
    if !extra.is_empty() {
        return new_config(extra);
    }
    let mut config = match SYSTEM.get() {
        Some(config) => config.clone(),
        None => {
            let config = new_config(extra)?;
            SYSTEM.get_or_init(|| config).clone()
        }
    };
    // No client resumes the session of another.
    config.resumption = Resumption::default();
    Ok(config)
}

fn new_config(extra: Vec<CertificateDer<'static>>) -> Result<ClientConfig> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| Error::internal("TLS cannot be set up").with_source(error))?;
    let given = !extra.is_empty();
    let config = match Verifier::new_with_extra_roots(extra, provider) {
        Ok(verifier) => {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(verifier)).with_no_client_auth()
        }
        Err(error) if given => {
            return Err(
                Error::invalid("a root certificate cannot be used; check the file").with_source(error)
            );
        }
        // A machine without CA certificates can still use listed hosts without TLS. With TLS every certificate is
        // untrusted, and the error says so.
        Err(error) => {
            tracing::warn!(%error, "no root certificates on this system; every https call will be refused");
            builder.with_root_certificates(RootCertStore::empty()).with_no_client_auth()
        }
    };
    Ok(config)
}

/// The certificates of a PEM file.
pub(crate) fn parse_pem(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>> {
    let wrong = || Error::invalid("the root certificates are not PEM; give the `BEGIN CERTIFICATE` form");
    let certificates: Vec<_> =
        CertificateDer::pem_slice_iter(pem).collect::<std::result::Result<_, _>>().map_err(|_| wrong())?;
    if certificates.is_empty() { Err(wrong()) } else { Ok(certificates) }
}
