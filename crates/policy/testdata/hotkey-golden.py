"""Prints hotkey-golden.txt from docs/formats/hotkey.md alone: python3 hotkey-golden.py > FILE"""

MASK = (1 << 64) - 1


def split_mix(state):
    """Yields (sampling draw, output) pairs of SplitMix64."""
    while True:
        state = (state + 0x9E3779B97F4A7C15) & MASK
        x = ((state ^ (state >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
        yield x >> 48, x ^ (x >> 31)


OUTPUTS = split_mix(0)
FACTORS = [next(OUTPUTS)[1] | 1 for _ in range(16)]
SKETCH, FILTER = FACTORS[:8], FACTORS[8:]


def key_hash(key, seed):
    value = seed ^ len(key)
    for at in range(0, len(key), 8):
        word = int.from_bytes(key[at : at + 8].ljust(8, b"\0"), "little")
        value = ((value ^ word) * 0x9E3779B97F4A7C15) & MASK
        value ^= value >> 32
    value = (value * 0xBF58476D1CE4E5B9) & MASK
    return value ^ (value >> 32)


def place(value, factor, bits):
    return ((value * factor) & MASK) >> (64 - bits)


def checksum(data):
    """FNV-1a, so that a test compares a whole structure without storing it."""
    value = 0xCBF29CE484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001B3) & MASK
    return value


def detect(seed, share, threshold, accesses):
    """Reported positions, sketch and filter after accesses to keys, default sizes."""
    counters = [0] * (4 << 16)
    bits = bytearray((3 << 18) // 8)
    draws = split_mix(seed)
    reports = []
    for position in range(accesses):
        if next(draws)[0] >= share:
            continue
        value = key_hash(b"key:%d" % (position * position % 997), seed)
        estimate = 65535
        for row in range(4):
            at = (row << 16) + place(value, SKETCH[row], 16)
            counters[at] = min(counters[at] + 1, 65535)
            estimate = min(estimate, counters[at])
        if estimate < threshold:
            continue
        new = False
        for row in range(3):
            at = (row << 18) + place(value, FILTER[row], 18)
            new |= not bits[at // 8] >> (at % 8) & 1
            bits[at // 8] |= 1 << (at % 8)
        if new:
            reports.append(position)
    sketch = b"".join(counter.to_bytes(2, "little") for counter in counters)
    return reports, sketch, bytes(bits)


print("# Written by hotkey-golden.py. Numbers are hexadecimal where they start with 0x.")
print("# hash <seed> <key in hexadecimal, - for none> <hash> <8 places of 2^16, sketch> <8 places of 2^18, filter>")
KEYS = [b"", b"a", b"key:42", b"12345678", b"123456789", b"user:0000000001", bytes(16), bytes(range(250))]
for seed in (0, 0x0123456789ABCDEF):
    for key in KEYS:
        value = key_hash(key, seed)
        places = [place(value, factor, 16) for factor in SKETCH] + [place(value, factor, 18) for factor in FILTER]
        print("hash", f"{seed:#x}", key.hex() or "-", f"{value:#x}", *places)
print("# sample <seed> <share of 65536> <64 draws, 1 is sampled>")
for seed, share in ((0, 32768), (0x0123456789ABCDEF, 6554)):
    draws = split_mix(seed)
    print("sample", f"{seed:#x}", share, "".join(str(int(next(draws)[0] < share)) for _ in range(64)))
print("# detect <seed> <share> <threshold> <accesses; the key of access n is key:<n*n mod 997>>", end=" ")
print("<FNV-1a of the sketch's bytes> <of the filter's> <positions reported>")
for seed, share, threshold, accesses in ((0, 65536, 20, 12000), (0x0123456789ABCDEF, 32768, 8, 8000)):
    reports, sketch, bits = detect(seed, share, threshold, accesses)
    print("detect", f"{seed:#x}", share, threshold, accesses, f"{checksum(sketch):#x}", f"{checksum(bits):#x}", *reports)
