//! How far long writes and restores of images have come: a bar in the last line of the terminal.
//!
//! It is shown from a second on, and four times a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle, TermLike};
use rejoin_ckpt::store::ImageFolder;
use rejoin_managers_protocol::central::{ImageProgress, ImageWork};
use rejoin_managers_stdio::terminal_line::{self, EMPTY_LINE, TerminalLine};
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Work that ends sooner is not shown.
const DELAY: Duration = Duration::from_secs(1);
/// Time between two looks at the bar.
const INTERVAL: Duration = Duration::from_millis(250);
/// On narrower terminals the line would not fit.
const LEAST_WIDTH: u16 = 72;
const TEMPLATE: &str = "mpirun: {prefix} [{bar:20}] {pos}/{len} ranks{msg}, {elapsed}";

/// Shows the progress of a job. Without a terminal it shows nothing.
pub struct ProgressLine {
    terminal: Option<Arc<TerminalLine>>,
    /// The folder of the job's images, if this host has all of them.
    folder: Option<ImageFolder>,
    work: Option<Work>,
}

/// Work under way.
struct Work {
    what: ImageWork,
    since: Instant,
    /// When it is looked at again.
    next: Instant,
    bar: ProgressBar,
    canvas: Canvas,
}

impl ProgressLine {
    /// On this terminal, if there is one. `folder`: has all files of the job's images.
    #[must_use]
    pub fn new(terminal: Option<Arc<TerminalLine>>, folder: Option<ImageFolder>) -> ProgressLine {
        ProgressLine {
            terminal,
            folder,
            work: None,
        }
    }

    /// The job is so far now.
    pub fn update(&mut self, progress: Option<ImageProgress>, now: Instant) {
        let Some(terminal) = &self.terminal else {
            return;
        };
        let Some(progress) = progress else {
            self.end();
            return;
        };
        if self
            .work
            .as_ref()
            .is_some_and(|work| work.what != progress.work)
        {
            terminal_line::clear();
            self.work = None;
        }
        let begin = || Work::new(&progress, Arc::clone(terminal), now);
        let work = self.work.get_or_insert_with(begin);
        if now < work.next {
            return;
        }
        work.next = now + INTERVAL;
        if terminal.is_free() {
            let bytes = match progress.work {
                ImageWork::Files(epoch) => self.folder.as_ref().map(|f| written(f, epoch.0)),
                ImageWork::Copies(_) | ImageWork::Restore => None,
            };
            if let Some(line) = work.line(&progress, bytes, now) {
                terminal.show(&line);
            }
        }
    }

    /// Nothing is under way.
    pub fn end(&mut self) {
        if self.work.take().is_some() {
            terminal_line::clear();
        }
    }

    /// How long until [`ProgressLine::update`] is due.
    #[must_use]
    pub fn wait_limit(&self) -> Option<Duration> {
        let work = self.work.as_ref()?;
        Some(work.next.saturating_duration_since(Instant::now()))
    }
}

/// Bytes of a checkpoint's files, whole or not.
fn written(folder: &ImageFolder, epoch: u32) -> u64 {
    let files = folder.files().unwrap_or_default();
    let own = files.iter().filter(|file| file.epoch == epoch);
    own.map(|file| file.bytes).sum()
}

impl Work {
    fn new(progress: &ImageProgress, terminal: Arc<TerminalLine>, now: Instant) -> Work {
        let text = Arc::default();
        let canvas = Canvas { text, terminal };
        let target = ProgressDrawTarget::term_like(Box::new(canvas.clone()));
        let style = ProgressStyle::with_template(TEMPLATE);
        let style = style.unwrap_or_else(|_| ProgressStyle::default_bar());
        let bar = ProgressBar::with_draw_target(Some(progress.of.into()), target)
            .with_style(style.progress_chars("=> "))
            .with_prefix(match progress.work {
                ImageWork::Files(epoch) => format!("files of checkpoint {}", epoch.0),
                ImageWork::Copies(epoch) => format!("copies of checkpoint {}", epoch.0),
                ImageWork::Restore => "restoring".into(),
            });
        Work {
            what: progress.work,
            since: now,
            next: now + DELAY,
            bar,
            canvas,
        }
    }

    /// What is to be written on the terminal. `None` if it is too narrow.
    fn line(&self, progress: &ImageProgress, bytes: Option<u64>, now: Instant) -> Option<String> {
        if self.canvas.width() < LEAST_WIDTH {
            return None;
        }
        let bytes = bytes.map(|bytes| format!(", {:.1} MiB", bytes as f64 / f64::from(1 << 20)));
        self.bar.set_position(progress.done.into());
        self.bar.set_message(bytes.unwrap_or_default());
        let elapsed = now.saturating_duration_since(self.since);
        self.canvas.take();
        self.bar.clone().with_elapsed(elapsed).tick();
        Some(self.canvas.take())
    }
}

/// What the bar draws, until it is taken. It is never written on the terminal behind the back of
/// those who clear the line.
#[derive(Debug, Clone)]
struct Canvas {
    text: Arc<Mutex<String>>,
    terminal: Arc<TerminalLine>,
}

impl Canvas {
    fn text(&self) -> MutexGuard<'_, String> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self) -> String {
        std::mem::take(&mut self.text())
    }
}

impl TermLike for Canvas {
    fn width(&self) -> u16 {
        self.terminal.width()
    }

    // The bar has one line.
    fn move_cursor_up(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_down(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_right(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn move_cursor_left(&self, _: usize) -> io::Result<()> {
        Ok(())
    }

    fn write_line(&self, text: &str) -> io::Result<()> {
        self.write_str(text)
    }

    fn write_str(&self, text: &str) -> io::Result<()> {
        self.text().push_str(text);
        Ok(())
    }

    fn clear_line(&self) -> io::Result<()> {
        self.write_str(EMPTY_LINE)
    }

    fn flush(&self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::pty::{OpenptyResult, Winsize, openpty};
    use rejoin_channel_table::Epoch;
    use std::fs::File;
    use std::io::Read as _;

    fn terminal(width: u16) -> OpenptyResult {
        let size = Winsize {
            ws_row: 24,
            ws_col: width,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        openpty(&size, None).unwrap()
    }

    /// What has come to the terminal since the last call.
    fn shown(master: &mut File) -> String {
        let mut bytes = Vec::new();
        // All that there is, until a read would block.
        let _ = master.read_to_end(&mut bytes);
        String::from_utf8(bytes).unwrap()
    }

    fn files(done: u32) -> Option<ImageProgress> {
        let work = ImageWork::Files(Epoch(3));
        Some(ImageProgress { work, done, of: 4 })
    }

    #[test]
    fn long_work_is_shown_until_it_ends_or_others_write() {
        let pty = terminal(100);
        rejoin_managers_host::set_nonblocking(&pty.master).unwrap();
        let mut master = File::from(pty.master);
        let folder = std::env::temp_dir().join(format!("rejoin-bar-{}", std::process::id()));
        let images = ImageFolder::new(&folder, 5, None);
        let image = images
            .begin_copy(2, rejoin_ckpt::ImageNumber::of_checkpoint(3))
            .unwrap();
        image.file().set_len(3 << 19).unwrap();
        let mut line = ProgressLine::new(TerminalLine::of(&pty.slave), Some(images));
        let start = Instant::now();
        let at = |millis| start + Duration::from_millis(millis);
        line.update(files(0), at(0));
        assert!(line.wait_limit().is_some());
        line.update(files(1), at(900));
        assert_eq!(shown(&mut master), "");
        line.update(files(1), at(1100));
        let text = shown(&mut master);
        assert!(text.starts_with(EMPTY_LINE), "{text:?}");
        for part in ["mpirun: files of checkpoint 3 [", "1/4 ranks, 1.5 MiB, 1s"] {
            assert!(text.contains(part), "{text:?}");
        }
        assert!(!text.contains('\n'), "{text:?}");
        // Somebody writes, and leaves a line unfinished.
        terminal_line::clear();
        assert_eq!(shown(&mut master), EMPTY_LINE);
        terminal_line::wrote(b"name? ");
        line.update(files(2), at(1600));
        assert_eq!(shown(&mut master), "");
        terminal_line::wrote(b"\n");
        line.update(files(2), at(2100));
        let text = shown(&mut master);
        assert!(text.contains("2/4 ranks"), "{text:?}");
        line.update(None, at(2200));
        assert_eq!(shown(&mut master), EMPTY_LINE);
        assert_eq!(line.wait_limit(), None);
        drop(image);
        std::fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn nothing_is_shown_on_a_narrow_terminal_or_without_one() {
        let pty = terminal(40);
        rejoin_managers_host::set_nonblocking(&pty.master).unwrap();
        let mut narrow = ProgressLine::new(TerminalLine::of(&pty.slave), None);
        let mut without = ProgressLine::new(None, None);
        let start = Instant::now();
        for line in [&mut narrow, &mut without] {
            line.update(files(0), start);
            line.update(files(1), start + Duration::from_secs(3));
        }
        assert_eq!(shown(&mut File::from(pty.master)), "");
        assert_eq!(without.wait_limit(), None);
    }
}
