//! Services that DNS names: the SRV records of a service and the TXT records of its domain.
//!
//! Questions go to the name servers of `/etc/resolv.conf`, over UDP, and over TCP if the reply is
//! too long for that. The addresses of hosts are looked up by the C library, not here.

use std::{
    fs, io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    time::Duration,
};

use simple_dns::{CLASS, Name, Packet, PacketFlag, Question, RCODE, TYPE, rdata::RData};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpStream, UdpSocket},
    time::timeout,
};

use crate::random;

/// Where the name servers are listed.
const RESOLVER: &str = "/etc/resolv.conf";
/// Number of name servers that are asked, as by the C library.
const SERVERS_MAX: usize = 3;
/// Number of times that all of them are asked.
const ROUNDS: usize = 2;
/// Time for one reply, as by the C library.
const REPLY_MAX: Duration = Duration::from_secs(5);
/// Longest reply over UDP, without extensions.
const DATAGRAM_BYTES: usize = 512;
const PORT: u16 = 53;

/// What DNS has about a service.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Service {
    /// Its servers, each `host:port`.
    pub hosts: Vec<String>,
    /// The TXT records of its domain.
    pub texts: Vec<String>,
}

/// Looks up `service` (`_mongodb._tcp`) of `domain`.
///
/// # Errors
/// No name server answers, or the service does not exist.
pub async fn service(service: &str, domain: &str) -> io::Result<Service> {
    let servers = name_servers(&fs::read_to_string(RESOLVER).unwrap_or_default());
    let name = format!("{service}.{domain}");
    let hosts = look_up(&servers, &name, TYPE::SRV).await?;
    if hosts.is_empty() {
        let message = format!("expected SRV records of {name}, found none");
        return Err(io::Error::new(io::ErrorKind::NotFound, message));
    }
    Ok(Service { hosts, texts: look_up(&servers, domain, TYPE::TXT).await? })
}

/// The name servers in the text of `/etc/resolv.conf`.
fn name_servers(text: &str) -> Vec<SocketAddr> {
    let listed = text.lines().filter_map(|line| {
        let mut words = line.split_ascii_whitespace();
        let is_server = words.next() == Some("nameserver");
        words.next().filter(|_| is_server)?.parse::<IpAddr>().ok()
    });
    let mut servers: Vec<_> =
        listed.take(SERVERS_MAX).map(|address| SocketAddr::new(address, PORT)).collect();
    if servers.is_empty() {
        servers.push((Ipv4Addr::LOCALHOST, PORT).into());
    }
    servers
}

/// The records of `name`, as text; none if it has none of this type.
async fn look_up(servers: &[SocketAddr], name: &str, kind: TYPE) -> io::Result<Vec<String>> {
    let mut id = [0; 2];
    random::fill(&mut id);
    let question = question(u16::from_ne_bytes(id), name, kind)?;
    let mut failure = io::Error::other("no name server is known");
    for server in servers.iter().cycle().take(ROUNDS * servers.len()) {
        let reply = match timeout(REPLY_MAX, ask(*server, &question)).await {
            Ok(Ok(reply)) => reply,
            Ok(Err(error)) => {
                failure = io::Error::new(error.kind(), format!("name server {server}: {error}"));
                continue;
            }
            Err(_) => {
                failure = io::Error::new(
                    io::ErrorKind::TimedOut,
                    format!("name server {server}: no reply after {REPLY_MAX:?}"),
                );
                continue;
            }
        };
        match records(&reply).map_err(|error| malformed(&error))? {
            Ok(records) => return Ok(records),
            Err(RCODE::NameError) => return Ok(Vec::new()),
            Err(code) => {
                failure = io::Error::other(format!("name server {server}: {code:?} for {name}"));
            }
        }
    }
    Err(failure)
}

fn question(id: u16, name: &str, kind: TYPE) -> io::Result<Vec<u8>> {
    let build = || {
        let mut packet = Packet::new_query(id);
        packet.set_flags(PacketFlag::RECURSION_DESIRED);
        let name = Name::new(name)?;
        packet.questions.push(Question::new(name, kind.into(), CLASS::IN.into(), false));
        packet.build_bytes_vec()
    };
    build().map_err(|error: simple_dns::SimpleDnsError| malformed(&error))
}

/// The records in a reply, or why there are none.
fn records(reply: &[u8]) -> simple_dns::Result<Result<Vec<String>, RCODE>> {
    let reply = Packet::parse(reply)?;
    if reply.rcode() != RCODE::NoError {
        return Ok(Err(reply.rcode()));
    }
    let records = reply.answers.into_iter().filter_map(|record| match record.rdata {
        RData::SRV(server) => Some(format!("{}:{}", server.target, server.port)),
        RData::TXT(text) => String::try_from(text).ok(),
        // Of another name that the name stands for.
        _ => None,
    });
    Ok(Ok(records.collect()))
}

fn malformed(error: &simple_dns::SimpleDnsError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("malformed DNS message or name: {error}"))
}

async fn ask(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let ours: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((ours, 0)).await?;
    // Datagrams of other senders are not received.
    socket.connect(server).await?;
    socket.send(question).await?;
    let mut reply = vec![0; DATAGRAM_BYTES];
    loop {
        let length = socket.recv(&mut reply).await?;
        let answers = Packet::parse(&reply[..length]).is_ok_and(|packet| {
            packet.has_flags(PacketFlag::RESPONSE) && reply[..2] == question[..2]
        });
        // A reply that was cut short does not always parse.
        let is_cut = length > 2 && reply[..2] == question[..2] && reply[2] & 0b10 != 0;
        if is_cut {
            return ask_stream(server, question).await;
        }
        if answers {
            reply.truncate(length);
            return Ok(reply);
        }
    }
}

/// The same over TCP, where a length precedes each message.
async fn ask_stream(server: SocketAddr, question: &[u8]) -> io::Result<Vec<u8>> {
    let mut stream = TcpStream::connect(server).await?;
    let length = u16::try_from(question.len()).map_err(io::Error::other)?;
    stream.write_all(&[&length.to_be_bytes(), question].concat()).await?;
    let mut reply = vec![0; usize::from(stream.read_u16().await?)];
    stream.read_exact(&mut reply).await?;
    Ok(reply)
}

#[cfg(test)]
mod tests {
    use simple_dns::{
        ResourceRecord,
        rdata::{SRV, TXT},
    };
    use tokio::net::TcpListener;

    use super::*;

    /// The reply of a name server to `question`.
    fn answer(question: &[u8], hosts: u16) -> Vec<u8> {
        let asked = Packet::parse(question).expect("a question");
        let mut reply = Packet::new_reply(asked.id());
        let record = |data| {
            let name = Name::new_unchecked("set.example");
            ResourceRecord::new(name, CLASS::IN, 60, data)
        };
        if asked.questions[0].qtype == TYPE::SRV.into() {
            for port in 0..hosts {
                let target = Name::new_unchecked("member.set.example");
                let server = SRV { priority: 0, weight: 0, port, target };
                reply.answers.push(record(RData::SRV(server)));
            }
        } else {
            let text = TXT::new().with_string("replicaSet=").and_then(|it| it.with_string("rs"));
            reply.answers.push(record(RData::TXT(text.expect("short"))));
        }
        reply.questions.extend(asked.questions.clone());
        reply.build_bytes_vec().expect("a reply")
    }

    #[tokio::test]
    async fn records_are_read_over_udp_and_long_ones_over_tcp() {
        let stream = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let server = stream.local_addr().expect("bound");
        let socket = UdpSocket::bind(server).await.expect("the same port");
        let hosts = 40;
        let serve = async {
            let mut bytes = vec![0; DATAGRAM_BYTES];
            loop {
                let (length, client) = socket.recv_from(&mut bytes).await.expect("a question");
                let mut reply = answer(&bytes[..length], hosts);
                // A reply with another ID arrives first.
                let stray = [&[!reply[0], reply[1]], &reply[2..40]].concat();
                socket.send_to(&stray, client).await.expect("sent");
                let is_long = reply.len() > DATAGRAM_BYTES;
                if is_long {
                    reply[2] |= 0b10;
                    reply.truncate(DATAGRAM_BYTES);
                }
                socket.send_to(&reply, client).await.expect("sent");
                if is_long {
                    let (mut client, _) = stream.accept().await.expect("a client");
                    let mut bytes = vec![0; usize::from(client.read_u16().await.expect("length"))];
                    client.read_exact(&mut bytes).await.expect("a question");
                    let reply = answer(&bytes, hosts);
                    let length = u16::try_from(reply.len()).expect("short");
                    client.write_u16(length).await.expect("sent");
                    client.write_all(&reply).await.expect("sent");
                }
            }
        };
        let ask = async {
            // The first server is unreachable.
            let servers = ["127.0.0.1:1".parse().expect("an address"), server];
            let texts = look_up(&servers, "set.example", TYPE::TXT).await.expect("records");
            assert_eq!(texts, ["replicaSet=rs"]);
            let found = look_up(&servers, "_x._tcp.set.example", TYPE::SRV).await.expect("records");
            assert_eq!((found.len(), found[7].as_str()), (40, "member.set.example:7"));
        };
        tokio::select! {
            () = serve => unreachable!("it serves forever"),
            () = ask => {}
        }
    }

    #[test]
    fn name_servers_are_those_of_the_file() {
        let text = "# nameserver 9.9.9.9\nsearch example\nnameserver 127.0.0.53\nnameserver ::1\n\
                    nameserver fe80::1%eth0\nnameserver 10.0.0.1\nnameserver 10.0.0.2\n";
        let servers = name_servers(text);
        let shown: Vec<_> = servers.iter().map(ToString::to_string).collect();
        assert_eq!(shown, ["127.0.0.53:53", "[::1]:53", "10.0.0.1:53"]);
        assert_eq!(name_servers(""), ["127.0.0.1:53".parse().expect("an address")]);
    }
}
