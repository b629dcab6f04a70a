// The program compiled for this machine with sanitizers, run on mutated frames. It tests the
// guarantees of the verifier independently of the verifier of one kernel.
// `native COUNT SEED FRAME...`
#define NETCACHE_PORT 50000
#define MEMCACHE_PORT 11211
#include "switch.bpf.c"

void *malloc(unsigned long), *calloc(unsigned long, unsigned long), *fopen(const char *, const char *);
void free(void *), *memcpy(void *, const void *, unsigned long);
int atoi(const char *), printf(const char *, ...);
unsigned long fread(void *, unsigned long, unsigned long, void *);
unsigned int alarm(unsigned int);
void abort(void);

enum { MAPS_MAX = 16, FRAMES_MAX = 256, FRAME_MAX = 1600, ROOM = 256 };

static struct map {
    void *map;
    u8 *values;
    u32 value_bytes, entries;
} maps[MAPS_MAX];

static void add(void *map, u32 value_bytes, u32 entries)
{
    struct map *one = maps;
    while (one->map)
        one++;
    *one = (struct map){map, calloc(entries, value_bytes), value_bytes, entries};
}
#define ADD(map, entries) add(&map, sizeof(*map.value), entries)

static struct map *find_map(void *map)
{
    for (struct map *one = maps; one->map; one++)
        if (one->map == map)
            return one;
    abort();
}

void *map_lookup(void *map, const void *key)
{
    struct map *one = find_map(map);
    return *(u32 *)key < one->entries ? one->values + *(u32 *)key * one->value_bytes : 0;
}

static u64 state, roomless;

static u64 draw(void)
{
    u64 mixed = state += WORD_FACTOR;
    mixed = (mixed ^ mixed >> 30) * LAST_FACTOR;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebull;
    return mixed ^ mixed >> 31;
}

static u8 *block;           // exactly the space before the frame, and the frame
static u32 before, bytes;

u64 now_coarse_ns(void) { static u64 now; return now += 1000; }
u32 processor_number(void) { return 0; }
long skb_pull_data(void *context, u32 wanted) { (void)context, (void)wanted; return 0; }

long skb_load_bytes(const void *context, u32 offset, void *to, u32 wanted)
{
    (void)context;
    if (offset > bytes || wanted > bytes - offset)
        return -14;
    memcpy(to, block + before + offset, wanted);
    return 0;
}

void *start_of(struct xdp_md *context) { (void)context; return block + before; }
void *end_of(struct xdp_md *context) { (void)context; return block + before + bytes; }
void *start_of_skb(struct __sk_buff *context) { (void)context; return block + before; }
void *end_of_skb(struct __sk_buff *context) { (void)context; return block + before + bytes; }

long ringbuf_output(void *map, void *data, u64 length, u64 flags)
{
    (void)map, (void)data, (void)length, (void)flags;
    return 0;
}

static void reshape(u32 new_before, u32 new_bytes)
{
    u8 *made = calloc(1, new_before + new_bytes);
    u32 kept = before + bytes < new_before + new_bytes ? before + bytes : new_before + new_bytes;
    memcpy(made, block, kept);
    free(block);
    block = made, before = new_before, bytes = new_bytes;
}

long xdp_adjust_tail(void *context, int delta)
{
    (void)context;
    if ((int)bytes + delta < 14 || bytes + delta > 4096 - 320 - ROOM || (delta > 0 && roomless))
        return -22;
    reshape(before, bytes + delta);
    return 0;
}

long xdp_adjust_head(void *context, int delta)
{
    (void)context;
    if ((int)before + delta < 40)
        return -22;
    before += delta, bytes -= delta;
    return 0;
}

static void cache(u32 number, const char *key, const char *text)
{
    struct scratch *scratch = scratch_of_processor();
    u32 length = 0, said = 0;
    while (key[length])
        length++;
    while (text[said])
        said++;
    __builtin_memset(scratch->key, 0, sizeof(scratch->key));
    memcpy(scratch->key, key, length);
    struct entry *entry = map_lookup(&entries, &number);
    struct slot *slot = map_lookup(&slots, &number);
    mapped(0x0200000a, entry->server);
    entry->port = HTONS(MEMCACHE_PORT);
    name_server(scratch, entry->server, entry->port);
    name_key(scratch, length);
    entry->version = entry->valid_version = 100;
    entry->name = scratch->name, entry->place = number, entry->value_bytes = said;
    entry->key_bytes = length, entry->kind = PROTOCOL_MEMCACHE, entry->expires_ns = ~0ull;
    struct shared *all = map_lookup(&shared, &(u32){0});
    entry->epoch = all->epoch;
    memcpy(entry->key, key, length), memcpy(slot->words, text, said);
    u64 hash = hash_of_name(&entry->name);
    struct bucket *bucket = map_lookup(&lookup, &(u32){hash >> lookup_shift});
    bucket->words[0] = (u64)number << 32 | (u32)hash | 1;
}

static void mutate(u8 *frame, u32 *length)
{
    static const u8 telling[] = " \r\n\0\x01\x80\xff\x45\x08\x11\x06getmsab0:";
    for (u64 times = draw() % 5; times; times--) {
        u32 at = draw() % *length;
        switch (draw() % 5) {
        case 0:
            *length = at < 14 ? 14 : at;
            break;
        case 1:
            if (*length < FRAME_MAX - 64)
                frame[(*length)++] = draw();
            break;
        default:
            frame[at] = draw() & 1 ? draw() : telling[draw() % sizeof(telling)];
        }
    }
    if (draw() % 4 && *length >= 42 && frame[12] == 8) {
        u32 ip = *length - 14;
        frame[16] = ip >> 8, frame[17] = ip;
        if (frame[23] == 17)
            frame[38] = (ip - 20) >> 8, frame[39] = ip - 20;
    }
}

int main(int count, char **words)
{
    static u8 frames[FRAMES_MAX][FRAME_MAX];
    static u32 lengths[FRAMES_MAX];
    u32 frames_read = 0, verdicts[4] = {0};
    ADD(lookup, ENTRIES_DEFAULT), ADD(entries, 64), ADD(slots, 64), ADD(units, 1), ADD(leases, LEASES_MAX);
    ADD(shared, 1), ADD(counters, 64), ADD(sketch, LINES(2 * 4 << 16)), ADD(filter, LINES((3 << 18) / 8));
    ADD(flows, FLOWS), ADD(holds, FLOWS), ADD(held, HOLDS / HOLDS_IN_LINE);
    ADD(processors, 1), ADD(scratches, 1);
    alarm(600);
    state = atoi(words[2]);
    for (int word = 3; word < count && frames_read < FRAMES_MAX; word++) {
        void *file = fopen(words[word], "rb");
        if (!file)
            abort();
        lengths[frames_read] = fread(frames[frames_read], 1, FRAME_MAX - 64, file);
        frames_read += lengths[frames_read] >= 14;
    }
    for (int left = atoi(words[1]); left; left--) {
        cache(0, "a", "VALUE a 5 1\r\n1\r\n");
        cache(1, "bb", "VALUE bb 5 3\r\ntwo\r\n");
        cache(2, "key:12345", "VALUE key:12345 5 15\r\nthe third value\r\n");
        u32 chosen = draw() % frames_read, length = lengths[chosen];
        static u8 frame[FRAME_MAX];
        memcpy(frame, frames[chosen], length);
        mutate(frame, &length);
        roomless = draw() & 1;
        free(block);
        block = calloc(1, ROOM + length), before = ROOM, bytes = length;
        memcpy(block + before, frame, length);
        struct xdp_md context = {0};
        int verdict = serve(&context);
        // Only a tag may change a frame that passes, and never its length.
        if (verdict < XDP_DROP || verdict > XDP_TX || (verdict == XDP_PASS && bytes != length))
            abort();
        verdicts[verdict]++;
        struct __sk_buff skb = {0};
        if (answered(&skb) != TC_ACT_OK)
            abort();
    }
    printf("dropped %u, passed %u, answered %u\n", verdicts[1], verdicts[2], verdicts[3]);
    return verdicts[3] == 0;
}
