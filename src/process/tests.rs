#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use super::*;

/// How long a child may take.
const LONGEST_LIFE: Duration = Duration::from_secs(30);
/// How long it waits for the other thread: other tests wait for the lock meanwhile.
const SHORT: Duration = Duration::from_millis(50);

#[test]
fn a_child_that_ran_no_handlers_waits_for_no_thread_of_its_parent() {
    assert!(child_gets_the_lock(|| set_alarm(libc::SIG_DFL, LONGEST_LIFE)));
}

#[test]
fn a_child_that_ran_no_handlers_waits_until_another_thread_of_it_has_noticed_the_fork() {
    assert!(child_gets_the_lock(|| {
        NEXT_PROCESS.store(id(), Ordering::Relaxed);
        let handler: extern "C" fn(libc::c_int) = go_on;
        set_alarm(handler as usize, SHORT);
    }));
}

/// Does what is left to do for a thread that was stopped in the middle of [`notice`].
extern "C" fn go_on(_: libc::c_int) {
    STRAYS.fetch_add(1, Ordering::Relaxed);
    GENERATION.fetch_add(1, Ordering::Relaxed);
    PROCESS.store(id(), Ordering::Release);
    set_alarm(libc::SIG_DFL, LONGEST_LIFE);
}

#[allow(unsafe_code)]
fn set_alarm(handler: libc::sighandler_t, after: Duration) {
    let time = libc::timeval { tv_sec: after.as_secs() as _, tv_usec: after.subsec_micros() as _ };
    let alarm = libc::itimerval { it_interval: libc::timeval { tv_sec: 0, tv_usec: 0 }, it_value: time };
    // SAFETY: the handler is the default or a function that does what a handler may, and a handler may call both;
    // `alarm` outlives its call
    unsafe {
        libc::signal(libc::SIGALRM, handler);
        libc::setitimer(libc::ITIMER_REAL, &raw const alarm, std::ptr::null_mut());
    }
}

/// Whether a child does whose parent has a thread that holds the lock; `before` is what else happens in the child.
#[allow(unsafe_code)]
fn child_gets_the_lock(before: fn()) -> bool {
    watch();
    let (hold, held) = mpsc::channel();
    let (let_go, end) = mpsc::channel::<()>();
    let holder = thread::spawn(move || {
        with_fork_lock(|| {
            hold.send(()).expect("the test waits");
            let _ = end.recv();
        });
    });
    held.recv().expect("the thread holds the lock");
    // SAFETY: the system call below glibc's `_Fork`; the child allocates nothing, has an alarm, and leaves by `_exit`
    let child = unsafe { libc::syscall(libc::SYS_clone, libc::SIGCHLD, 0, 0, 0, 0) };
    if child == 0 {
        before();
        with_fork_lock(|| ());
        // SAFETY: as above
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: the child is this process's own, and the status is its
    let reaped = unsafe { libc::waitpid(child as libc::pid_t, &raw mut status, 0) };
    drop(let_go);
    holder.join().expect("it ends when it is let go");
    assert_eq!(libc::c_long::from(reaped), child);
    libc::WIFEXITED(status)
}
