//! Hashes, layout and reports are those of docs/formats/hotkey.md, by vectors another
//! implementation wrote.

use policy::hotkey::{Bloom, Config, CountMin, Detector, Sampler, hash};

const GOLDEN: &str = include_str!("../testdata/hotkey-golden.txt");

fn number(text: &str) -> u64 {
    let parsed =
        text.strip_prefix("0x").map_or_else(|| text.parse(), |hex| u64::from_str_radix(hex, 16));
    parsed.unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn bytes(hex: &str) -> Vec<u8> {
    let pairs = hex.as_bytes().chunks_exact(2).filter(|_| hex != "-");
    pairs.map(|pair| number(&format!("0x{}", String::from_utf8_lossy(pair))) as u8).collect()
}

fn fnv(bytes: impl Iterator<Item = u8>) -> u64 {
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3)
    })
}

/// The fields after `what`, for each line that starts with it.
fn lines(what: &str) -> Vec<Vec<&'static str>> {
    let fields = GOLDEN.lines().map(|line| line.split(' ').collect::<Vec<_>>());
    let chosen: Vec<_> =
        fields.filter(|fields| fields[0] == what).map(|fields| fields[1..].to_vec()).collect();
    assert!(!chosen.is_empty(), "no line of {what}");
    chosen
}

#[test]
fn hashes_and_places() {
    for fields in lines("hash") {
        let hash = hash(&bytes(fields[1]), number(fields[0]));
        assert_eq!(hash, number(fields[2]), "{fields:?}");
        let mut sketch = CountMin::new(8, 16).expect("there are eight rows");
        let mut filter = Bloom::new(8, 18).expect("there are eight rows");
        sketch.add(hash);
        filter.insert(hash);
        for row in 0..8 {
            let place = number(fields[3 + row]) as usize;
            assert_eq!(sketch.counters()[(row << 16) + place], 1, "sketch row {row}: {fields:?}");
            let bit = (row << 18) + number(fields[11 + row]) as usize;
            assert_eq!(filter.words()[bit / 64], 1 << (bit % 64), "filter row {row}: {fields:?}");
        }
    }
}

#[test]
fn samples() {
    for fields in lines("sample") {
        let mut sampler = Sampler::new(number(fields[1]) as u32, number(fields[0]));
        let drawn: String = (0..64).map(|_| if sampler.sample() { '1' } else { '0' }).collect();
        assert_eq!(drawn, fields[2]);
    }
}

#[test]
fn reports_and_memory() {
    for fields in lines("detect") {
        let config = Config {
            sampled_per_65536: number(fields[1]) as u32,
            threshold: number(fields[2]) as u16,
            ..Config::default()
        };
        let mut detector =
            Detector::new(config, number(fields[0])).expect("the sizes are NetCache's");
        let hot = |position: &u64| {
            detector.observe(format!("key:{}", position * position % 997).as_bytes())
        };
        let reports: Vec<u64> = (0..number(fields[3])).filter(hot).collect();
        assert_eq!(reports, fields[6..].iter().map(|field| number(field)).collect::<Vec<_>>());
        let sketch = detector.sketch().counters().iter().flat_map(|counter| counter.to_le_bytes());
        assert_eq!(fnv(sketch), number(fields[4]));
        assert_eq!(
            fnv(detector.filter().words().iter().flat_map(|word| word.to_le_bytes())),
            number(fields[5])
        );
    }
}
