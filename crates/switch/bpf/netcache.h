// NetCache's own protocol: docs/protocols/netcache.md.
#pragma once
#include "entry.h"
#include "operations.h"

enum flag {
    FLAG_LONG_KEY = 1,      // the key field is a hash; the value begins with the key
    FLAG_FOUND = 2,         // reply, update: the message has a value
    FLAG_SWITCH = 4,        // reply: answered by the switch
    FLAG_STORED = 8,        // ack: the value is served now, or the entry is invalid now
    FLAG_CACHED = 16,       // ack: the key is cached
};

struct netcache {
    u8 op, flags;
    u16 balance;            // keeps the checksum valid when the switch tags a write
    u32 sequence;
    struct name key;
    u64 version;
} __attribute__((packed));
_Static_assert(sizeof(struct netcache) == 32, "wire::netcache");

// Whether the `asked` bytes at `offset` are this entry's long key, after its length.
APART int same_long_key(struct xdp_md *context, u32 offset, u32 asked, u32 place)
{
    struct entry *entry = map_lookup(&entries, &place);
    if (!entry || offset > 256)
        return 0;
    u8 *at = start_of(context) + offset;
    void *end = end_of(context);
    u32 bytes = entry->key_bytes;
    // The bytes after the payload are padding.
    if (asked != bytes + 1 || (void *)(at + 1) > end || *at != bytes)
        return 0;
    at++;
    ROLLED
    for (u32 byte = 0; byte < KEY_BYTES_MAX; byte++) {
        if (byte >= bytes)
            return 1;
        if ((void *)(at + 1) > end || *at != entry->key[byte])
            return 0;
        at++;
    }
    return bytes == KEY_BYTES_MAX;
}

INLINE void report_hot(const struct netcache *header, const struct packet *packet, const u8 *server,
                       u64 hash, u32 estimate)
{
    struct scratch *scratch = scratch_of_processor();
    if (!scratch)
        return;
    struct report *report = &scratch->report;
    __builtin_memcpy(&report->name, &header->key, 16);
    __builtin_memcpy(report->server, server, 16);
    __builtin_memcpy(report->key, &header->key, 16);
    report->hash = hash;
    report->kind = REPORT_HOT;
    report->estimate = estimate;
    report->port = packet->destination;
    // The bytes of a long key come with the value from its server.
    report->key_bytes = header->flags & FLAG_LONG_KEY ? 0 : 16;
    report->protocol = PROTOCOL_NETCACHE;
    send_report(report);
}

INLINE int miss(struct processor *self, const struct netcache *header, const struct packet *packet,
                const u8 *server, u64 hash)
{
    self->counts[COUNT_MISS] += 1;
    u32 estimate = count_uncached(self, hash);
    if (UNLIKELY(estimate))
        report_hot(header, packet, server, hash, estimate);
    return XDP_PASS;
}

// Writes the header and checksum of a reply whose value is already in the frame.
INLINE int reply(struct xdp_md *context, const struct packet *packet, u32 op, u32 flags, u64 version,
                 u32 value_bytes, u64 sum)
{
    void *start = start_of(context), *end = end_of(context);
    struct netcache *header = start + packet->payload;
    if ((void *)(header + 1) > end)
        return XDP_DROP;
    // Operation, flags, balance 0.
    u32 *words = (u32 *)header, first = op | flags << 8;
    words[0] = first;
    header->version = version;
    sum += (u64)first + (u32)version + (version >> 32);
    UNROLL
    for (int word = 1; word < 6; word++)
        sum += words[word];
    if (!turn_round(start, end, packet, sizeof(*header) + value_bytes, sum))
        return XDP_DROP;
    return XDP_TX;
}

INLINE int answer_get(struct xdp_md *context, struct packet *packet, struct processor *self,
                      const struct netcache *header, const u8 *server)
{
    u64 hash = hash_of_name(&header->key);
    struct cached cached = find(&header->key, hash, server, packet->destination, PROTOCOL_NETCACHE);
    struct entry *entry = cached.entry;
    if (!entry)
        return miss(self, header, packet, server, hash);
    u32 flags = header->flags & FLAG_LONG_KEY;
    u32 frame_bytes = length_of(context);
    u64 version = READ_ONCE(entry->version);
    IN_ORDER();
    int valid = is_valid(entry, version);
    u32 offset = packet->payload + sizeof(*header);
    if (UNLIKELY(flags)) {
        if (!same_long_key(context, offset, packet->payload_bytes - sizeof(*header), cached.place))
            return miss(self, header, packet, server, hash);
    } else if (entry->key_bytes) {
        return miss(self, header, packet, server, hash);
    }
    // A key whose new value has not arrived yet is as hot as before.
    count_cached(self, cached.place);
    if (!valid) {
        self->counts[COUNT_INVALID] += 1;
        return XDP_PASS;
    }
    u32 lease = entry->lease;
    u64 *until_ns = map_lookup(&leases, &lease);
    if (!until_ns || now_coarse_ns() >= READ_ONCE(*until_ns)) {
        self->counts[COUNT_EXPIRED] += 1;
        return XDP_PASS;
    }
    u32 bytes = entry->value_bytes;
    u64 sum = entry->value_sum;
    flags |= FLAG_SWITCH | (entry->kind & KIND_ABSENT ? 0 : FLAG_FOUND);
    if (!make_room(context, offset + bytes, offset)) {
        self->counts[COUNT_NO_ROOM] += 1;
        return XDP_PASS;
    }
    int loaded = load_value(context, offset, entry->place, entry->bitmap, bytes);
    IN_ORDER();
    if (!loaded || READ_ONCE(entry->version) != version || !is_valid(entry, version)) {
        // The request is still in the frame: its long key is the beginning of the value.
        self->counts[COUNT_TORN] += 1;
        return loaded && resize(context, frame_bytes) ? XDP_PASS : XDP_DROP;
    }
    self->counts[COUNT_HIT] += 1;
    return reply(context, packet, OP_GET_REPLY, flags, 0, bytes, sum);
}

// Coherence, step 1: the write makes the entry invalid, and is tagged. The two bytes of balance
// keep the UDP checksum unchanged, whether it is complete or left to the network card.
INLINE int tag_write(struct packet *packet, struct netcache *header, const u8 *server)
{
    struct cached cached = find(&header->key, hash_of_name(&header->key), server, packet->destination,
                                PROTOCOL_NETCACHE);
    if (!cached.entry)
        return XDP_PASS;
    count(COUNT_WRITE);
    u64 tag = __sync_fetch_and_add(&cached.entry->version, 1) + 1;
    u16 *words = (u16 *)header, *version = words + 12;
    u64 before = 0, after = 0;
    before += words[0];
    UNROLL
    for (int word = 0; word < 4; word++)
        before += version[word];
    header->op = header->op == OP_PUT ? OP_PUT_CACHED : OP_DELETE_CACHED;
    header->version = __builtin_bswap64(tag);
    after += words[0];
    UNROLL
    for (int word = 0; word < 4; word++)
        after += version[word];
    header->balance = fold((u64)header->balance + before + (u16)~fold(after));
    return XDP_PASS;
}

// Step 3: the value of the write that carries the entry's tag. The value of an older write is
// acknowledged and dropped, since that of the newer write follows.
INLINE int take_update(struct xdp_md *context, struct packet *packet, const struct netcache *header,
                       const u8 *source)
{
    struct cached cached = find(&header->key, hash_of_name(&header->key), source, packet->source,
                                PROTOCOL_NETCACHE);
    struct entry *entry = cached.entry;
    u32 offset = packet->payload + sizeof(*header);
    u32 bytes = packet->payload_bytes - sizeof(*header);
    u64 version = __builtin_bswap64(header->version), carried = header->version;
    u32 flags = header->flags & FLAG_LONG_KEY, found = header->flags & FLAG_FOUND;
    u32 answer = flags | (entry ? FLAG_CACHED : 0);
    if (!entry || READ_ONCE(entry->version) != version) {
        count(COUNT_SUPERSEDED);
        goto acknowledge;
    }
    if (!is_valid(entry, version)) {
        if (!__sync_bool_compare_and_swap(&entry->writing, 0, 1))
            return XDP_DROP;   // another copy of it is being stored; the agent sends it again
        // While the entry is claimed no other processor stores a value, but one may have done so
        // before.
        int sum = READ_ONCE(entry->version) != version || is_valid(entry, version)
            ? NO_ROOM : store_value(context, offset, entry->place, entry->bitmap, bytes);
        if (sum != NO_ROOM) {
            entry->value_bytes = bytes;
            entry->value_sum = sum;
            entry->kind = PROTOCOL_NETCACHE | (found ? 0 : KIND_ABSENT);
            IN_ORDER();
            WRITE_ONCE(entry->valid_version, version);
            count(COUNT_UPDATE);
        }
        IN_ORDER();
        WRITE_ONCE(entry->writing, 0);
    }
    answer |= is_valid(entry, version) ? FLAG_STORED : 0;
acknowledge:
    if (!resize(context, offset))
        return XDP_DROP;
    return reply(context, packet, OP_UPDATE_ACK, answer, carried, 0, 0);
}

// For a write that reached its server without a tag: makes the entry invalid and returns a tag. The
// agent must know a version of this entry close to the newest one; for a key that is not cached its
// version is returned.
INLINE int take_invalidate(struct xdp_md *context, struct packet *packet,
                           const struct netcache *header, const u8 *source)
{
    struct cached cached = find(&header->key, hash_of_name(&header->key), source, packet->source,
                                PROTOCOL_NETCACHE);
    u32 offset = packet->payload + sizeof(*header);
    u32 flags = header->flags & FLAG_LONG_KEY;
    u64 tag = __builtin_bswap64(header->version);
    if (cached.entry) {
        if (READ_ONCE(cached.entry->version) - tag > TAGS_AHEAD_MAX) {
            count(COUNT_FORGED);
            return XDP_DROP;
        }
        count(COUNT_WRITE);
        tag = __sync_fetch_and_add(&cached.entry->version, 1) + 1;
        flags |= FLAG_CACHED | FLAG_STORED;
    }
    if (!resize(context, offset))
        return XDP_DROP;
    return reply(context, packet, OP_INVALIDATE_ACK, flags, __builtin_bswap64(tag), 0, 0);
}

// Whether the packet arrived on an interface to servers: messages of agents are accepted only
// there.
INLINE int is_from_servers(struct xdp_md *context)
{
    u32 zero = 0, interface = context->ingress_ifindex;
    struct shared *all = map_lookup(&shared, &zero);
    if (!all)
        return 0;
    UNROLL
    for (u32 number = 0; number < SERVER_INTERFACES_MAX; number++) {
        if (READ_ONCE(all->server_interfaces[number]) == interface)
            return 1;
    }
    return 0;
}

// Handles operations that clients may not send. Of these only messages of agents can arrive: those
// of this program and the controller originate here.
INLINE int take_other(struct xdp_md *context, struct packet *packet, struct processor *self,
                      const struct netcache *header, const u8 *source)
{
    u32 op = header->op;
    if (op > 31 || !(1u << op & OPS)) {
        self->counts[COUNT_OPAQUE] += 1;
        return XDP_PASS;
    }
    if (!(1u << op & OPS_OF_AGENTS) || !is_from_servers(context)) {
        self->counts[COUNT_FORGED] += 1;
        return XDP_DROP;
    }
    if (op == OP_UPDATE)
        return take_update(context, packet, header, source);
    if (op == OP_INVALIDATE)
        return take_invalidate(context, packet, header, source);
    // It goes to a client that uses this port.
    self->counts[COUNT_OPAQUE] += 1;
    return XDP_PASS;
}

INLINE int netcache(struct xdp_md *context, struct packet *packet)
{
    void *start = start_of(context), *end = end_of(context);
    struct netcache *header = start + packet->payload;
    u8 source[16] __attribute__((aligned(8))), server[16] __attribute__((aligned(8)));
    struct processor *self = this_processor();
    if (!self)
        return XDP_PASS;
    self->counts[COUNT_PACKETS] += 1;
    if (packet->payload_bytes < sizeof(*header) || (void *)(header + 1) > end)
        goto opaque;
    if (!addresses(start, end, packet, source, server))
        goto opaque;
    u32 value_bytes = packet->payload_bytes - sizeof(*header);
    switch (header->op) {
    case OP_GET:
        if (value_bytes && !(header->flags & FLAG_LONG_KEY))
            goto opaque;
        return answer_get(context, packet, self, header, server);
    case OP_PUT:
    case OP_DELETE:
        return tag_write(packet, header, server);
    default:
        return take_other(context, packet, self, header, source);
    }
opaque:
    self->counts[COUNT_OPAQUE] += 1;
    return XDP_PASS;
}
