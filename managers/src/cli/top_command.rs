//! `rejoin top`: the state of jobs in the terminal, again every second.

use super::jobs;
use super::top_frame::frame;
use crate::standard_output::print;
use crossterm::cursor::{Hide, MoveTo, Show};
use crossterm::event::{self, Event, KeyCode, KeyEvent, KeyModifiers};
use crossterm::queue;
use crossterm::terminal::{
    self, BeginSynchronizedUpdate, Clear, ClearType, EndSynchronizedUpdate, EnterAlternateScreen,
    LeaveAlternateScreen,
};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::Signal;
use rejoin_managers_host::error::system_text;
use rejoin_managers_host::signal_reader::Signals;
use rejoin_managers_report::query::JobStatus;
use std::io::{self, IsTerminal, Write};
use std::os::fd::AsFd;
use std::process;
use std::thread;
use std::time::{Duration, Instant};

/// Time between two looks at the jobs.
const PERIOD: Duration = Duration::from_secs(1);

/// How long a job may take to answer.
const ANSWER_LIMIT: Duration = Duration::from_millis(800);

/// Signals that end this command.
const ENDING: [Signal; 3] = [Signal::SIGHUP, Signal::SIGINT, Signal::SIGTERM];

/// How long a terminal may take what restores it: one whose output is stopped takes nothing.
const RESTORE_LIMIT: Duration = Duration::from_millis(500);

/// Lines and columns if there is no terminal: all ranks are shown.
const NO_TERMINAL: (usize, usize) = (usize::MAX, usize::MAX);

/// Shows this job, or all, until the user, a signal or the job ends it. Without a terminal it
/// prints one table. Returns the exit code.
#[must_use]
pub fn run(job: Option<&str>) -> i32 {
    let shown = looked_up(job);
    if shown.is_empty() {
        match job {
            Some(job) => say_line!("rejoin: no job {job} of yours runs on this host"),
            None => say_line!("rejoin: no job of yours runs on this host"),
        }
        return 1;
    }
    if !io::stdout().is_terminal() || !io::stdin().is_terminal() {
        let (width, height) = NO_TERMINAL;
        let mut lines = frame(&shown, width, height);
        // The last one is about keys.
        lines.pop();
        return print("rejoin", &(lines.join("\n") + "\n"));
    }
    match on_screen(job, shown) {
        Ok(End::Quit) => 0,
        Ok(End::JobEnded) => print("rejoin", "the job has ended\n"),
        Err(error) => {
            say_line!("rejoin: the terminal: {}", system_text(&error));
            1
        }
    }
}

/// The jobs to show. Others that don't answer are left out: a line about them would stand across
/// the screen.
fn looked_up(job: Option<&str>) -> Vec<JobStatus> {
    jobs::statuses(job, ANSWER_LIMIT, |_| {})
}

/// Why nothing is shown any more.
enum End {
    /// The user wants no more.
    Quit,
    /// The job that was asked for is over.
    JobEnded,
}

/// The terminal in its state for full screens, until this is dropped.
struct Screen(());

impl Screen {
    fn enter() -> io::Result<Screen> {
        terminal::enable_raw_mode()?;
        let screen = Screen(());
        queue!(io::stdout(), EnterAlternateScreen, Hide)?;
        io::stdout().flush()?;
        Ok(screen)
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        // A terminal that has gone away needs nothing.
        let _ = leave(&mut io::stdout());
        let _ = terminal::disable_raw_mode();
    }
}

fn on_screen(job: Option<&str>, first: Vec<JobStatus>) -> io::Result<End> {
    // They are blocked before the terminal changes, so none ends this process in between.
    let signals = Signals::new(&ENDING).map_err(io::Error::other)?;
    let _screen = Screen::enter()?;
    end_on(signals)?;
    let mut shown = first;
    let mut looked = Instant::now();
    draw(&shown)?;
    loop {
        if !event::poll(PERIOD.saturating_sub(looked.elapsed()))? {
            looked = Instant::now();
            shown = looked_up(job);
            if job.is_some() && shown.is_empty() {
                return Ok(End::JobEnded);
            }
            draw(&shown)?;
            continue;
        }
        match event::read()? {
            Event::Key(key) if is_end(&key) => return Ok(End::Quit),
            Event::Resize(..) => draw(&shown)?,
            _ => {}
        }
    }
}

/// Ends this process when one of the signals comes. A thread waits for them, because reads and
/// writes of a terminal may block.
fn end_on(mut signals: Signals) -> io::Result<()> {
    let wait = move || {
        loop {
            let mut fds = [PollFd::new(signals.as_fd(), PollFlags::POLLIN)];
            // An interrupted wait is another turn.
            let _ = poll(&mut fds, PollTimeout::NONE);
            match signals.take() {
                None | Some(libc::SIGCHLD) => {}
                Some(signal) => end_by(signal),
            }
        }
    };
    thread::Builder::new().spawn(wait).map(drop)
}

/// Restores the terminal and ends this process as a shell reports a signal.
fn end_by(signal: i32) -> ! {
    let code = 128 + signal;
    let _ = terminal::disable_raw_mode();
    thread::spawn(move || {
        // Held to the end, so that nothing is drawn after this.
        let mut out = io::stdout().lock();
        let _ = leave(&mut out);
        process::exit(code)
    });
    thread::sleep(RESTORE_LIMIT);
    process::exit(code)
}

/// Shows what was on the terminal before.
fn leave(out: &mut impl Write) -> io::Result<()> {
    queue!(out, Show, LeaveAlternateScreen)?;
    out.flush()
}

fn is_end(key: &KeyEvent) -> bool {
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    match key.code {
        KeyCode::Char('q' | 'Q') | KeyCode::Esc => true,
        KeyCode::Char('c' | 'd') => control,
        _ => false,
    }
}

/// Draws everything in one write, over what is there, so nothing flickers.
fn draw(jobs: &[JobStatus]) -> io::Result<()> {
    let (width, height) = terminal::size()?;
    let lines = frame(jobs, usize::from(width), usize::from(height));
    let mut bytes = Vec::new();
    queue!(bytes, BeginSynchronizedUpdate)?;
    for (row, line) in (0u16..).zip(&lines) {
        queue!(bytes, MoveTo(0, row))?;
        bytes.extend(line.bytes());
        if line.chars().count() < usize::from(width) {
            queue!(bytes, Clear(ClearType::UntilNewLine))?;
        }
    }
    if lines.len() < usize::from(height) {
        queue!(
            bytes,
            MoveTo(0, lines.len() as u16),
            Clear(ClearType::FromCursorDown)
        )?;
    }
    queue!(bytes, EndSynchronizedUpdate)?;
    let mut out = io::stdout().lock();
    out.write_all(&bytes)?;
    out.flush()
}
