//! More entries than the memory budget can index: pages of the storage table are evicted and read
//! back.

#[expect(unreachable_pub, dead_code, reason = "shared by several tests")]
mod elastic;

use elastic::Run;
use store::Faults;
use store::elastic::Elastic;

#[test]
fn under_simulation() {
    for seed in 0..4 {
        let mut run = Run::new(seed, Faults::default()).expect("opens");
        run.store.rescale(Elastic::MEMORY_BYTES_MIN);
        run.clears = false;
        run.rescale_bytes = 64 << 10;
        run.keys = 30_000;
        run.value_bytes_max = 40;
        for key in 0..run.keys {
            run.put(key);
            if key % 64 == 0 {
                run.settle();
            }
        }
        run.settle();
        run.store.rescale(Elastic::MEMORY_BYTES_MIN);
        run.run(20_000);
        run.settle();
        let stats = run.store.stats();
        let (pages, resident) = stats.table_pages;
        assert!(stats.page_reads > 1000 && resident < pages, "{stats:?}");
        run.device.set_faults(Faults { crash_at: Some(500), ..Faults::default() });
        run.run(20_000);
        run.restart(Faults::default(), true);
    }
}
