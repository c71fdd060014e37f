//! More ranks than cores: the time of a dissemination barrier.
//!
//! `cargo run --profile fast -p rejoin-device --example crowd [ranks] [cores]`.

use std::time::Instant;

use rejoin_device::Device;
use rejoin_device::testing::{TestJob, finish, from, irecv, send};

fn barrier(device: &mut Device) {
    let (me, size) = (device.rank().0, device.size());
    let mut distance = 1;
    while distance < size {
        let mut byte = [0];
        let request = irecv(device, from((me + size - distance) % size, 1), &mut byte);
        send(device, (me + distance) % size, 1, &[1]);
        finish(device, request);
        distance *= 2;
    }
}

fn main() {
    let number = |at, default| {
        std::env::args()
            .nth(at)
            .and_then(|text| text.parse().ok())
            .unwrap_or(default)
    };
    let mut job = TestJob::new(number(1, 4));
    job.cores = number(2, 2);
    let times = job.run(|device| {
        const COUNT: u32 = 2000;
        for _ in 0..50 {
            barrier(device);
        }
        let start = Instant::now();
        for _ in 0..COUNT {
            barrier(device);
        }
        (start.elapsed() / COUNT, device.stats())
    });
    println!("{:?} per barrier\n{:?}", times[0].0, times[0].1);
}
