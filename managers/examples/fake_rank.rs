//! A rank without an MPI library, for tests: it follows the managers' protocol, or breaks it, as
//! its argument says.

use rejoin_channel_table::{Address, BusinessCard, Identity};
use rejoin_wire::codec::{FrameReader, MANAGER_LIMIT, RANK_LIMIT, encode};
use rejoin_wire::{FromManager, Limits, MANAGER_FD, ToManager, VERSION, Welcome};
use std::io::{Read, Write};
use std::os::fd::FromRawFd;
use std::os::unix::net::UnixStream;

struct Manager {
    socket: UnixStream,
    reader: FrameReader,
}

impl Manager {
    fn inherited() -> Manager {
        let fd = std::env::var(MANAGER_FD)
            .expect("run me under mpirun")
            .parse()
            .unwrap();
        // SAFETY: the launcher left this descriptor for us and no other code uses it.
        let socket = unsafe { UnixStream::from_raw_fd(fd) };
        Manager {
            socket,
            reader: FrameReader::new(MANAGER_LIMIT),
        }
    }

    fn tell(&mut self, message: &ToManager) {
        let mut bytes = Vec::new();
        encode(message, RANK_LIMIT, &mut bytes).unwrap();
        self.socket.write_all(&bytes).unwrap();
    }

    fn hear(&mut self) -> FromManager {
        let mut buffer = [0; 4096];
        loop {
            if let Some(message) = self.reader.next().unwrap() {
                return message;
            }
            match self.socket.read(&mut buffer).unwrap() {
                0 => {
                    println!("manager closed");
                    std::process::exit(1);
                }
                count => self.reader.push(&buffer[..count]),
            }
        }
    }

    fn welcome(&mut self) -> Welcome {
        match self.hear() {
            FromManager::Welcome(welcome) => *welcome,
            other => panic!("not a welcome: {other:?}"),
        }
    }

    fn register(&mut self, identity: &Identity, limits: Limits) -> usize {
        self.announce(identity, limits);
        match self.hear() {
            FromManager::Start {
                generation, table, ..
            } => {
                assert_eq!(generation, identity.generation);
                for ((_, card), rank) in table.iter().zip(0u16..) {
                    let address = Address::Tcp(([127, 0, 0, 1], 5000 + rank).into());
                    assert_eq!(card.addresses, [address], "the card of another rank");
                }
                table.len()
            }
            FromManager::Stop { why } => {
                println!("stop: {why}");
                std::process::exit(1);
            }
            other => panic!("not a start: {other:?}"),
        }
    }

    fn announce(&mut self, identity: &Identity, limits: Limits) {
        let port = 5000 + identity.rank.0 as u16;
        let card = BusinessCard {
            addresses: vec![Address::Tcp(([127, 0, 0, 1], port).into())],
            pid: std::process::id(),
            ..BusinessCard::default()
        };
        self.tell(&ToManager::Register {
            rank: identity.rank,
            incarnation: identity.incarnation,
            pid: std::process::id(),
            card,
            version: VERSION,
            limits,
        });
    }

    fn finalize(&mut self, welcome: &Welcome) {
        self.tell(&ToManager::Finalizing);
        let generation = welcome.identity.generation;
        assert_eq!(self.hear(), FromManager::AllFinalized { generation });
        if welcome.options.stats {
            let rank = u64::from(welcome.identity.rank.0);
            self.tell(&ToManager::Counters {
                counters: vec![("one".into(), 1), ("rank".into(), rank)],
            });
        }
        self.tell(&ToManager::Leave);
    }
}

/// `fake_rank MODE [RANK]`: RANK is the one that misbehaves (0 when absent), the others wait.
fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let mode = arguments.first().map_or("ok", String::as_str);
    let bad: u32 = arguments.get(1).map_or(0, |a| a.parse().unwrap());
    let mut manager = Manager::inherited();
    let welcome = manager.welcome();
    let rank = welcome.identity.rank.0;
    if mode == "skip" && rank == bad {
        return;
    }
    let odd = mode == "differ" && rank == bad;
    let limits = Limits {
        eager_copy: 10,
        eager_max: 20,
        window: if odd { 31 } else { 30 },
        reduce_by_hosts: false,
    };
    let size = manager.register(&welcome.identity, limits);
    if mode == "ok" {
        println!("{rank} of {size}, program {:?}", welcome.appnum);
        return manager.finalize(&welcome);
    }
    if mode == "fail-late" {
        manager.finalize(&welcome);
        std::thread::sleep(std::time::Duration::from_millis(if rank == bad {
            0
        } else {
            200
        }));
        println!("{rank} wrote");
        std::process::exit(if rank == bad { 9 } else { 0 });
    }
    if mode == "abort-late" {
        manager.finalize(&welcome);
        if rank == bad {
            manager.tell(&ToManager::Abort {
                code: 42,
                why: "too late".into(),
            });
        }
        std::thread::sleep(std::time::Duration::from_secs(1000));
        println!("{rank} wrote");
        return;
    }
    if rank != bad {
        manager.tell(&ToManager::Finalizing);
        let message = manager.hear();
        println!("{rank} heard {message:?}");
        std::process::exit(1);
    }
    misbehave(mode, &mut manager, &welcome, limits);
}

/// The misbehaviour of the one rank.
fn misbehave(mode: &str, manager: &mut Manager, welcome: &Welcome, limits: Limits) {
    match mode {
        "quit" => {}
        "crash" => std::process::abort(),
        "code" => std::process::exit(5),
        "abort" => {
            manager.tell(&ToManager::Abort {
                code: 42,
                why: "as told".into(),
            });
            std::thread::sleep(std::time::Duration::from_secs(1000));
        }
        "garbage" => {
            manager.socket.write_all(&[0xff; 64]).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(1000));
        }
        "twice" => {
            manager.announce(&welcome.identity, limits);
            std::thread::sleep(std::time::Duration::from_secs(1000));
        }
        "close" => {
            manager.socket.shutdown(std::net::Shutdown::Both).unwrap();
            std::thread::sleep(std::time::Duration::from_secs(1000));
        }
        _ => panic!("no mode {mode}"),
    }
}
