//! Sends an alert to the client when the key could not be used.
//!
//! BoringSSL ends a handshake whose private key method failed without an alert, and a browser then
//! only sees a broken connection. This is the only file with `unsafe`: the binding has no safe
//! call.
#![allow(unsafe_code)]

use boring::ssl::SslRef;
use boring_sys::{SSL_AD_INTERNAL_ERROR, SSL_send_fatal_alert};
use foreign_types::ForeignTypeRef;

/// Sends `internal_error`, which is what it is: the client did nothing wrong and may try again.
pub(crate) fn send_internal_error(ssl: &mut SslRef) {
    // SAFETY: the pointer is valid while `ssl` is borrowed, and the call is made in the midst of
    // the handshake, where BoringSSL itself sends alerts. A failure to send changes nothing: the
    // handshake fails either way.
    unsafe {
        SSL_send_fatal_alert(ssl.as_ptr(), SSL_AD_INTERNAL_ERROR as u8);
    }
}
