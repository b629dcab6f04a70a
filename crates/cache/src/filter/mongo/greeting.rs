//! The parts of a greeting that may be repeated to another client.
//!
//! A driver sends `hello` on every new connection and every few seconds on its monitoring
//! connection, and considers a server that does not answer to be down.

use wire::mongo::{
    bson::{Document, Writer},
    request::Request,
};

use crate::filter::Form;

/// The form of a handshake, unless its reply is for this client alone.
pub(super) fn form(request: &Request<'_>) -> Option<Form> {
    let asks = |name| !matches!(request.body.element(name), Ok(None));
    if asks("speculativeAuthenticate") || asks("saslSupportedMechs") {
        return None;
    }
    Some(if request.name == "hello" { Form::New } else { Form::Old })
}

/// The lasting parts of a greeting; `None` if it cannot be read.
pub(super) fn lasting(greeting: &Document<'_>) -> Option<Vec<u8>> {
    let mut kept = Vec::new();
    let mut complete = true;
    Writer::write(&mut kept, |writer| {
        for element in greeting.elements() {
            match element {
                Ok(element) if is_lasting(element.name()) => writer.element(&element),
                Ok(_) => {}
                Err(_) => complete = false,
            }
        }
    });
    complete.then_some(kept)
}

/// Whether the field describes the server and not one connection or moment. Without
/// `topologyVersion` a driver polls instead of waiting for a change; without `compression` it sends
/// nothing that a later connection to the origin has not negotiated.
fn is_lasting(field: &[u8]) -> bool {
    !matches!(
        field,
        b"topologyVersion"
            | b"speculativeAuthenticate"
            | b"saslSupportedMechs"
            | b"compression"
            | b"connectionId"
            | b"$clusterTime"
            | b"operationTime"
    )
}
