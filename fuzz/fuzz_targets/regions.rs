//! A file of registered memory: it is loaded or refused, and a refused one changes no memory.
#![no_main]

use rejoin_ckpt::regions::{Regions, Wanted};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let folder = std::env::temp_dir().join(format!("rejoin-fuzz-regions-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let file = folder.join("rank-000001-epoch-0000000009");
    std::fs::write(&file, data).expect("written");
    let mut memory = vec![0xeeu8; 64];
    let mut regions = Regions::new();
    // SAFETY: the memory lives as long as the registration and never moves.
    unsafe { regions.register(3, memory.as_mut_ptr(), memory.len()) }.expect("registered");
    let wanted = Wanted {
        job: None,
        rank: 1,
        size: 4,
        epoch: None,
    };
    if regions.load(&folder, &wanted).is_err() {
        assert!(memory.iter().all(|byte| *byte == 0xee));
    }
});
