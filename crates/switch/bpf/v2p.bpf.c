// A SwitchV2P switch: resolves, learns from and tags passing packets, then forwards them.
//
// XDP cannot send additional packets: it writes a request before the frame, which the traffic
// control program that runs after it executes. A packet without a route that XDP can use is passed
// to the kernel with its changes.
//
// Newest kernel features used: bpf_xdp_adjust_meta (4.15), bpf_fib_lookup (4.18).
#include "v2p/route.h"
#include "v2p/rules.h"

static long (*const xdp_adjust_meta)(void *context, int delta) = (void *)54;
static long (*const clone_redirect)(void *context, u32 interface, u64 flags) = (void *)13;
static long (*const skb_change_tail)(void *context, u32 bytes, u64 flags) = (void *)38;
static long (*const skb_store_bytes)(void *context, u32 offset, const void *from, u32 bytes, u64 flags) = (void *)9;

enum { TC_ACT_SHOT = 2 };

enum { NOTE_MAGIC = 0x7632704e };

// An additional packet to send: the request from XDP to traffic control.
struct note {
    u32 magic;
    u32 kind;
    u32 destination, vip, address;
    u32 unused;
};

// The packet is for a server or gateway of this rack.
INLINE int is_attached(u32 known)
{
    return has(RULE_IS_TOR) && known & ADDRESS_ATTACHED;
}

INLINE u32 known_address(u32 pip)
{
    u32 address = pip ^ address_top;
    u32 *known = map_lookup(&addresses, &address);
    return known ? *known : 0;
}

// Forwards the frame with one hop less; the kernel handles frames that cannot be forwarded.
INLINE int forward(struct xdp_md *context, const struct seen *seen, const struct header *header)
{
    u32 source = address_from(header->source_pip), destination = address_from(header->destination_pip);
    struct fib fib = fib_of(seen, source, destination, context->ingress_ifindex);
    int found = seen->hops > 1 && !fib_lookup(context, &fib, sizeof(fib), 0);
    if (!write_frame(context, seen, header, found))
        return XDP_DROP;
    if (!found)
        return XDP_PASS;
    struct ether *ether = start_of(context);
    if ((void *)(ether + 1) > end_of(context))
        return XDP_DROP;
    __builtin_memcpy(ether->destination, fib.to, 6);
    __builtin_memcpy(ether->source, fib.from, 6);
    return redirect(fib.interface, 0);
}

// Writes the request for traffic control before the frame. An additional packet that cannot be
// requested is not sent.
INLINE int leave_note(struct xdp_md *context, const struct seen *seen, const struct header *header,
                      const struct outcome *outcome)
{
    if (!write_frame(context, seen, header, 0))
        return XDP_DROP;
    if (xdp_adjust_meta(context, -(int)sizeof(struct note)))
        return XDP_PASS;
    struct note *note = POINTER_AT(context, 8);
    if ((void *)(note + 1) > start_of(context))
        return XDP_PASS;
    int learning = outcome->emit == EMIT_LEARNING;
    *note = (struct note){
        .magic = NOTE_MAGIC,
        .kind = learning ? CONTROL_LEARNING : CONTROL_INVALIDATION,
        .destination = learning ? address_from(header->source_pip) : HTONL(first_address + outcome->culprit),
        .vip = HTONL(outcome->vip),
        .address = address_from(outcome->pip),
    };
    return XDP_PASS;
}

// Handles a learning or invalidation packet. Only switches send them; from a host they are dropped.
INLINE int control(struct xdp_md *context, const struct seen *seen, const struct header *header)
{
    struct datagram *udp = start_of(context) + OUTER_BYTES;
    struct control *control = (void *)(udp + 1);
    if ((void *)(control + 1) > end_of(context) || seen->option
        || HTONS(udp->bytes) != sizeof(*udp) + sizeof(*control) || control->magic != HTONL(CONTROL_MAGIC)) {
        count(V2P_COUNT_MALFORMED);
        return XDP_DROP;
    }
    u32 vip = HTONL(control->vip), pip = pip_from(control->address);
    u64 *line = line_of(vip);
    if (!vip || !is_physical(pip) || !line) {
        count(V2P_COUNT_MALFORMED);
        return XDP_DROP;
    }
    if (control->kind == CONTROL_INVALIDATION) {
        count(V2P_COUNT_INVALIDATED);
        cache_invalidate(line, vip, pip);
        if (seen->destination != HTONL(own_address))
            return forward(context, seen, header);
        count(V2P_COUNT_ARRIVED);
        return XDP_DROP;
    }
    if (!is_attached(known_address(header->destination_pip)))
        return forward(context, seen, header);
    count(V2P_COUNT_ARRIVED);
    cache_put(line, vip, pip);
    return XDP_DROP;
}

// Handles a packet from a host of this rack. A packet with the source address of another server was
// misdelivered to this one: it is tagged (paper, 3.3). 0 if it has content that only switches send.
INLINE int from_host(const struct seen *seen, struct header *header, const struct port *port)
{
    if (port->is_gateway)
        return 1;
    u32 pip = port->address ^ address_top;
    if (header->tag_pip || header->misdelivered_from)
        return 0;
    if (header->source_pip == pip && !seen->returned)
        return !header->hit;
    count(V2P_COUNT_MISDELIVERED);
    header->misdelivered_from = pip;
    return 1;
}

INLINE void count_packet(u32 hit)
{
    u32 zero = 0;
    struct counts *counts = map_lookup(&counters, &zero);
    if (!counts)
        return;
    counts->of[V2P_COUNT_PACKETS] += 1;
    counts->of[V2P_COUNT_HITS] += hit;
}

INLINE int tunnelled(struct xdp_md *context, struct seen *seen, struct header *header)
{
    struct outcome outcome = {0};
    u32 known = known_address(header->destination_pip);
    header->resolved = !(known & ADDRESS_GATEWAY);
    process(header, &outcome);
    seen->returned = 0;
    count_packet(outcome.hit);
    if (has(RULE_IS_TOR) && address_from(header->destination_pip) != seen->destination)
        known = known_address(header->destination_pip);
    // Content for switches is removed here. The hit tag returns if the packet does.
    if (is_attached(known) && !(known & ADDRESS_GATEWAY))
        header->tag_vip = header->tag_pip = header->promotion = header->misdelivered_from = 0;
    if (is_tagged(header) && !seen->option) {
        if (add_option(context)) {
            seen->option = OPTION_BYTES;
            seen->bytes += OPTION_BYTES;
        } else {
            count(V2P_COUNT_NO_ROOM);
        }
    }
    if (outcome.emit == EMIT_NOTHING)
        return forward(context, seen, header);
    count(outcome.emit == EMIT_LEARNING ? V2P_COUNT_LEARNING : V2P_COUNT_INVALIDATIONS);
    int is_here = outcome.emit == EMIT_LEARNING ? is_attached(known_address(header->source_pip))
                                                : outcome.culprit == own_id;
    return is_here ? forward(context, seen, header) : leave_note(context, seen, header, &outcome);
}

SECTION("xdp") int pass_switch(struct xdp_md *context)
{
    struct seen seen = {0};
    struct header header = {0};
    enum kind kind = read_frame(start_of(context), end_of(context), &seen, &header);
    if (kind == OTHER)
        return XDP_PASS;
    u32 interface = context->ingress_ifindex;
    struct port *port = has(RULE_IS_TOR) ? map_lookup(&ports, &interface) : 0;
    if (port && !port->address)
        port = 0;
    header.from_fabric = !port;
    if (kind == MALFORMED) {
        count(V2P_COUNT_MALFORMED);
        return XDP_DROP;
    }
    if (kind == CONTROL) {
        if (!port)
            return control(context, &seen, &header);
        count(V2P_COUNT_FORGED);
        return XDP_DROP;
    }
    if (port && !from_host(&seen, &header, port)) {
        count(V2P_COUNT_FORGED);
        return XDP_DROP;
    }
    return tunnelled(context, &seen, &header);
}

enum { CONTROL_FRAME_BYTES = OUTER_BYTES + sizeof(struct datagram) + sizeof(struct control) };

// Writes a learning or invalidation packet of this switch.
struct control_frame {
    u16 unused;   // the rest lies at whole words
    struct ether ether;
    struct ip ip;
    struct datagram udp;
    struct control control;
};
_Static_assert(sizeof(struct control_frame) == CONTROL_FRAME_BYTES + 2, "no gaps");

INLINE struct control_frame control_frame(const struct note *note)
{
    struct control_frame frame = {
        .ether = {.type = HTONS(TYPE_IPV4)},
        .ip = {
            .version_length = 0x45,
            .total_bytes = HTONS(CONTROL_FRAME_BYTES - ETHER_BYTES),
            .hops = 64,
            .protocol = IP_UDP,
            .source = HTONL(own_address),
            .destination = note->destination,
        },
        .udp = {
            .source = HTONS(CONTROL_PORT),
            .destination = HTONS(CONTROL_PORT),
            .bytes = HTONS(sizeof(struct datagram) + sizeof(struct control)),
        },
        .control = {
            .magic = HTONL(CONTROL_MAGIC),
            .kind = note->kind,
            .vip = note->vip,
            .address = note->address,
        },
    };
    frame.ip.checksum = changed(0xffff, 0, sum_of((u32 *)&frame.ip, IP_BYTES / 4));
    return frame;
}

// Routes a packet of the kernel, of which only the addresses are known.
INLINE int find_route(struct __sk_buff *context, struct fib *fib)
{
    return fib_lookup(context, fib, sizeof(*fib), 0) == 0;
}

// Forwards a copy of the packet that caused the request, then overwrites the packet with the
// requested one and sends it.
SECTION("classifier") int send_noted(struct __sk_buff *context)
{
    struct note *left = POINTER_AT(context, 140);
    if ((void *)(left + 1) > start_of_skb(context) || left->magic != NOTE_MAGIC)
        return TC_ACT_OK;
    struct note note = *left;
    left->magic = 0;
    struct ether *ether = start_of_skb(context);
    struct ip *ip = (void *)(ether + 1);
    if ((void *)(ip + 1) > end_of_skb(context) || ip->hops <= 1)
        return TC_ACT_OK;
    struct seen seen = {.protocol = ip->protocol, .bytes = HTONS(ip->total_bytes)};
    struct datagram *udp = (void *)ip + (ip->version_length & 15) * 4;
    if ((void *)(udp + 1) <= end_of_skb(context)) {
        seen.source_port = udp->source;
        seen.destination_port = udp->destination;
    }
    struct fib fib = fib_of(&seen, ip->source, ip->destination, context->ifindex);
    if (!find_route(context, &fib)) {
        count(V2P_COUNT_UNSENT);
        return TC_ACT_OK;
    }
    u32 before = ((u32 *)ip)[2];
    ip->hops -= 1;
    ip->checksum = changed(ip->checksum, before, ((u32 *)ip)[2]);
    __builtin_memcpy(ether->destination, fib.to, 6);
    __builtin_memcpy(ether->source, fib.from, 6);
    clone_redirect(context, fib.interface, 0);

    struct control_frame frame = control_frame(&note);
    struct seen own = {.protocol = IP_UDP, .bytes = CONTROL_FRAME_BYTES - ETHER_BYTES};
    own.source_port = own.destination_port = HTONS(CONTROL_PORT);
    struct fib way = fib_of(&own, frame.ip.source, note.destination, context->ifindex);
    if (!find_route(context, &way) || skb_change_tail(context, CONTROL_FRAME_BYTES, 0)) {
        count(V2P_COUNT_UNSENT);
        return TC_ACT_SHOT;
    }
    __builtin_memcpy(frame.ether.destination, way.to, 6);
    __builtin_memcpy(frame.ether.source, way.from, 6);
    if (skb_store_bytes(context, 0, &frame.ether, CONTROL_FRAME_BYTES, 0))
        return TC_ACT_SHOT;
    count(V2P_COUNT_SENT);
    return redirect(way.interface, 0);
}
