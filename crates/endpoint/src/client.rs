//! The client's side: one request to an endpoint.

use std::error::Error;

use http_body_util::{BodyExt, Full, Limited};
use hyper::{
    Request, StatusCode,
    body::Bytes,
    client::conn::http1,
    header::{CONTENT_TYPE, HOST},
};
use hyper_util::rt::TokioIo;
use serde::Serialize;
use tokio::{net::TcpStream, time::timeout};

use super::CONNECTION_TIMEOUT;

/// Longest answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;

/// Posts `body` as JSON to `path` at `host_port`; returns status and body of the answer.
///
/// # Errors
/// There is no answer within 10 s.
pub async fn post(
    host_port: &str,
    path: &str,
    body: &impl Serialize,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let request = Request::post(path)
        .header(HOST, host_port)
        .header(CONTENT_TYPE, "application/json")
        .body(Full::new(Bytes::from(serde_json::to_vec(body)?)))?;
    exchange(host_port, request).await
}

/// Gets `path`; returns status and body of the answer.
///
/// # Errors
/// There is no answer within 10 s.
pub async fn get(
    host_port: &str,
    path: &str,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let request = Request::get(path).header(HOST, host_port).body(Full::default())?;
    exchange(host_port, request).await
}

async fn exchange(
    host_port: &str,
    request: Request<Full<Bytes>>,
) -> Result<(StatusCode, Bytes), Box<dyn Error + Send + Sync>> {
    let exchange = async {
        let stream = TcpStream::connect(host_port).await?;
        let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let response = sender.send_request(request).await?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?;
        Ok((status, body.to_bytes()))
    };
    timeout(CONNECTION_TIMEOUT, exchange)
        .await
        .unwrap_or_else(|_| Err(format!("no answer within {CONNECTION_TIMEOUT:?}").into()))
}
