//! Runs code that cannot be trusted to end or to stay small.
//!
//! The template engine counts instructions, but one instruction may double a string or walk a
//! billion items. So a run has its own thread (whose stack is deep enough whatever the caller's
//! is), and the allocator knows how much that thread may hold and until when. An allocation beyond
//! either never returns: unwinding from an allocator is not allowed, aborting would take the
//! program down, so the thread sleeps for ever with what it holds, at most the budget. The caller
//! must count that, and not run such code for ever.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::os::unix::thread::JoinHandleExt;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle, Thread};
use std::time::Duration;

// Address space only, until it is used. The engine compares, prints and drops nested values by
// recursion, at up to 360 bytes a level as measured; each level took an instruction to build, so
// this is enough for the fuel that `Template` allows.
const STACK_BYTES: usize = 512 << 20;

#[derive(Debug, PartialEq, Eq)]
pub enum Stopped {
    Memory,
    Time,
    Panic,
    NoThread,
}

#[derive(Clone, Copy)]
pub struct Budget {
    pub memory_bytes: usize,
    /// Of the processor: what is allowed does not depend on who else is at work.
    pub time: Duration,
}

/// What the two threads share.
struct Watch {
    caller: Thread,
    out_of_memory: AtomicBool,
    out_of_time: AtomicBool,
}

thread_local! {
    // Both are plain cells: an allocator may not allocate to reach its own state.
    static BYTES_LEFT: Cell<isize> = const { Cell::new(isize::MAX) };
    static WATCH: Cell<*const Watch> = const { Cell::new(std::ptr::null()) };
}

pub struct GuardedAllocator;

/// What to do when the system has no more memory: `fn()`, or null.
static OUT_OF_MEMORY: AtomicPtr<()> = AtomicPtr::new(std::ptr::null_mut());

pub fn on_out_of_memory(handler: extern "C" fn()) {
    OUT_OF_MEMORY.store(handler as *mut (), Ordering::Release);
}

/// Rust's runtime ends the program where there is no memory; the handler may end it more politely.
fn given(data: *mut u8) -> *mut u8 {
    if data.is_null() {
        let handler = OUT_OF_MEMORY.load(Ordering::Acquire);
        if !handler.is_null() {
            // SAFETY: only `on_out_of_memory` stores here.
            unsafe { std::mem::transmute::<*mut (), extern "C" fn()>(handler)() };
        }
    }
    data
}

/// Takes `bytes` (or gives back, if negative) from this thread's budget, if it has one.
fn account(bytes: isize) {
    let watch = WATCH.get();
    if watch.is_null() {
        return;
    }
    let left = BYTES_LEFT.get().saturating_sub(bytes);
    // SAFETY: `run` keeps the watch alive for as long as the thread that it is set for.
    let watch = unsafe { &*watch };
    if bytes > 0 && (left < 0 || watch.out_of_time.load(Ordering::Relaxed)) {
        if left < 0 {
            watch.out_of_memory.store(true, Ordering::Release);
        }
        watch.caller.unpark();
        loop {
            thread::park();
        }
    }
    BYTES_LEFT.set(left);
}

// SAFETY: everything is the system's allocator; the accounting neither allocates nor unwinds.
unsafe impl GlobalAlloc for GuardedAllocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        account(layout.size() as isize);
        given(System.alloc(layout))
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        account(layout.size() as isize);
        given(System.alloc_zeroed(layout))
    }

    unsafe fn dealloc(&self, data: *mut u8, layout: Layout) {
        System.dealloc(data, layout);
        account(-(layout.size() as isize));
    }

    unsafe fn realloc(&self, data: *mut u8, layout: Layout, new_size: usize) -> *mut u8 {
        // Old and new may both be alive while bytes move.
        account(new_size as isize);
        let moved = given(System.realloc(data, layout, new_size));
        account(-(layout.size() as isize));
        moved
    }
}

/// The value of `body`, run within `budget`.
pub fn run<T: Send + 'static>(
    budget: Budget,
    body: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Stopped> {
    let watch = Arc::new(Watch {
        caller: thread::current(),
        out_of_memory: AtomicBool::new(false),
        out_of_time: AtomicBool::new(false),
    });
    let result: Arc<Mutex<Option<Result<T, Stopped>>>> = Arc::default();

    let spawned = {
        let (watch, result) = (watch.clone(), result.clone());
        thread::Builder::new()
            .name("chat template".to_string())
            .stack_size(STACK_BYTES)
            .spawn(move || {
                BYTES_LEFT.set(budget.memory_bytes.min(isize::MAX as usize) as isize);
                WATCH.set(&*watch);
                let value = catch_unwind(AssertUnwindSafe(body)).map_err(|_| Stopped::Panic);
                WATCH.set(std::ptr::null());
                *result.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
                watch.caller.unpark();
            })
    };
    let Ok(thread) = spawned else {
        return Err(Stopped::NoThread);
    };
    loop {
        if let Some(value) = result.lock().unwrap_or_else(PoisonError::into_inner).take() {
            return value;
        }
        if watch.out_of_memory.load(Ordering::Acquire) {
            return Err(Stopped::Memory);
        }
        let left = budget.time.saturating_sub(time_used(&thread));
        if left.is_zero() {
            watch.out_of_time.store(true, Ordering::Relaxed);
            return Err(Stopped::Time);
        }
        thread::park_timeout(left);
    }
}

/// The processor time of a thread that was not joined.
fn time_used<T>(thread: &JoinHandle<T>) -> Duration {
    let mut clock = 0;
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the handle keeps the thread's id valid, also when the thread has ended.
    let known = unsafe {
        libc::pthread_getcpuclockid(thread.as_pthread_t(), &mut clock) == 0
            && libc::clock_gettime(clock, &mut time) == 0
    };
    // It fails only for a thread that ended, whose result is there.
    if known { Duration::new(time.tv_sec as u64, time.tv_nsec as u32) } else { Duration::ZERO }
}
