// A client that sends at the maximum rate of a processor, for BPF_PROG_TEST_RUN with live frames:
// `ask` turns every frame into the request with the next key and sends it out of an interface;
// `tally` counts the replies that arrive there and drops them.
#include "kernel.h"

enum { FRAME_BYTES_MAX = 256, DIGITS = 8 };

struct flood {
    u32 bytes;
    u32 interface;
    u32 keys;          // number of keys, a power of two
    u32 key_offset;    // position of the digits in the frame
    u64 asked;
    u8 frame[FRAME_BYTES_MAX];
};

struct tally {
    u64 answers;       // UDP from the port
    u64 found;         // answers whose payload has `word` at `offset`
    u16 port;          // network order
    u16 offset;
    u32 word;
};

struct { OF_TYPE(MAP_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct flood); } floods MAP;
struct { OF_TYPE(MAP_ARRAY); OF_ENTRIES(1); OF_KEY(u32); OF_VALUE(struct tally); } tallies MAP;

static long (*const redirect)(u32 interface, u64 flags) = (void *)23;

SECTION("xdp") int ask(struct xdp_md *context)
{
    u32 zero = 0;
    struct flood *flood = map_lookup(&floods, &zero);
    if (!flood)
        return XDP_ABORTED;
    u8 *to, *end;
    __asm__ volatile("%0 = *(u32 *)(%1 + 0)" : "=r"(to) : "r"(context));
    __asm__ volatile("%0 = *(u32 *)(%1 + 4)" : "=r"(end) : "r"(context));
    u8 *start = to;
    // The kernel reuses frames as they were sent.
    ROLLED
    for (u32 at = 0; at < FRAME_BYTES_MAX; at += 2) {
        if (at >= flood->bytes || to + 2 > end)
            break;
        *(u16 *)to = *(u16 *)&flood->frame[at];
        to += 2;
    }
    u32 number = ((u32)++flood->asked * 2654435761u >> 7) & (flood->keys - 1);
    u32 offset = flood->key_offset;
    if (offset > FRAME_BYTES_MAX - DIGITS)
        return XDP_ABORTED;
    u8 *key = start + offset;
    CHECKED(key);
    if (key + DIGITS > end)
        return XDP_ABORTED;
    UNROLL
    for (int digit = DIGITS - 1; digit >= 0; digit--) {
        key[digit] = '0' + number % 10;
        number /= 10;
    }
    return redirect(flood->interface, 0);
}

SECTION("xdp") int tally(struct xdp_md *context)
{
    u32 zero = 0;
    struct tally *tally = map_lookup(&tallies, &zero);
    u8 *start, *end;
    __asm__ volatile("%0 = *(u32 *)(%1 + 0)" : "=r"(start) : "r"(context));
    __asm__ volatile("%0 = *(u32 *)(%1 + 4)" : "=r"(end) : "r"(context));
    struct {
        struct ethernet ethernet;
        struct ipv4 ip;
        struct udp udp;
    } __attribute__((packed)) *reply = (void *)start;
    if (!tally || (u8 *)(reply + 1) > end || reply->ethernet.type != HTONS(TYPE_IPV4)
        || reply->ip.protocol != IP_UDP || reply->udp.source != tally->port)
        return XDP_PASS;
    tally->answers++;
    u8 *word = start + sizeof(*reply) + (tally->offset & 63);
    CHECKED(word);
    if (word + 4 <= end && *(u32 *)word == tally->word)
        tally->found++;
    return XDP_DROP;
}
