//! A client that reads one document at a time and checks the replies.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
};

use anyhow::{Context, bail, ensure};
use wire::mongo::{
    bson::Writer,
    frame::{self, Limits},
    message,
    response::Response,
};

use super::origin::phrase;

pub(super) struct Client {
    stream: TcpStream,
    request_id: i32,
    request: Vec<u8>,
    reply: Vec<u8>,
}

impl Client {
    pub(super) fn connect(address: SocketAddr) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        Ok(Self { stream, request_id: 0, request: Vec::new(), reply: vec![0; 64 << 10] })
    }

    pub(super) fn hello(&mut self) -> anyhow::Result<()> {
        self.call(|command| command.i32("hello", 1), |_| Ok(()))
    }

    /// Reads the phrase under `key`.
    pub(super) fn find(&mut self, key: i32) -> anyhow::Result<()> {
        let command = |command: &mut Writer<'_>| {
            command.str("find", "randomPhrases");
            command.nested("filter", |filter| filter.i32("_id", key));
            command.i64("limit", 1);
            command.bool("singleBatch", true);
        };
        self.call(command, |response| {
            let document = response.cursor.context("expected a cursor in the reply to find")?;
            let document =
                document.document_first()?.context("expected the document in the reply")?;
            let found = document.element("phrase")?.and_then(|phrase| phrase.str());
            ensure!(
                found == Some(&phrase(key.into())),
                "key {key} has the phrase of another key: {found:?}"
            );
            Ok(())
        })
    }

    fn call(
        &mut self,
        command: impl FnOnce(&mut Writer<'_>),
        check: impl FnOnce(&Response<'_>) -> anyhow::Result<()>,
    ) -> anyhow::Result<()> {
        self.request_id += 1;
        let mut body = Vec::new();
        Writer::write(&mut body, |body| {
            command(body);
            body.str("$db", "demo");
        });
        self.request.clear();
        message::write(&mut self.request, self.request_id, 0, &body);
        self.stream.write_all(&self.request)?;
        let mut filled = 0;
        loop {
            let read = self.stream.read(&mut self.reply[filled..])?;
            if read == 0 {
                bail!("the cache closed the connection");
            }
            filled += read;
            let whole = frame::decode(&self.reply[..filled], &Limits::default())?;
            let Some((frame, _)) = whole else { continue };
            let response = Response::parse(&frame)?.context("expected a reply, got a request")?;
            ensure!(
                frame.header().response_to == self.request_id,
                "expected a reply to the last request, got another"
            );
            ensure!(response.ok, "refused: {}", response.failure.message);
            return check(&response);
        }
    }
}
