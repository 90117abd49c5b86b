//! How a long piece of work is shown: bars on a terminal, a plain line every few seconds elsewhere. All of it on stderr.

use crate::output::{self, Stream};
use crate::units;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How often a plain line appears where there is no terminal.
const LINE_EVERY: Duration = Duration::from_secs(5);
/// What takes less is not reported on at all there.
const FIRST_LINE: Duration = Duration::from_secs(2);
/// Speeds are means over so long.
const WINDOW: Duration = Duration::from_secs(20);

/// A mean speed over the last while, from readings of a counter that only grows.
#[derive(Default)]
pub struct Speed {
    readings: VecDeque<(Instant, u64)>,
}

impl Speed {
    /// Takes a reading.
    pub fn reading(&mut self, now: Instant, count: u64) {
        self.readings.push_back((now, count));
        while self.readings.len() > 2 && self.readings.get(1).is_some_and(|r| now.saturating_duration_since(r.0) >= WINDOW) {
            self.readings.pop_front();
        }
    }

    /// So many a second; `None` before there are two readings some time apart.
    pub fn per_second(&self) -> Option<f64> {
        let (first, last) = (self.readings.front()?, self.readings.back()?);
        let seconds = last.0.saturating_duration_since(first.0).as_secs_f64();
        (seconds > 0.2).then(|| last.1.saturating_sub(first.1) as f64 / seconds)
    }

    /// How long the rest takes at this speed.
    pub fn time_for(&self, rest: u64) -> Option<Duration> {
        let seconds = rest as f64 / self.per_second().filter(|&s| s > 0.0)?;
        Duration::try_from_secs_f64(seconds).ok()
    }
}

/// A bar with a line under it, or lines.
pub struct Progress {
    shown: Shown,
}

enum Shown {
    Bar(ProgressBar),
    Lines { next: Mutex<Instant> },
}

impl Progress {
    /// Starts. Lines instead of bars also when logs are wanted, which would tear the bars.
    pub fn start() -> Self {
        if !output::is_terminal(Stream::Err) || std::env::var_os("STRATA_LOG").is_some() {
            return Self { shown: Shown::Lines { next: Mutex::new(Instant::now() + FIRST_LINE) } };
        }
        let bar = ProgressBar::with_draw_target(Some(1000), ProgressDrawTarget::stderr_with_hz(8));
        let template = if output::is_coloured(Stream::Err) {
            "{prefix:.bold} {wide_bar:.cyan/blue} {percent:>3} %\n{wide_msg}"
        } else {
            "{prefix} {wide_bar} {percent:>3} %\n{wide_msg}"
        };
        echo::hide();
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸─"));
        }
        Self { shown: Shown::Bar(bar) }
    }

    /// Shows where the work is: what is being done, how much of it is done, and the details.
    pub fn show(&self, what: &str, done: u64, all: u64, details: &str) {
        match &self.shown {
            Shown::Bar(bar) => {
                bar.set_length(all.max(1));
                bar.set_position(if done >= all { all } else { done });
                bar.set_prefix(what.to_string());
                bar.set_message(details.to_string());
            }
            Shown::Lines { next } => {
                let mut next = next.lock().unwrap_or_else(PoisonError::into_inner);
                if Instant::now() >= *next {
                    *next = Instant::now() + LINE_EVERY;
                    output::note(&format!("{what}  {}  {details}", units::percent(done, all)));
                }
            }
        }
    }

    /// Says something above the bars.
    pub fn say(&self, line: &str) {
        match &self.shown {
            Shown::Bar(bar) => bar.suspend(|| output::note(line)),
            Shown::Lines { .. } => output::note(line),
        }
    }

    /// Takes the bars away.
    pub fn end(&self) {
        if let Shown::Bar(bar) = &self.shown {
            bar.finish_and_clear();
            echo::show();
        }
    }
}

/// Counts what is done from many threads, and shows it.
pub struct Meter<F> {
    progress: Progress,
    what: &'static str,
    all: u64,
    done: AtomicU64,
    speed: Mutex<(Speed, Option<Instant>)>,
    details: F,
}

impl<F: Fn(&Speed, u64) -> String> Meter<F> {
    /// Starts counting to `all`; `details` says what the speed and the rest come to.
    pub fn new(what: &'static str, all: u64, details: F) -> Self {
        Self { progress: Progress::start(), what, all, done: AtomicU64::new(0), speed: Mutex::default(), details }
    }

    /// So much is done altogether. Whether to go on.
    pub fn reach(&self, done: u64) -> bool {
        let done = self.done.fetch_max(done, Ordering::Relaxed).max(done); // threads report in any order
        let now = Instant::now();
        let mut guard = self.speed.lock().unwrap_or_else(PoisonError::into_inner);
        let (speed, last) = &mut *guard;
        if last.is_none_or(|at| now.duration_since(at).as_millis() >= 200) {
            *last = Some(now);
            speed.reading(now, done);
            let rest = self.all.saturating_sub(done);
            self.progress.show(self.what, done, self.all, &(self.details)(speed, rest));
        }
        crate::signals::received().is_none()
    }

    /// Takes what is shown away.
    pub fn end(&self) {
        self.progress.end();
    }
}

/// How long the rest takes, if that is known.
pub fn time_left(speed: &Speed, rest: u64) -> String {
    speed.time_for(rest).map(|t| format!("{} left", units::duration(t))).unwrap_or_default()
}

/// The terminal answers Ctrl-C with `^C`, which would tear the bars: while they are there, it does not.
pub mod echo {
    use rustix::process::getpgrp;
    use rustix::stdio::stdin;
    use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcgetpgrp, tcsetattr};
    use std::sync::{Mutex, PoisonError};

    static BEFORE: Mutex<Option<Termios>> = Mutex::new(None);

    /// A process in the background would be stopped for touching the terminal.
    fn in_foreground() -> bool {
        tcgetpgrp(stdin()).is_ok_and(|group| group == getpgrp())
    }

    /// Turns it off. Where that is not possible, the bars are torn, and that is all.
    pub fn hide() {
        let mut before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(mut terminal) =
            tcgetattr(stdin()).ok().filter(|t| before.is_none() && t.local_modes.contains(LocalModes::ECHOCTL))
        else {
            return;
        };
        if in_foreground() {
            *before = Some(terminal.clone());
            terminal.local_modes.remove(LocalModes::ECHOCTL);
            let _ = tcsetattr(stdin(), OptionalActions::Now, &terminal);
        }
    }

    /// Turns it on again.
    pub fn show() {
        let before = BEFORE.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(terminal) = before.filter(|_| in_foreground()) {
            let _ = tcsetattr(stdin(), OptionalActions::Now, &terminal);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn speed_is_the_mean_over_the_last_while() {
        let start = Instant::now();
        let mut speed = Speed::default();
        assert_eq!(speed.per_second(), None);
        for second in 0..60u64 {
            let count = if second < 30 { second * 1000 } else { 30_000 + (second - 30) * 10 };
            speed.reading(start + Duration::from_secs(second), count);
        }
        assert!((speed.per_second().unwrap() - 10.0).abs() < 1e-9);
        assert_eq!(speed.time_for(100), Some(Duration::from_secs(10)));
    }

    #[test]
    fn nothing_is_said_about_time_while_nothing_moves() {
        let start = Instant::now();
        let mut speed = Speed::default();
        speed.reading(start, 5);
        speed.reading(start + Duration::from_secs(5), 5);
        assert_eq!(speed.time_for(100), None);
    }
}
