//! Clients of a single Redis do not expect redirections: the agent handles all of them, whatever
//! the nodes reply.

use super::*;

/// An agent that knows one node, which owns all slots, and a client of the agent.
pub(super) struct Pair {
    pub(super) agent: Agent,
    pub(super) link: usize,
    pub(super) client: usize,
    pub(super) now: Duration,
}

impl Pair {
    pub(super) fn new() -> Self {
        Self::within(Limits::default())
    }

    pub(super) fn within(limits: Limits) -> Self {
        let mut agent = Agent::new(&[address(0)], None, limits, 7, Duration::ZERO);
        let [(link, _)] = agent.wishes()[..] else { panic!("expected one requested connection") };
        agent.connected(link);
        let client = agent.open(SocketAddr::from(([127, 0, 0, 1], 99)));
        Self { agent, link, client, now: Duration::ZERO }
    }

    /// Replies to the next request at the node: to queries of the owner truthfully, to others with
    /// `answer`.
    fn node_answers(&mut self, mut answer: impl FnMut(&str) -> String) {
        let Some(output) = self.agent.link_output(self.link) else { return };
        let mut said = output.bytes().to_vec();
        output.advance(said.len());
        while let Some((request, taken)) =
            Decoder::default().decode(&said, &Limits::default()).expect("a command")
        {
            let text = format!("a {} myself,master - 0 0 1 connected 0-16383\n", address(0));
            let told = match request.name() {
                b"CLUSTER" => format!("${}\r\n{text}\r\n", text.len()),
                b"PING" => "+PONG\r\n".to_owned(),
                b"ASKING" => "+OK\r\n".to_owned(),
                _ => {
                    let words: Vec<_> = request.arguments().map(String::from_utf8_lossy).collect();
                    answer(&words.join(" "))
                }
            };
            // In pieces, as TCP may deliver it.
            for piece in told.as_bytes().chunks(64 << 10) {
                self.agent.node_receive(self.link, piece, self.now).expect("the protocol");
            }
            said.drain(..taken);
        }
    }

    /// The final reply to the client.
    pub(super) fn told(&mut self, line: &str, answer: &str) -> String {
        self.told_each(line, |_| answer.to_owned())
    }

    /// The same, where the reply of the node depends on its request.
    pub(super) fn told_each(
        &mut self,
        line: &str,
        mut answer: impl FnMut(&str) -> String,
    ) -> String {
        self.node_answers(&mut answer);
        let mut command = Vec::new();
        request::write_command(&mut command, &line.split(' ').collect::<Vec<_>>());
        self.agent.receive(self.client, &command, self.now).expect("the protocol");
        for _ in 0..2_000 {
            self.now += Duration::from_millis(5);
            self.agent.handle_timeout(self.now);
            self.node_answers(&mut answer);
            let output = self.agent.output(self.client).expect("a client");
            if !output.is_empty() {
                let told = String::from_utf8_lossy(output.bytes()).into_owned();
                output.advance(told.len());
                return told;
            }
        }
        panic!("the request is never answered");
    }
}

#[test]
fn what_led_nowhere_is_told_in_words_a_client_of_one_server_knows() {
    let slot = Slot::of(b"foo").number();
    for redirection in [
        format!("MOVED {slot} {}", address(0)),
        format!("ASK {slot} {}", address(0)),
        format!("MOVED {slot} node.example:6379"),
        format!("ASK {slot} node.example:6379"),
        "MOVED".to_owned(),
        "TRYAGAIN Multiple keys request during rehashing of slot".to_owned(),
    ] {
        let told = Pair::new().told("GET foo", &format!("-{redirection}\r\n"));
        let expected = format!("-CLUSTERDOWN Hash slot {slot} ");
        assert!(
            told.starts_with(&expected) && told.contains("state doctor"),
            "{redirection}: {told}"
        );
    }
    let told = Pair::new().told("GET foo", "-CLUSTERDOWN Hash slot not served\r\n");
    assert_eq!(told, "-CLUSTERDOWN Hash slot not served\r\n");
}

/// A client's script may return any error.
#[test]
fn no_node_is_asked_that_the_cluster_has_not_named() {
    let slot = Slot::of(b"foo").number();
    let stranger = SocketAddr::from(([10, 66, 66, 66], 6_379));
    for word in ["MOVED", "ASK"] {
        let mut pair = Pair::new();
        let told = pair.told("EVAL x 1 foo", &format!("-{word} {slot} {stranger}\r\n"));
        assert!(told.starts_with("-CLUSTERDOWN "), "{told}");
        assert_eq!(pair.agent.wishes(), []);
        assert_eq!(pair.told("GET foo", "$-1\r\n"), "$-1\r\n", "{word}: the slot is where it was");
    }
}
