//! RSA without padding, which the safe interface of the library does not offer and the
//! constant-time premaster needs. The one file here with `unsafe`.
#![allow(unsafe_code)]

use std::ptr::{self, NonNull};

use aws_lc_sys::{
    CBS, EVP_PKEY_free, EVP_PKEY_get1_RSA, EVP_parse_private_key, RSA, RSA_NO_PADDING, RSA_decrypt,
    RSA_free,
};

use crate::{Error, Result};

/// An RSA key as the C library holds it. Freed, it is wiped: the library wipes all it frees.
pub(crate) struct RawRsa(NonNull<RSA>);

// SAFETY: the library allows concurrent private operations on one key (rsa.h, "RSA objects are
// thread-safe for non-mutating functions"); nothing here mutates it.
unsafe impl Send for RawRsa {}
// SAFETY: as above.
unsafe impl Sync for RawRsa {}

impl RawRsa {
    /// Reads a PKCS #8 document in DER.
    pub(crate) fn from_pkcs8(der: &[u8]) -> Result<Self> {
        let mut bytes = CBS { data: der.as_ptr(), len: der.len() };
        // SAFETY: `bytes` spans `der`, which outlives the call. The key it returns is ours until it
        // is freed below; get1 takes a reference of its own.
        let rsa = unsafe {
            let key = EVP_parse_private_key(&raw mut bytes);
            if key.is_null() {
                return Err(Error::Key { got: "something else" });
            }
            let rsa = EVP_PKEY_get1_RSA(key);
            EVP_PKEY_free(key);
            rsa
        };
        NonNull::new(rsa).map(Self).ok_or(Error::Key { got: "a key that is not RSA's" })
    }

    /// The bare private operation, blinded by the library, on `encrypted`, as long as the modulus.
    /// Writes as many bytes to `block`. False if the number is not below the modulus, which its
    /// sender can see itself.
    pub(crate) fn decrypt(&self, encrypted: &[u8], block: &mut [u8]) -> bool {
        let mut written = 0;
        // SAFETY: pointers and lengths are those of live slices; the library writes `block.len()`
        // bytes at most.
        let outcome = unsafe {
            RSA_decrypt(
                self.0.as_ptr(),
                ptr::from_mut(&mut written),
                block.as_mut_ptr(),
                block.len(),
                encrypted.as_ptr(),
                encrypted.len(),
                RSA_NO_PADDING,
            )
        };
        outcome == 1 && written == block.len()
    }
}

impl Drop for RawRsa {
    fn drop(&mut self) {
        // SAFETY: the pointer came from the library and is not used again.
        unsafe { RSA_free(self.0.as_ptr()) }
    }
}

/// The bare public operation, to make cipher texts with any block inside.
#[cfg(test)]
pub(crate) fn encrypt_for_tests(public_key: &[u8], block: &[u8]) -> Vec<u8> {
    use aws_lc_sys::{EVP_parse_public_key, RSA_encrypt};
    let mut bytes = CBS { data: public_key.as_ptr(), len: public_key.len() };
    let mut encrypted = vec![0; block.len()];
    let mut written = 0;
    // SAFETY: as in `from_pkcs8` and `decrypt`.
    unsafe {
        let key = EVP_parse_public_key(&raw mut bytes);
        assert!(!key.is_null());
        let rsa = EVP_PKEY_get1_RSA(key);
        EVP_PKEY_free(key);
        let outcome = RSA_encrypt(
            rsa,
            ptr::from_mut(&mut written),
            encrypted.as_mut_ptr(),
            encrypted.len(),
            block.as_ptr(),
            block.len(),
            RSA_NO_PADDING,
        );
        RSA_free(rsa);
        assert_eq!((outcome, written), (1, block.len()));
    }
    encrypted
}
