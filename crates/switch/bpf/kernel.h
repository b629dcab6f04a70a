// The parts of the kernel's interface that the programs need. No system header is included, so the
// object does not depend on the machine that builds it.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef int s32;
typedef long long s64;

#define SECTION(name) __attribute__((section(name), used))
// A function that the verifier checks separately, once for all arguments (global functions, 5.6).
#define APART __attribute__((noinline))
#define INLINE static inline __attribute__((always_inline))
#define UNROLL _Pragma("clang loop unroll(full)")
#define ROLLED _Pragma("clang loop unroll(disable)")
#define LIKELY(what) __builtin_expect(!!(what), 1)
#define UNLIKELY(what) __builtin_expect(!!(what), 0)
// Keeps the compiler from moving loads and stores across. It does not affect the processor:
// loader.rs refuses machines that reorder loads with loads or stores with stores.
#define IN_ORDER() __asm__ volatile("" ::: "memory")
// Keeps the compiler from moving the use of a variable before the check above, and from computing
// the variable again.
#define CHECKED(variable) __asm__ volatile("" : "+r"(variable))
#define READ_ONCE(place) (*(const volatile __typeof__(place) *)&(place))
#define WRITE_ONCE(place, value) (*(volatile __typeof__(place) *)&(place) = (value))

#define HTONS(value) ((u16)__builtin_bswap16(value))
#define HTONL(value) __builtin_bswap32(value)

// Maps, as BTF describes them.
#define OF_TYPE(number) int(*type)[number]
#define OF_FLAGS(number) int(*map_flags)[number]
#define OF_ENTRIES(number) int(*max_entries)[number]
#define OF_KEY(what) what *key
#define OF_VALUE(what) what *value
#define MAP SECTION(".maps")

enum { MAP_HASH = 1, MAP_ARRAY = 2, MAP_PERCPU_ARRAY = 6, MAP_RINGBUF = 27 };
enum { MAP_MMAPABLE = 1 << 10 };

// The functions of the kernel; native.c provides others when this is compiled for testing.
#ifdef __bpf__
static void *(*const map_lookup)(void *map, const void *key) = (void *)1;
static u64 (*const now_coarse_ns)(void) = (void *)160;                         // 5.11
static long (*const ringbuf_output)(void *map, void *data, u64 bytes, u64 flags) = (void *)130;
static u32 (*const processor_number)(void) = (void *)8;
static long (*const xdp_adjust_head)(void *context, int delta) = (void *)44;
static long (*const xdp_adjust_tail)(void *context, int delta) = (void *)65;   // growing: 5.8
static long (*const skb_load_bytes)(const void *context, u32 offset, void *to, u32 bytes) = (void *)26;
static long (*const skb_pull_data)(void *context, u32 bytes) = (void *)39;
#else
void *map_lookup(void *map, const void *key);
u64 now_coarse_ns(void);
long ringbuf_output(void *map, void *data, u64 bytes, u64 flags);
u32 processor_number(void);
long xdp_adjust_head(void *context, int delta);
long xdp_adjust_tail(void *context, int delta);
long skb_load_bytes(const void *context, u32 offset, void *to, u32 bytes);
long skb_pull_data(void *context, u32 bytes);
#endif

enum { XDP_ABORTED, XDP_DROP, XDP_PASS, XDP_TX };
enum { TC_ACT_OK = 0 };

struct xdp_md {
    u32 data, data_end, data_meta, ingress_ifindex, rx_queue_index, egress_ifindex;
};

struct __sk_buff {
    u32 len, pkt_type, mark, queue_mapping, protocol, vlan_present, vlan_tci, vlan_proto, priority;
    u32 ingress_ifindex, ifindex, tc_index, cb[5], hash, tc_classid, data, data_end;
};

// The fields have 32 bits but stand for pointers. A compiler that sees only 32 bits may spill half
// of one to the stack, which the verifier refuses.
#ifdef __bpf__
#define POINTER_AT(context, offset) \
    ({ void *pointer; __asm__ volatile("%0 = *(u32 *)(%1 + " #offset ")" : "=r"(pointer) : "r"(context)); \
       pointer; })
INLINE void *start_of(struct xdp_md *context) { return POINTER_AT(context, 0); }
INLINE void *end_of(struct xdp_md *context) { return POINTER_AT(context, 4); }
INLINE void *start_of_skb(struct __sk_buff *context) { return POINTER_AT(context, 76); }
INLINE void *end_of_skb(struct __sk_buff *context) { return POINTER_AT(context, 80); }
#else
void *start_of(struct xdp_md *context);
void *end_of(struct xdp_md *context);
void *start_of_skb(struct __sk_buff *context);
void *end_of_skb(struct __sk_buff *context);
#endif

struct ethernet {
    u8 destination[6], source[6];
    u16 type;
} __attribute__((packed));

struct vlan_tag {
    u16 control, type;
} __attribute__((packed));

struct ipv4 {
    u8 version_length, service;
    u16 total_bytes, id, fragment;
    u8 hops, protocol;
    u16 checksum;
    u32 source, destination;
} __attribute__((packed));

struct ipv6 {
    u32 version_flow;
    u16 payload_bytes;
    u8 next, hops;
    u32 source[4], destination[4];
} __attribute__((packed));

// Extension header of IPv6; the offset is in the upper 13 bits.
struct fragment {
    u8 next, unused;
    u16 offset;
    u32 id;
} __attribute__((packed));

struct udp {
    u16 source, destination, bytes, checksum;
} __attribute__((packed));

struct tcp {
    u16 source, destination;
    u32 sequence, acknowledged;
    u8 length, flags;
    u16 window, checksum, urgent;
} __attribute__((packed));

enum { TYPE_IPV4 = 0x0800, TYPE_IPV6 = 0x86dd, TYPE_VLAN = 0x8100, TYPE_VLAN_OUTER = 0x88a8 };
enum { IP_TCP = 6, IP_UDP = 17, IPV6_FRAGMENT = 44, IP_ICMPV6 = 58 };
enum { TCP_FIN = 1, TCP_SYN = 2, TCP_RST = 4, TCP_ACK = 16 };
enum { FRAGMENT_MORE = 0x2000, FRAGMENT_OFFSET = 0x1fff };

char licence[] SECTION("license") = "Dual MIT/GPL";
