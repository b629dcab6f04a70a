//! A private wall clock of one process, which can be stepped while the process runs.
//!
//! A time namespace has offsets for the monotonic clock only. Therefore the vDSO functions that
//! return the time are overwritten in the memory of that process: they call the kernel and add an
//! offset.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;
use std::time::Instant;

use super::process::{PATIENCE, Process};

/// `int clock_gettime(clockid_t, struct timespec *)`, where the offset lies at [`OFFSET_AT`].
const TELLS_TIME: [u8; 26] = [
    0xb8, 0xe4, 0x00, 0x00, 0x00, // mov eax, 228 (clock_gettime)
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax, eax
    0x75, 0x0e, // jnz out
    0x85, 0xff, // test edi, edi (CLOCK_REALTIME)
    0x75, 0x0a, // jnz out
    0x48, 0x8b, 0x0d, 0x0a, 0x00, 0x00, 0x00, // mov rcx, [rip + 10]
    0x48, 0x01, 0x0e, // add [rsi], rcx
    0xc3, // out: ret
];
/// `int gettimeofday(struct timeval *, void *)`, where the offset lies at [`OFFSET_AT`].
const TELLS_DAY: [u8; 22] = [
    0xb8, 0x60, 0x00, 0x00, 0x00, // mov eax, 96 (gettimeofday)
    0x0f, 0x05, // syscall
    0x85, 0xc0, // test eax, eax
    0x75, 0x0a, // jnz out
    0x48, 0x8b, 0x0d, 0x0e, 0x00, 0x00, 0x00, // mov rcx, [rip + 14]
    0x48, 0x01, 0x0f, // add [rdi], rcx
    0xc3, // out: ret
];
const FUNCTIONS: [(&str, &[u8]); 2] =
    [("__vdso_clock_gettime", &TELLS_TIME), ("__vdso_gettimeofday", &TELLS_DAY)];
/// Offset in seconds; it is located after the code.
const OFFSET_AT: u64 = 32;

/// The clock of one process. Dropping it keeps the last offset.
pub struct Clock {
    memory: File,
    functions: [u64; 2],
}

impl Clock {
    /// `None` on another processor architecture.
    pub fn of(process: &Process) -> Option<Self> {
        if cfg!(not(target_arch = "x86_64")) {
            return super::origins::absent("a clock of its own is machine code of x86-64");
        }
        let id = process.id();
        let path = format!("/proc/{id}/mem");
        let memory =
            OpenOptions::new().read(true).write(true).open(path).expect("a process of ours");
        let maps = fs::read_to_string(format!("/proc/{id}/maps")).expect("a process of ours");
        let line = maps.lines().find(|line| line.ends_with("[vdso]")).expect("a vDSO");
        let ends = line.split(' ').next().and_then(|range| range.split_once('-'));
        let (start, end) = ends.map(|(start, end)| (number(start), number(end))).expect("a range");
        let mut image = vec![0; (end - start) as usize];
        memory.read_exact_at(&mut image, start).expect("it is mapped");
        let functions = FUNCTIONS.map(|(name, _)| start + symbol(&image, name));
        let clock = Self { memory, functions };
        // No thread may be within the functions that are overwritten.
        let began = Instant::now();
        process.stop();
        while places(id).iter().any(|place| (start..end).contains(place)) {
            process.signal("CONT");
            assert!(began.elapsed() < PATIENCE, "its threads are always within these functions");
            process.stop();
        }
        for (function, (_, code)) in clock.functions.into_iter().zip(FUNCTIONS) {
            clock.write(function + OFFSET_AT, &[0; 8]);
            clock.write(function, code);
        }
        process.signal("CONT");
        Some(clock)
    }

    /// Sets the clock of the process ahead by this many seconds. No effect on a process that has
    /// ended.
    pub fn set_ahead(&self, seconds: i64) {
        for function in self.functions {
            let _ = self.memory.write_all_at(&seconds.to_le_bytes(), function + OFFSET_AT);
        }
    }

    fn write(&self, at: u64, bytes: &[u8]) {
        self.memory.write_all_at(bytes, at).expect("memory of a process of ours");
    }
}

fn number(digits: &str) -> u64 {
    u64::from_str_radix(digits, 16).expect("an address")
}

/// The instruction pointers of a stopped process's threads, from the last field of each `syscall`
/// file.
fn places(id: u32) -> Vec<u64> {
    let threads = fs::read_dir(format!("/proc/{id}/task")).expect("it is there").flatten();
    let place = |thread: fs::DirEntry| {
        let text = fs::read_to_string(thread.path().join("syscall")).ok()?;
        Some(number(text.trim().rsplit(' ').next()?.trim_start_matches("0x")))
    };
    threads.filter_map(place).collect()
}

/// The offset of a function in a 64-bit ELF image, from its dynamic symbol table.
fn symbol(image: &[u8], name: &str) -> u64 {
    const DYNAMIC_SYMBOLS: u64 = 11;
    let long = |at: usize| u64::from_le_bytes(image[at..at + 8].try_into().expect("eight bytes"));
    let int =
        |at: usize| u64::from(u32::from_le_bytes(image[at..at + 4].try_into().expect("four")));
    let short = |at: usize| usize::from(u16::from_le_bytes([image[at], image[at + 1]]));
    let section = |index: usize| long(0x28) as usize + index * short(0x3a);
    let symbols = (0..short(0x3c)).map(section).find(|&at| int(at + 4) == DYNAMIC_SYMBOLS);
    let symbols = symbols.expect("dynamic symbols");
    let names = long(section(int(symbols + 0x28) as usize) + 0x18) as usize;
    let (offset, bytes) = (long(symbols + 0x18) as usize, long(symbols + 0x20) as usize);
    let is_it = |&at: &usize| {
        let begin = &image[names + int(at) as usize..];
        begin.starts_with(name.as_bytes()) && begin[name.len()] == 0
    };
    let found = (offset..offset + bytes).step_by(24).find(is_it).expect("the function is there");
    long(found + 8)
}
