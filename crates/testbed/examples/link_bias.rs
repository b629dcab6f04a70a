//! Accuracy of the relay: its bias (the excess of a round trip over the configured delay) and its
//! throughput. `cargo run --release -p testbed --example link_bias`
#![allow(clippy::print_stdout)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::thread;
use std::time::{Duration, Instant};

use testbed::link::{Relay, RelayConfig};

fn main() -> std::io::Result<()> {
    let echo = TcpListener::bind("127.0.0.1:0")?;
    let echo_at = echo.local_addr()?;
    thread::spawn(move || serve(&echo, true));
    let sink = TcpListener::bind("127.0.0.1:0")?;
    let sink_at = sink.local_addr()?;
    thread::spawn(move || serve(&sink, false));

    let direct = round_trips(echo_at, 20_000)?;
    println!("direct: round trip p50 {:?} p99 {:?}", direct.0, direct.1);
    println!("{:>9} {:>12} {:>12} {:>14} {:>14}", "asked", "p50", "p99", "bias p50", "bias p99");
    for (asked_us, count) in
        [(0, 20_000), (200, 5_000), (1_000, 2_000), (10_000, 300), (164_000, 60)]
    {
        let asked = Duration::from_micros(asked_us);
        let relay = Relay::start(RelayConfig::new(echo_at).round_trip(asked))?;
        let (p50, p99) = round_trips(relay.local_addr(), count)?;
        let (bias, bias_p99) = (p50.saturating_sub(asked), p99.saturating_sub(asked));
        println!("{asked:>9.1?} {p50:>12.1?} {p99:>12.1?} {bias:>14.1?} {bias_p99:>14.1?}");
    }

    println!("throughput direct: {:.0} Mbit/s", throughput(sink_at, 4_000_000_000)?);
    for (rtt_ms, rate, bytes) in [
        (0, None, 4_000_000_000),
        (10, None, 2_000_000_000),
        (0, Some(100_000_000), 25_000_000),
        (10, Some(1_000_000_000), 250_000_000),
    ] {
        let mut config = RelayConfig::new(sink_at).round_trip(Duration::from_millis(rtt_ms));
        config.up.bits_per_second = rate;
        let relay = Relay::start(config)?;
        let measured = throughput(relay.local_addr(), bytes)?;
        println!("throughput at {rtt_ms} ms, rate {rate:?}: {measured:.0} Mbit/s");
    }
    Ok(())
}

/// Answers every message (or, for a sink, the end of the stream).
fn serve(listener: &TcpListener, answers: bool) {
    for mut stream in listener.incoming().flatten() {
        thread::spawn(move || {
            let mut buffer = vec![0; 1 << 18];
            let _ = stream.set_nodelay(true);
            while let Ok(count) = stream.read(&mut buffer)
                && count > 0
            {
                if answers && stream.write_all(&buffer[..count]).is_err() {
                    return;
                }
            }
            let _ = stream.write_all(b"e");
        });
    }
}

fn round_trips(address: SocketAddr, count: usize) -> std::io::Result<(Duration, Duration)> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_nodelay(true)?;
    let mut message = [7; 64];
    let mut taken = Vec::with_capacity(count);
    stream.write_all(&message)?;
    stream.read_exact(&mut message)?; // the handshake
    for _ in 0..count {
        let sent = Instant::now();
        stream.write_all(&message)?;
        stream.read_exact(&mut message)?;
        taken.push(sent.elapsed());
    }
    taken.sort();
    Ok((taken[count / 2], taken[count * 99 / 100]))
}

/// In Mbit/s, from the first byte sent until the server has read the last.
fn throughput(address: SocketAddr, bytes: usize) -> std::io::Result<f64> {
    let mut stream = TcpStream::connect(address)?;
    let chunk = vec![1; 1 << 17];
    let started = Instant::now();
    for _ in 0..bytes.div_ceil(chunk.len()) {
        stream.write_all(&chunk)?;
    }
    stream.shutdown(std::net::Shutdown::Write)?;
    stream.read_exact(&mut [0; 1])?;
    Ok(bytes as f64 * 8.0 / 1e6 / started.elapsed().as_secs_f64())
}
