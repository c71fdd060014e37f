//! Pipes of ranks and a link to mpirun in one process.

use super::*;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use nix::unistd::pipe2;
use rejoin_managers_net::local_link::{Filled, LocalLink};
use rejoin_wire::codec::MANAGER_LIMIT;
use std::fs::File;
use std::io::Write;

const RANK: Rank = Rank(5);

/// One rank in slot 0, and mpirun's end of the link.
struct World {
    outputs: RankOutputs,
    reactor: Reactor,
    link: MpirunLink,
    mpirun: LocalLink,
}

/// The writing ends of a process's pipes.
type Writers = [Option<File>; 2];

impl World {
    fn new(come_back: bool, is_read_at_once: bool) -> World {
        let reactor = Reactor::new().unwrap();
        let (ours, theirs) = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .unwrap();
        let mut outputs = RankOutputs::new();
        outputs.serve([RANK].into_iter(), come_back, [is_read_at_once; 2]);
        World {
            outputs,
            link: MpirunLink::over(ours, &reactor).unwrap(),
            mpirun: LocalLink::new(theirs, MANAGER_LIMIT, MANAGER_LIMIT),
            reactor,
        }
    }

    /// A process of the rank begins, which continues these lines.
    fn begin(&mut self, incarnation: u32, begun: [Vec<u8>; 2]) -> Writers {
        let [(out, to_out), (err, to_err)] = [pipe(), pipe()];
        let incarnation = Incarnation(incarnation);
        let pipes = [out, err];
        let outputs = &mut self.outputs;
        outputs
            .begin(0, incarnation, pipes, begun, &self.reactor)
            .unwrap();
        [Some(to_out), Some(to_err)]
    }

    fn read(&mut self, stream: Stream) {
        self.outputs.read(0, stream, &mut self.link, &self.reactor);
    }

    /// The output that mpirun has received since the last call: stream, bytes, end.
    fn received(&mut self) -> Vec<(Stream, String, bool)> {
        let mut all = Vec::new();
        loop {
            self.link.flush(&self.reactor).unwrap();
            let filled = self.mpirun.fill().unwrap();
            while let Some(message) = self.mpirun.next().unwrap() {
                let LocalToMpirun::Output {
                    rank,
                    stream,
                    bytes,
                    last,
                } = message
                else {
                    panic!("another message");
                };
                assert_eq!(rank, RANK);
                let text = String::from_utf8(bytes.into_vec()).unwrap();
                all.push((stream, text, last));
            }
            if filled == Filled::Nothing {
                return all;
            }
        }
    }
}

fn pipe() -> (OwnedFd, File) {
    let (reader, writer) = pipe2(OFlag::O_CLOEXEC).unwrap();
    set_nonblocking(&reader).unwrap();
    (reader, writer.into())
}

fn write(writers: &Writers, stream: Stream, text: &str) {
    let mut file = writers[stream as usize].as_ref().unwrap();
    file.write_all(text.as_bytes()).unwrap();
}

fn out(text: &str, last: bool) -> (Stream, String, bool) {
    (Stream::Out, text.into(), last)
}

#[test]
fn lines_are_passed_on_whole_and_the_rest_at_the_end() {
    let mut world = World::new(false, false);
    let mut writers = world.begin(0, Default::default());
    write(&writers, Stream::Out, "one\ntw");
    world.read(Stream::Out);
    assert_eq!(world.received(), [out("one\n", false)]);
    write(&writers, Stream::Out, "o\nthree");
    write(&writers, Stream::Err, "apart\n");
    world.read(Stream::Out);
    world.read(Stream::Err);
    let apart = (Stream::Err, "apart\n".into(), false);
    assert_eq!(world.received(), [out("two\n", false), apart]);
    writers[0] = None;
    world.read(Stream::Out);
    assert_eq!(world.received(), [out("three", true)]);
    // Another process keeps this pipe open, and all processes have ended.
    write(&writers, Stream::Err, "late");
    assert!(world.outputs.drain_all(&mut world.link, &world.reactor));
    assert_eq!(world.received(), [(Stream::Err, "late".into(), true)]);
}

#[test]
fn the_unfinished_line_of_a_killed_rank_is_written_by_its_successor() {
    let mut world = World::new(true, false);
    let mut writers = world.begin(0, Default::default());
    write(&writers, Stream::Out, "whole\nhalf");
    writers[0] = None;
    world.read(Stream::Out);
    world.read(Stream::Out);
    assert_eq!(world.received(), [out("whole\n", false)]);
    // It was killed: its image had written the beginning of the line.
    world.outputs.drain(0, &mut world.link, &world.reactor);
    assert_eq!(world.received(), []);
    let mut writers = world.begin(1, [b"ha".to_vec(), Vec::new()]);
    write(&writers, Stream::Out, "lf and half\nend");
    writers[0] = None;
    world.read(Stream::Out);
    world.read(Stream::Out);
    assert_eq!(world.received(), [out("half and half\n", false)]);
    // It exits by its own will, so no successor writes its last line.
    world
        .outputs
        .rank_exited(0, &mut world.link, &world.reactor);
    assert_eq!(world.received(), [out("end", true)]);
}

#[test]
fn nothing_is_read_while_the_window_is_used_up() {
    let mut world = World::new(false, false);
    let writers = world.begin(0, Default::default());
    // A pipe takes so much at once.
    let piece = format!("{}\n", "x".repeat(32 * 1024 - 1));
    let pieces = OUTPUT_WINDOW / piece.len();
    for _ in 0..pieces {
        write(&writers, Stream::Out, &piece);
        world.read(Stream::Out);
        assert_eq!(world.received(), [out(&piece, false)]);
    }
    write(&writers, Stream::Out, "waits\n");
    world.read(Stream::Out);
    assert_eq!(world.received(), []);
    let mut tokens = Vec::new();
    let no_time = Some(Duration::ZERO);
    world.reactor.wait(no_time, &mut tokens).unwrap();
    assert!(tokens.is_empty(), "it would be reported again and again");
    world.outputs.credit(100, &world.reactor).unwrap();
    world.reactor.wait(no_time, &mut tokens).unwrap();
    assert_eq!(tokens, [kind::of_process(kind::OUT, Incarnation(0), 0)]);
    world.read(Stream::Out);
    assert_eq!(world.received(), [out("waits\n", false)]);
}

#[test]
fn an_unfinished_line_is_seen_after_a_moment_unless_a_full_buffer_ends_in_it() {
    let full = "z".repeat(BUFFER);
    for (is_read_at_once, text) in [(true, "name? "), (false, "name? "), (true, &full)] {
        let mut world = World::new(true, is_read_at_once);
        let writers = world.begin(0, Default::default());
        write(&writers, Stream::Out, text);
        world.read(Stream::Out);
        let is_seen = is_read_at_once && text != full;
        assert_eq!(world.outputs.prompt_limit().is_some(), is_seen);
        std::thread::sleep(PROMPT);
        let (outputs, link) = (&mut world.outputs, &mut world.link);
        outputs.pass_prompts(link, &world.reactor);
        let expected = is_seen.then(|| out("name? ", false));
        assert_eq!(world.received(), Vec::from_iter(expected));
        assert_eq!(world.outputs.prompt_limit(), None);
    }
}

#[test]
fn an_image_takes_the_unfinished_line_along_to_its_new_pipe() {
    let mut world = World::new(true, false);
    let mut writers = world.begin(0, Default::default());
    write(&writers, Stream::Out, "before\nun");
    let (reader, writer) = pipe();
    let (outputs, link) = (&mut world.outputs, &mut world.link);
    let partial = outputs.renew(0, Stream::Out, Some(reader), link, &world.reactor);
    assert_eq!(partial, b"un");
    assert_eq!(world.received(), [out("before\n", false)]);
    writers[0] = Some(writer);
    write(&writers, Stream::Out, "finished\n");
    world.read(Stream::Out);
    assert_eq!(world.received(), [out("unfinished\n", false)]);
}

#[test]
fn a_stored_state_has_the_beginning_of_the_unfinished_line() {
    let mut world = World::new(true, false);
    let writers = world.begin(0, Default::default());
    let line = "y".repeat(MOST_BEGUN + 1);
    write(&writers, Stream::Out, &format!("done\n{line}"));
    write(&writers, Stream::Err, "short");
    let (outputs, link) = (&mut world.outputs, &mut world.link);
    let [begun, other] = outputs.stored(0, link, &world.reactor);
    assert_eq!(begun.as_slice(), &line.as_bytes()[..MOST_BEGUN]);
    assert_eq!(other.as_slice(), b"short");
    // The report of the stored state follows the output before it.
    assert_eq!(world.received(), [out("done\n", false)]);
}

#[test]
fn a_stream_without_a_reader_is_closed_for_successors_too() {
    let mut world = World::new(true, false);
    let writers = world.begin(0, Default::default());
    world.outputs.close_sink(Stream::Out, &world.reactor);
    let broken = writers[0].as_ref().unwrap().write_all(b"lost");
    let broken = broken.map_err(|error| error.kind());
    assert_eq!(broken, Err(std::io::ErrorKind::BrokenPipe));
    let writers = world.begin(1, Default::default());
    assert!(writers[0].as_ref().unwrap().write_all(b"lost").is_err());
    write(&writers, Stream::Err, "kept\n");
    world.read(Stream::Err);
    assert_eq!(world.received(), [(Stream::Err, "kept\n".into(), false)]);
}

#[test]
fn a_process_that_fills_the_pipe_again_and_again_does_not_hold_up_a_recovery() {
    let mut world = World::new(true, false);
    let [writer, _err] = world.begin(0, Default::default());
    let mut writer = writer.unwrap();
    let size = fcntl(&writer, FcntlArg::F_GETPIPE_SZ).unwrap();
    let size = usize::try_from(size).unwrap();
    // The rank is stopped; a process that it forked writes on until nobody reads any more.
    let other = std::thread::spawn(move || {
        let lines = [b"x".repeat(1023), b"\n".to_vec()].concat().repeat(1024);
        while writer.write_all(&lines).is_ok() {}
    });
    for _ in 0..50 {
        let held = |world: &World| {
            let output = world.outputs.ranks[0].pipes[0].as_ref().unwrap();
            bytes_in(&output.pipe)
        };
        while held(&world) < size {
            std::thread::yield_now();
        }
        world.outputs.stored(0, &mut world.link, &world.reactor);
        let passed: usize = world.received().iter().map(|(_, text, _)| text.len()).sum();
        assert_eq!(passed, size, "also bytes of later");
    }
    world.outputs.drain(0, &mut world.link, &world.reactor);
    other.join().unwrap();
}
