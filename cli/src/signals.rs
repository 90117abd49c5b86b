//! Ctrl-C, SIGTERM and SIGHUP: the first asks the verb to stop in order, the second ends the process at once.
//!
//! Ending at once is safe too: a table directory survives `kill -9` at any moment.

use std::sync::atomic::{AtomicU8, Ordering};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The signal that was received, as the exit code that tells it: 128 plus its number. 0 while there was none.
static RECEIVED: AtomicU8 = AtomicU8::new(0);

/// Exit code after Ctrl-C.
const INTERRUPTED: u8 = 130;
/// Exit code after SIGTERM.
const TERMINATED: u8 = 143;
/// Exit code after SIGHUP: the terminal is gone.
const HUNG_UP: u8 = 129;

/// The exit code that the received signal asks for; `None` while there was none.
pub fn received() -> Option<u8> {
    Some(RECEIVED.load(Ordering::Relaxed)).filter(|&code| code != 0)
}

/// Listens from now on. The receiver turns to the exit code when the first signal comes; `first` says what happens then.
/// Call it within a tokio runtime.
pub fn listen(first: impl Fn() + Send + 'static) -> std::io::Result<watch::Receiver<Option<u8>>> {
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut terminate = signal(SignalKind::terminate())?;
    let mut hang_up = signal(SignalKind::hangup())?;
    let (sender, receiver) = watch::channel(None);
    tokio::spawn(async move {
        loop {
            let code = tokio::select! {
                _ = interrupt.recv() => INTERRUPTED,
                _ = terminate.recv() => TERMINATED,
                _ = hang_up.recv() => HUNG_UP,
            };
            if received().is_some() {
                crate::progress::echo::show();
                std::process::exit(i32::from(code));
            }
            RECEIVED.store(code, Ordering::Relaxed);
            first();
            let _ = sender.send(Some(code));
        }
    });
    Ok(receiver)
}
