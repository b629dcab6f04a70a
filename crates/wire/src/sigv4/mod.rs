//! AWS Signature Version 4: whether a request was signed with a known secret access key.
//!
//! The signature covers the method, the body, and the headers that the client lists, among them
//! `host` and each header that begins with `x-amz-`. Requests whose target is not `/` and
//! signatures in the query are not verified. Those of version 4A are; none is made. Reference: AWS
//! General Reference, "Create a signed AWS API request".
//!
//! A request that stands in for one that was verified, with another body, is signed by the same
//! access key: [`Verifier::write_with_body`]. Requests of this program are signed as well:
//! [`Verifier::write`].
//!
//! **Read first:** [`signature`], then [`credentials`]. [`lent`] are access keys that expire.

mod asymmetric;
pub mod credentials;
pub mod lent;
mod replacement;
mod request;
pub mod signature;

pub use credentials::Credentials;
pub use request::Post;
pub use signature::{Refusal, Signer, Verifier};

#[cfg(test)]
mod tests;
