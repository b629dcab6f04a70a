use store::{
    Faults, SimulatedDevice,
    device::carry_out,
    elastic::{Config, Elastic, Position, Sync},
};

use super::*;

const NOW: Duration = Duration::from_secs(1_700_000_000);

fn finish(shard: &mut Shard, device: &SimulatedDevice) {
    while let Some(command) = shard.store.poll_device(NOW) {
        shard.store.complete(carry_out(device, &command), NOW);
    }
}

/// Returns the position that the reply to a read of `key` waits for.
fn reads(shard: &mut Shard, key: &StoredKey) -> Position {
    shard.written = Position::default();
    shard.read(key, NOW);
    std::mem::take(&mut shard.written)
}

#[test]
fn what_is_read_is_durable_before_it_is_told() {
    let device = SimulatedDevice::new(1, Faults::default());
    let config = |sync| Config { sync, segment_bytes: 64 << 10, ..Config::default() };
    let open = || Elastic::open(config(Sync::Always), &device, NOW).expect("opens");
    let mut shard = Shard::new("shard", open());
    let (key, other) = (StoredKey::new(0, b"key"), StoredKey::new(0, b"other"));
    let none = Position::default();
    for value in [b"first", b"other"] {
        shard.load(&key, true, 1, NOW);
        shard.write(&key, value, None, 1, NOW).expect("written");
        let written = shard.written;
        assert_eq!(reads(&mut shard, &key), written, "another client would see it too early");
        assert_eq!(reads(&mut shard, &other), none, "no reply mentioned this key");
        finish(&mut shard, &device);
        assert_eq!(reads(&mut shard, &key), none);
    }
    shard.load(&key, true, 1, NOW);
    assert!(shard.remove(&key, 1, NOW).expect("removed"));
    let removed = shard.written;
    assert_eq!(reads(&mut shard, &key), removed, "its removal is not durable either");
    finish(&mut shard, &device);
    assert_eq!(reads(&mut shard, &key), none);

    // Data present at startup is durable, and the other modes do not wait.
    let mut shard = Shard::new("shard", open());
    shard.load(&other, true, 1, NOW);
    shard.write(&other, b"value", None, 1, NOW).expect("written");
    shard.store.set_sync(Sync::EverySecond);
    assert_eq!(reads(&mut shard, &other), none);
}
