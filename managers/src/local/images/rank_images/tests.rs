//! Images whose processes are played by the other ends of their sockets.

use super::*;
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};
use rejoin_channel_table::{Generation, Incarnation};
use rejoin_wire::{Holds, ImageCost};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

fn checkpoint(epoch: u32) -> ImageId {
    ImageId::Checkpoint(Epoch(epoch))
}

/// The events of the image that came at this place in a slot.
fn events_of(slot: u32, serial: u32) -> Token {
    Token {
        kind: kind::IMAGE,
        incarnation: serial,
        index: slot,
    }
}

/// Images of this host's ranks, and the other ends of their sockets.
struct World {
    images: RankImages,
    reactor: Reactor,
    ends: Vec<OwnedFd>,
}

impl World {
    fn new(ranks: usize) -> World {
        let mut images = RankImages::default();
        images.serve(ranks);
        World {
            images,
            reactor: Reactor::new().unwrap(),
            ends: Vec::new(),
        }
    }

    /// A rank reports an image, whose process id is this one.
    fn add(&mut self, slot: usize, id: u32, pid: u32, holds: Holds) {
        let message = ToManager::Imaged {
            generation: Generation(0),
            image: checkpoint(id),
            pid,
            cost: ImageCost::default(),
            streams: [false; 2],
            caveats: Vec::new(),
            holds,
        };
        let report = ImageReport {
            incarnation: Incarnation(0),
            pid: 1,
            message,
        };
        let flags = SockFlag::SOCK_CLOEXEC;
        let (ours, theirs) =
            socketpair(AddressFamily::Unix, SockType::Stream, None, flags).unwrap();
        self.ends.push(theirs);
        let partial = [format!("slot {slot}").into_bytes(), Vec::new()];
        let (images, reactor) = (&mut self.images, &self.reactor);
        images
            .add(slot, report, ours, (partial, None), reactor)
            .unwrap();
    }

    fn drop_image(&mut self, slot: usize, id: u32) -> bool {
        self.images.drop_image(slot, checkpoint(id), &self.reactor)
    }
}

fn writes(files: &[(u64, u64)]) -> Holds {
    Holds {
        files: Some(files.to_vec()),
        ..Holds::default()
    }
}

#[test]
fn files_that_other_ranks_write_at_the_same_image_are_spared() {
    let mut world = World::new(3);
    let (mine, shared, older) = ((1, 1), (1, 2), (1, 3));
    world.add(0, 5, 100, writes(&[mine, shared, older]));
    world.add(1, 5, 101, writes(&[shared]));
    world.add(1, 4, 102, writes(&[older]));
    let spared = |world: &World, slot| world.images.spared_files(slot, checkpoint(5));
    assert_eq!(spared(&world, 0), Some(vec![shared]));
    assert_eq!(spared(&world, 1), Some(vec![shared]));
    // A rank with more files than it can name may write any of them.
    let unnamed = Holds {
        files: None,
        ..Holds::default()
    };
    world.add(2, 5, 103, unnamed);
    assert_eq!(spared(&world, 0), None);
    assert!(world.drop_image(2, 5));
    assert_eq!(spared(&world, 0), Some(vec![shared]));
}

#[test]
fn a_request_is_void_for_a_rank_that_has_a_later_image_or_when_it_is_committed() {
    let mut world = World::new(2);
    assert!(world.images.lacks(0, Epoch(2)));
    world.add(0, 3, 100, Holds::default());
    assert!(!world.images.lacks(0, Epoch(2)) && !world.images.lacks(0, Epoch(3)));
    assert!(world.images.lacks(0, Epoch(4)) && world.images.lacks(1, Epoch(2)));
    assert!(world.images.prepare_limit().is_none());
    assert!(world.images.commit(Epoch(3)), "it is news");
    assert!(
        world.images.prepare_limit().is_some(),
        "for the next recovery"
    );
    assert!(!world.images.commit(Epoch(3)) && !world.images.commit(Epoch(2)));
    assert!(!world.images.lacks(1, Epoch(2)) && world.images.lacks(1, Epoch(4)));
}

#[test]
fn an_image_is_found_until_it_is_dropped() {
    let mut world = World::new(2);
    let locks = Holds {
        locks: true,
        ..Holds::default()
    };
    world.add(1, 3, 100, locks);
    world.add(1, 4, 101, Holds::default());
    assert_eq!(
        world.images.of_process(100),
        Some((1, checkpoint(3), events_of(1, 1)))
    );
    assert_eq!(world.images.of_process(99), None);
    assert!(world.images.need_its_end(1) && !world.images.need_its_end(0));
    let partial = world.images.partial_lines(1, checkpoint(3));
    assert_eq!(partial, [b"slot 1".to_vec(), Vec::new()]);
    assert!(world.drop_image(1, 3) && !world.drop_image(1, 3));
    assert_eq!(world.images.of_process(100), None);
    assert!(!world.images.need_its_end(1));
    assert_eq!(
        world.images.of_process(101),
        Some((1, checkpoint(4), events_of(1, 2)))
    );
    let partial = world.images.partial_lines(1, checkpoint(3));
    assert_eq!(partial, <[Vec<u8>; 2]>::default());
}

#[test]
fn the_end_of_an_image_is_an_event_of_its_own() {
    let mut world = World::new(1);
    world.add(0, 3, 100, Holds::default());
    world.add(0, 4, 101, Holds::default());
    let mut event = |serial| world.images.event(events_of(0, serial), &world.reactor);
    assert!(event(1).is_none() && event(3).is_none());
    world.ends.remove(0);
    let Some((id, ImageEvent::Lost { .. })) = event(1) else {
        panic!("the end of the image's socket is not noticed");
    };
    assert_eq!(id, checkpoint(3));
    assert!(event(2).is_none());
}

#[test]
fn an_image_that_has_taken_its_order_is_watched_for_answers_only() {
    let mut world = World::new(1);
    world.add(0, 3, 100, Holds::default());
    // Its socket is full when it is to make a process.
    let image = world.images.find(0, checkpoint(3)).unwrap();
    let zygote = image.zygote.as_ref().unwrap();
    let mut ours = UnixStream::from(zygote.as_fd().try_clone_to_owned().unwrap());
    ours.set_nonblocking(true).unwrap();
    while ours.write(&[0; 4096]).is_ok() {}
    let request = RestoreRequest::default();
    let restored = world
        .images
        .restore(0, checkpoint(3), &request, None, &world.reactor);
    assert_eq!(restored, Ok(()));
    let waited = |world: &mut World| {
        let mut tokens = Vec::new();
        let limit = Some(Duration::from_millis(1));
        world.reactor.wait(limit, &mut tokens).unwrap();
        tokens
    };
    assert_eq!(waited(&mut world), []);
    let mut theirs = UnixStream::from(world.ends[0].try_clone().unwrap());
    theirs.set_nonblocking(true).unwrap();
    while theirs.read(&mut [0; 4096]).is_ok() {}
    let there_is_room = events_of(0, 1);
    assert_eq!(waited(&mut world), [there_is_room]);
    assert!(world.images.event(there_is_room, &world.reactor).is_none());
    assert!(
        theirs.read(&mut [0; 4096]).unwrap() > 0,
        "the order has left"
    );
    assert_eq!(waited(&mut world), []);
}

#[test]
fn an_image_that_shares_memory_is_not_restored_in_its_own_generation() {
    let mut world = World::new(2);
    let together = Holds {
        together: Some(Generation(2)),
        ..Holds::default()
    };
    world.add(0, 3, 100, together);
    world.add(1, 3, 101, Holds::default());
    let bound = |slot, generation| {
        world
            .images
            .is_bound(slot, checkpoint(3), Generation(generation))
    };
    assert!(bound(0, 2) && !bound(0, 3) && !bound(1, 2));
    assert!(world.images.need_its_end(0) && world.images.need_its_end(1));
}
