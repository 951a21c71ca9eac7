//! Signatures by ring, which TLS uses too; `jsonwebtoken` is built without its own cryptography.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwkUtils, JwtVerifier};
use jsonwebtoken::errors::{ErrorKind, Result};
use jsonwebtoken::signature::{Error, Verifier};
use jsonwebtoken::{Algorithm, AlgorithmFamily, DecodingKey, DecodingKeyKind};
use ring::signature::{self, RsaPublicKeyComponents, UnparsedPublicKey};

/// The accepted algorithms: only asymmetric ones, so that nobody can sign with a public key.
pub(super) const ACCEPTED: [Algorithm; 4] =
    [Algorithm::RS256, Algorithm::PS256, Algorithm::ES256, Algorithm::EdDSA];

static RING: CryptoProvider = CryptoProvider {
    signer_factory: |_, _| Err(ErrorKind::InvalidAlgorithm.into()),
    verifier_factory: verifier,
    jwk_utils: JwkUtils::new_unimplemented(),
};

/// Makes `jsonwebtoken` verify with ring, in the whole process.
pub(super) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Nothing else in this program installs one.
        let _ = RING.install_default();
    });
}

struct Ring {
    algorithm: Algorithm,
    key: DecodingKey,
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>> {
    if !ACCEPTED.contains(algorithm) {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(Ring { algorithm: *algorithm, key: key.clone() }))
}

impl Verifier<Vec<u8>> for Ring {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> std::result::Result<(), Error> {
        let verified = match (self.algorithm, self.key.family(), self.key.kind()) {
            (Algorithm::RS256, AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&signature::RSA_PKCS1_2048_8192_SHA256, message, signature)
            }
            (Algorithm::PS256, AlgorithmFamily::Rsa, DecodingKeyKind::RsaModulusExponent { n, e }) => {
                let key = RsaPublicKeyComponents { n, e };
                key.verify(&signature::RSA_PSS_2048_8192_SHA256, message, signature)
            }
            (Algorithm::ES256, AlgorithmFamily::Ec, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&signature::ECDSA_P256_SHA256_FIXED, key).verify(message, signature)
            }
            (Algorithm::EdDSA, AlgorithmFamily::Ed, DecodingKeyKind::SecretOrDer(key)) => {
                UnparsedPublicKey::new(&signature::ED25519, key).verify(message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| Error::new())
    }
}

impl JwtVerifier for Ring {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
