// RocksDB as a peer: values of 4 KiB, reads by Zipf's law of keys that all exist, by some threads,
// with a block cache of so many bytes and nothing in the page cache.
//
//   peer DIRECTORY KEYS CACHE_BYTES THREADS SECONDS
//
// Prints reads a second and the milliseconds within which 50, 99 and 100 % of them were done.

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr double kExponent = 0.99;
constexpr size_t kValueBytes = 4096;

using Clock = std::chrono::steady_clock;

std::string Key(uint64_t number) {
    char text[17];
    std::snprintf(text, sizeof text, "%016llx", static_cast<unsigned long long>(number));
    return std::string(text, 16);
}

std::string Value(const std::string& key) {
    std::string value;
    while (value.size() < kValueBytes) value += key;
    return value;
}

void Check(const rocksdb::Status& status) {
    if (!status.ok()) {
        std::fprintf(stderr, "%s\n", status.ToString().c_str());
        std::exit(1);
    }
}

// As in load.rs: Gray et al., each rank at a place of its own.
struct Zipf {
    uint64_t keys;
    double zeta = 0, zeta_two, eta;

    explicit Zipf(uint64_t count) : keys(count) {
        for (uint64_t rank = 1; rank <= count; ++rank) zeta += std::pow(rank, -kExponent);
        zeta_two = 1 + std::pow(2.0, -kExponent);
        eta = (1 - std::pow(2.0 / count, 1 - kExponent)) / (1 - zeta_two / zeta);
    }

    uint64_t Draw(double uniform) const {
        double scaled = uniform * zeta;
        uint64_t rank = 0;
        if (scaled >= zeta_two) {
            rank = keys * std::pow(eta * uniform - eta + 1, 1 / (1 - kExponent));
        } else if (scaled >= 1) {
            rank = 1;
        }
        return std::min(rank, keys - 1) * 2654435761ull % keys;
    }
};

}  // namespace

int main(int count, char** words) {
    if (count != 6) return 2;
    const uint64_t keys = std::strtoull(words[2], nullptr, 10);
    const size_t cache_bytes = std::strtoull(words[3], nullptr, 10);
    const int threads = std::atoi(words[4]);
    const double seconds = std::atof(words[5]);

    rocksdb::BlockBasedTableOptions table;
    table.block_cache = rocksdb::NewLRUCache(cache_bytes);
    table.filter_policy.reset(rocksdb::NewBloomFilterPolicy(10));
    // Its index and filters are in the budget too, as ours are.
    table.cache_index_and_filter_blocks = true;
    table.pin_l0_filter_and_index_blocks_in_cache = true;
    rocksdb::Options options;
    options.create_if_missing = true;
    options.use_direct_reads = true;
    options.use_direct_io_for_flush_and_compaction = true;
    options.compression = rocksdb::kNoCompression;
    options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
    rocksdb::DB* opened = nullptr;
    Check(rocksdb::DB::Open(options, words[1], &opened));
    std::unique_ptr<rocksdb::DB> db(opened);

    std::string value;
    if (!db->Get({}, Key(keys - 1), &value).ok()) {
        // In another order than that of the keys, as clients would.
        for (uint64_t at = 0; at < keys; ++at) {
            std::string key = Key(at * 2654435761ull % keys);
            Check(db->Put({}, key, Value(key)));
        }
        std::string last = Key(keys - 1);
        Check(db->Put({}, last, Value(last)));
        Check(db->Flush({}));
        Check(db->CompactRange({}, nullptr, nullptr));
    }

    const Zipf zipf(keys);
    std::vector<std::vector<uint32_t>> taken(threads);
    auto read = [&](int index, Clock::time_point until, bool counts) {
        std::mt19937_64 random(index + 1);
        std::uniform_real_distribution<double> uniform(0, 1);
        rocksdb::PinnableSlice slice;
        for (auto began = Clock::now(); began < until;) {
            std::string key = Key(zipf.Draw(uniform(random)));
            slice.Reset();
            Check(db->Get({}, db->DefaultColumnFamily(), key, &slice));
            if (slice.size() != kValueBytes || slice.ToString().compare(0, 16, key)) std::exit(1);
            auto ended = Clock::now();
            if (counts) taken[index].push_back(std::chrono::nanoseconds(ended - began).count());
            began = ended;
        }
    };
    auto all = [&](double length, bool counts) {
        auto until = Clock::now() + std::chrono::nanoseconds(static_cast<int64_t>(length * 1e9));
        std::vector<std::thread> running;
        for (int index = 0; index < threads; ++index) running.emplace_back(read, index, until, counts);
        for (auto& thread : running) thread.join();
    };
    all(seconds * 2, false);
    all(seconds, true);
    std::vector<uint32_t> every;
    for (auto& some : taken) every.insert(every.end(), some.begin(), some.end());
    std::sort(every.begin(), every.end());
    auto within = [&](double share) { return every[(every.size() - 1) * share] / 1e6; };
    std::printf("%.1f %.4f %.4f %.4f\n", every.size() / seconds, within(0.5), within(0.99), within(1));
}
