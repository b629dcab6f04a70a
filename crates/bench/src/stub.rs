//! Servers that do almost nothing, for measuring others against: run as processes of their own.

use std::{
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
};

use clap::ValueEnum;

use crate::resp::{GET_BYTES, KEY_BYTES, write_value};

/// Which server.
#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum Kind {
    /// Answers as many bytes as the reply to a GET of 64 bytes has, for each GET's worth read
    Echo,
    /// Answers any GET with a value of 64 bytes and any PTTL with "no expiry"
    Origin,
}

/// Bytes of the values they answer.
pub(crate) const VALUE_BYTES: usize = 64;

/// Serves until killed: one thread for each connection, blocking.
pub(crate) fn serve(kind: Kind) -> io::Result<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    eprintln!("listening on {}", listener.local_addr()?);
    for stream in listener.incoming() {
        let stream = stream?;
        stream.set_nodelay(true)?;
        thread::spawn(move || {
            // A client that leaves ends its thread; nobody asks how.
            let _ = match kind {
                Kind::Echo => echo(stream),
                Kind::Origin => answer(stream),
            };
        });
    }
    Ok(())
}

fn echo(mut stream: TcpStream) -> io::Result<()> {
    let mut request = [0; GET_BYTES];
    let mut reply = Vec::new();
    write_value(&[b'0'; KEY_BYTES], VALUE_BYTES, &mut reply);
    loop {
        let mut read = 0;
        while read < GET_BYTES {
            read += match stream.read(&mut request[read..])? {
                0 => return Ok(()),
                count => count,
            };
        }
        // The start of a value is its key, so that the client can check this reply as any other.
        reply[5..5 + KEY_BYTES].copy_from_slice(&request[GET_BYTES - 2 - KEY_BYTES..GET_BYTES - 2]);
        stream.write_all(&reply)?;
    }
}

/// A GET has 36 bytes up to its key, a PTTL 37; both end in the key and a line break.
fn answer(mut stream: TcpStream) -> io::Result<()> {
    let mut received = vec![0; 256 << 10];
    let mut length = 0;
    let mut replies = Vec::with_capacity(received.len() * 2);
    loop {
        match stream.read(&mut received[length..])? {
            0 => return Ok(()),
            count => length += count,
        }
        let mut taken = 0;
        while length - taken >= GET_BYTES {
            let is_get = received[taken + 8] == b'G';
            let bytes = if is_get { GET_BYTES } else { GET_BYTES + 1 };
            if length - taken < bytes {
                break;
            }
            if is_get {
                let start = taken + bytes - 2 - KEY_BYTES;
                let key = received[start..start + KEY_BYTES].try_into().expect("its length");
                write_value(key, VALUE_BYTES, &mut replies);
            } else {
                replies.extend_from_slice(b":-1\r\n");
            }
            taken += bytes;
        }
        received.copy_within(taken..length, 0);
        length -= taken;
        stream.write_all(&replies)?;
        replies.clear();
    }
}

const _: () = assert!(VALUE_BYTES.is_multiple_of(KEY_BYTES));

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resp::value_reply_bytes;

    #[test]
    fn lengths_agree() {
        let mut reply = Vec::new();
        write_value(&[b'0'; KEY_BYTES], VALUE_BYTES, &mut reply);
        assert_eq!(reply.len(), value_reply_bytes(VALUE_BYTES));
        assert_eq!(&reply[..5], b"$64\r\n");
    }
}
