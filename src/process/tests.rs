#![cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]

use std::sync::mpsc;
use std::thread;

use super::*;

#[test]
#[allow(unsafe_code)]
fn a_child_that_ran_no_handlers_waits_for_no_thread_of_its_parent() {
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
        // SAFETY: as above
        unsafe { libc::alarm(30) };
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
    assert!(libc::WIFEXITED(status), "the child waits for a thread that it does not have");
}
