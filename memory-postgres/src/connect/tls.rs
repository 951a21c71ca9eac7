//! TLS by rustls, following libpq's `sslmode`.
//!
//! The driver's adapter for rustls (`tokio-postgres-rustls`) depends on an X.509 parser and its dependencies, to read
//! one field of the server's certificate: the hash that binds SCRAM to the connection. That field is read here.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use memory_core::{Error, Result};
use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use sha2::{Digest as _, Sha256, Sha384, Sha512};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};

use crate::connect::address::{TlsOptions, Verify};

/// Opens TLS connections; cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Tls(Arc<ClientConfig>);

impl Tls {
    /// Fails with `invalid_argument` if a file cannot be used.
    pub(crate) fn new(options: &TlsOptions) -> Result<Self> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::internal("TLS cannot be set up").with_source(error))?
            .dangerous()
            .with_custom_certificate_verifier(verifier(options, provider)?);
        let mut config = match &options.client {
            None => builder.with_no_client_auth(),
            Some((certificate, key)) => {
                let key = PrivateKeyDer::from_pem_file(key).map_err(|_| unusable("sslkey"))?;
                builder
                    .with_client_auth_cert(certificates("sslcert", certificate)?, key)
                    .map_err(|error| unusable("sslcert").with_source(error))?
            }
        };
        if options.direct {
            config.alpn_protocols = vec![b"postgresql".to_vec()];
        }
        Ok(Self(Arc::new(config)))
    }
}

fn unusable(parameter: &str) -> Error {
    Error::invalid(format!(
        "the file that `{parameter}` of postgres.url names cannot be used; it must be readable, in PEM, and the key without \
         a password"
    ))
    .with_detail("parameter", parameter)
}

fn certificates(parameter: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>> {
    let read = CertificateDer::pem_file_iter(path)
        .and_then(|found| found.collect::<std::result::Result<Vec<_>, _>>())
        .map_err(|_| unusable(parameter))?;
    if read.is_empty() { Err(unusable(parameter)) } else { Ok(read) }
}

fn verifier(options: &TlsOptions, provider: Arc<CryptoProvider>) -> Result<Arc<dyn ServerCertVerifier>> {
    let chain: Arc<dyn ServerCertVerifier> = match (options.verify, &options.roots) {
        (Verify::Nothing, _) => return Ok(Arc::new(AnyName { chain: None, provider })),
        (_, None) => {
            Arc::new(rustls_platform_verifier::Verifier::new(Arc::clone(&provider)).map_err(|error| {
                Error::invalid("the system has no certificate authorities; name a file with `sslrootcert`")
                    .with_source(error)
            })?)
        }
        (_, Some(path)) => {
            let mut roots = RootCertStore::empty();
            for certificate in certificates("sslrootcert", path)? {
                roots.add(certificate).map_err(|error| unusable("sslrootcert").with_source(error))?;
            }
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider))
                .build()
                .map_err(|error| unusable("sslrootcert").with_source(error))?
        }
    };
    Ok(match options.verify {
        Verify::Authority => Arc::new(AnyName { chain: Some(chain), provider }),
        _ => chain,
    })
}

/// `verify-ca`: signed by a trusted authority, for any name. `prefer` and `require`, without `chain`: encrypted, but to
/// anyone.
#[derive(Debug)]
struct AnyName {
    chain: Option<Arc<dyn ServerCertVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for AnyName {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        match chain.verify_server_cert(end_entity, intermediates, name, ocsp, now) {
            // The name is checked after the chain.
            Err(rustls::Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            verdict => verdict,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        rustls::crypto::verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type TlsConnect = Handshake;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<Handshake> {
        Ok(Handshake { config: Arc::clone(&self.0), domain: domain.to_owned() })
    }
}

/// A handshake that has not started.
pub(crate) struct Handshake {
    config: Arc<ClientConfig>,
    domain: String,
}

type Shaking<S> = Pin<Box<dyn Future<Output = io::Result<Stream<S>>> + Send>>;

impl<S> TlsConnect<S> for Handshake
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Stream<S>;
    type Error = io::Error;
    type Future = Shaking<S>;

    fn connect(self, stream: S) -> Shaking<S> {
        Box::pin(async move {
            let name = ServerName::try_from(self.domain).map_err(|_| {
                io::Error::new(io::ErrorKind::InvalidInput, "the host's name is not valid for TLS")
            })?;
            let connector = tokio_rustls::TlsConnector::from(self.config);
            connector.connect(name, stream).await.map(|stream| Stream(Box::new(stream)))
        })
    }
}

/// An encrypted connection.
pub(crate) struct Stream<S>(Box<tokio_rustls::client::TlsStream<S>>);

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Stream<S> {
    fn channel_binding(&self) -> ChannelBinding {
        let (_, session) = self.0.get_ref();
        match session.peer_certificates().and_then(<[_]>::first).and_then(|der| end_point(der)) {
            Some(digest) => ChannelBinding::tls_server_end_point(digest),
            None => ChannelBinding::none(),
        }
    }
}

/// `tls-server-end-point` (RFC 5929, section 4.1): the certificate's digest with the hash of its signature, or with
/// SHA-256 if that is MD5 or SHA-1. `None` for signatures without their own hash, such as Ed25519.
fn end_point(certificate: &[u8]) -> Option<Vec<u8>> {
    // 1.2.840.113549.1.1.x: RSA; 1.2.840.10045.4.3.x: ECDSA.
    const RSA: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x0d, 0x01, 0x01];
    const ECDSA: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x03];
    const ECDSA_SHA1: &[u8] = &[0x2a, 0x86, 0x48, 0xce, 0x3d, 0x04, 0x01];
    let algorithm = signature_algorithm(certificate)?;
    let (last, family) = algorithm.split_last()?;
    match (family, *last) {
        (RSA, 4 | 5 | 11) | (ECDSA, 2) => Some(Sha256::digest(certificate).to_vec()),
        (RSA, 12) | (ECDSA, 3) => Some(Sha384::digest(certificate).to_vec()),
        (RSA, 13) | (ECDSA, 4) => Some(Sha512::digest(certificate).to_vec()),
        _ if algorithm == ECDSA_SHA1 => Some(Sha256::digest(certificate).to_vec()),
        _ => None,
    }
}

/// `Certificate ::= SEQUENCE { tbsCertificate SEQUENCE, signatureAlgorithm SEQUENCE { algorithm OBJECT IDENTIFIER, … }, … }`
fn signature_algorithm(certificate: &[u8]) -> Option<&[u8]> {
    let (fields, _) = element(certificate, 0x30)?;
    let (_, behind) = element(fields, 0x30)?;
    let (algorithm, _) = element(behind, 0x30)?;
    element(algorithm, 0x06).map(|(oid, _)| oid)
}

/// The content of the DER element at the start of `bytes`, and what follows it.
fn element(bytes: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (first, rest) = bytes.split_first()?;
    let (length, rest) = rest.split_first()?;
    if *first != tag {
        return None;
    }
    if *length < 0x80 {
        return rest.split_at_checked(usize::from(*length));
    }
    let (digits, rest) = rest.split_at_checked(usize::from(length & 0x7f))?;
    if digits.len() > 4 {
        return None;
    }
    let length = digits.iter().fold(0_usize, |length, digit| (length << 8) | usize::from(*digit));
    rest.split_at_checked(length)
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Stream<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buffer)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Stream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}
