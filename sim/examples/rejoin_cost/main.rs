//! What it costs that one rank comes back with a new address, by process count: the parts of a move
//! in real jobs of up to 64 ranks, and the update of simulated jobs of up to 1,000,000 ranks.
//!
//! `cargo xtask bench rejoin-cost` writes `docs/bench/rejoin-cost.{tsv,svg,md}`. Real times are
//! read from `rejoin-cost-real.tsv`, which the same command measures. Messages, bytes and times of
//! large jobs are simulated in virtual time; memory and the steps of central are measured.

mod memory;
#[path = "../pages/mod.rs"]
mod pages;
mod real;

use memory::{Memory, measured_alone, memory_of};
use pages::{Line, Panel, draw, seconds_label, size, time};
use plotters::prelude::*;
use real::Moves;
use rejoin_sim::table_distribution::Costs;
use rejoin_sim::update_distribution::{UpdateFaults, UpdateFigure, UpdateLoad, measure};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

type Done<T> = Result<T, Box<dyn Error>>;

const RANKS: [u32; 8] = [64, 320, 1_000, 3_200, 10_000, 32_000, 100_000, 1_000_000];
const PER_HOST: u32 = 32;
const FANOUT: usize = 8;
/// Updates that are sent at once in the second table.
const MANY: u32 = 100;
/// Width and height of the plot in pixels.
const SIZE: (u32, u32) = (840, 380);

const RED: RGBColor = RGBColor(0xd0, 0x5a, 0x48);
const GREEN: RGBColor = RGBColor(0x2a, 0x9d, 0x74);
const BLUE: RGBColor = RGBColor(0x5b, 0x84, 0xc4);
const OCHRE: RGBColor = RGBColor(0xc0, 0x8a, 0x2e);
const VIOLET: RGBColor = RGBColor(0x8e, 0x6b, 0xbf);
/// Parts of a move with their colours, in the order of the samples.
const PARTS: [(&str, RGBColor); 5] = [
    ("local part", VIOLET),
    ("report", RED),
    ("broadcast", GREEN),
    ("propagation", BLUE),
    ("reconnection", OCHRE),
];

/// One update, and many at once.
type Row = (UpdateFigure, UpdateFigure);

fn main() -> Done<()> {
    if measured_alone()? {
        return Ok(());
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let default = root.ok_or("no workspace")?.join("docs/bench");
    let out = std::env::args_os().nth(1).map_or(default, Into::into);
    let samples = out.join("rejoin-cost-real.tsv");
    let moves = Moves::read(&std::fs::read_to_string(&samples).unwrap_or_default());
    let (costs, none) = (Costs::default(), UpdateFaults::default());
    let of = |ranks, updates| {
        let load = UpdateLoad {
            ranks,
            per_host: PER_HOST,
            fanout: FANOUT,
            sites: 1,
            updates,
            recovery_after: None,
        };
        measure(load, costs, &none, 1)
    };
    let mut rows = Vec::new();
    for ranks in RANKS {
        rows.push((of(ranks, 1)?, of(ranks, MANY)?));
    }
    let memory = RANKS[2..].iter().map(|ranks| memory_of(*ranks));
    let memory = memory.collect::<Done<Vec<Memory>>>()?;
    std::fs::write(out.join("rejoin-cost.tsv"), table(&rows, &memory)?)?;
    plot(&out.join("rejoin-cost.svg"), &rows, &moves)?;
    let mut page = head(costs);
    moves.show(&mut page)?;
    show_updates(&mut page, &rows)?;
    show_memory(&mut page, &memory)?;
    print!("{page}");
    std::fs::write(out.join("rejoin-cost.md"), page)?;
    Ok(())
}

fn table(rows: &[Row], memory: &[Memory]) -> Done<String> {
    let mut text = String::from(
        "what\tranks\thosts\treport_ns\tbroadcast_ns\tpropagation_ns\tcentral_messages\t\
         central_bytes\tmessages\tbytes\n",
    );
    for (one, many) in rows {
        for (name, f) in [("one", one), ("many", many)] {
            let times = format!("{}\t{}\t{}", f.report, f.broadcast, f.propagation);
            let central = format!("{}\t{}", f.central_messages, f.central_bytes);
            let (ranks, hosts, messages, bytes) = (f.ranks, f.hosts, f.messages, f.bytes);
            writeln!(
                text,
                "{name}\t{ranks}\t{hosts}\t{times}\t{central}\t{messages}\t{bytes}"
            )?;
        }
    }
    text.push_str("\nranks\tcentral_resident\tlocal_resident\trequest_ns\tupdate_ns\n");
    for m in memory {
        let (ranks, central, local) = (m.ranks, m.central, m.local);
        writeln!(
            text,
            "{ranks}\t{central}\t{local}\t{}\t{}",
            m.request, m.update
        )?;
    }
    Ok(text)
}

fn head(costs: Costs) -> String {
    format!(
        "# What it costs that a rank comes back, by process count\n\n\
         `cargo xtask bench rejoin-cost --prefix DIR` moves a rank of real jobs, and simulates the update of\n\
         one rank in large jobs. Without `--prefix` it keeps the real samples. The parts are those of the\n\
         figure in MPICH-GF's paper:\n\n\
         - the *local part*: the rank stops, and a process is made of its last image and registers;\n\
         - the *report* brings its new card to central, which stores the move;\n\
         - the *broadcast* brings the update from central to all local managers;\n\
         - the *propagation* brings it from there to all ranks;\n\
         - the *reconnection*: until all ranks have completed an exchange among all.\n\n\
         The simulation runs the managers' core (`managers/protocol/src/broadcast.rs`), with {PER_HOST} ranks per\n\
         host and {FANOUT} children of each manager, in virtual time. A frame takes {} µs from host to host. A\n\
         manager works {} µs for each message sent or taken, and {} µs for each KiB sent, also to the host's\n\
         own ranks. Frames have their real sizes; links are established. All hosts know the addresses of\n\
         the managers from the start of the job, so an update carries none.\n\n\
         ![time by process count](rejoin-cost.svg)\n",
        costs.latency / 1000,
        costs.message / 1000,
        costs.kibibyte / 1000,
    )
}

fn show_updates(text: &mut String, rows: &[Row]) -> Done<()> {
    text.push_str(
        "\n## Simulated\n\n\
         | ranks | hosts | report | broadcast | propagation | messages | bytes | central's messages | central's bytes |\n\
         |---|---|---|---|---|---|---|---|---|\n",
    );
    for (f, _) in rows {
        let times = [f.report, f.broadcast, f.propagation].map(time).join(" | ");
        let (messages, bytes) = (f.messages, size(f.bytes));
        let (of_central, central_bytes) = (f.central_messages, size(f.central_bytes));
        writeln!(
            text,
            "| {} | {} | {times} | {messages} | {bytes} | {of_central} | {central_bytes} |",
            f.ranks, f.hosts
        )?;
    }
    writeln!(
        text,
        "\nThe broadcast takes as many steps as the tree has levels: its time grows with the logarithm of the\n\
         hosts. {MANY} updates at once, of which 16 are under way at a time:\n\n\
         | ranks | until the last rank has the last | for each update | central's messages |\n|---|---|---|---|"
    )?;
    for (_, f) in rows {
        let all = f.broadcast + f.propagation;
        let each = time(all / u64::from(MANY));
        let (ranks, messages) = (f.ranks, f.central_messages);
        writeln!(text, "| {ranks} | {} | {each} | {messages} |", time(all))?;
    }
    Ok(())
}

fn show_memory(text: &mut String, memory: &[Memory]) -> Done<()> {
    text.push_str(
        "\n## The managers\n\n\
         Measured as the growth of the resident memory: of central's core, whose ranks have all\n\
         registered, and of the core of a local manager whose ranks have begun without the table. A\n\
         table of more than about 100,000 ranks is longer than a message may be, and goes to no host.\n\
         Two steps of central's core take long: that in which it plans a move, and that in which it\n\
         learns of the new process and sends the update.\n\n\
         | ranks | central | for each rank | local manager | for each rank | plan | update |\n|---|---|---|---|---|---|---|\n",
    );
    for m in memory {
        let each = |bytes: u64| bytes / u64::from(m.ranks);
        writeln!(
            text,
            "| {} | {} | {} B | {} | {} B | {} | {} |",
            m.ranks,
            size(m.central),
            each(m.central),
            size(m.local),
            each(m.local),
            time(m.request),
            time(m.update)
        )?;
    }
    Ok(())
}

fn plot(path: &Path, rows: &[Row], moves: &Moves) -> Done<()> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let panel = |title, range| Panel {
        title,
        range,
        label: seconds_label,
    };
    let (left, right) = area.split_horizontally(SIZE.0 / 2);
    let real = PARTS.iter().enumerate();
    let real: Vec<Line> = real
        .map(|(part, (name, colour))| (*name, *colour, moves.line(part)))
        .collect();
    let title = "parts of a move, real, median";
    draw(&left, &panel(title, (-5, 1)), 4.0..64.0, &real)?;
    let values: [fn(&UpdateFigure) -> u64; 3] = [|f| f.report, |f| f.broadcast, |f| f.propagation];
    let simulated = PARTS[1..].iter().zip(values);
    let simulated: Vec<Line> = simulated
        .map(|((name, colour), value)| {
            let point = |(f, _): &Row| (f64::from(f.ranks), value(f) as f64 / 1e9);
            (*name, *colour, rows.iter().map(point).collect())
        })
        .collect();
    let ranks = f64::from(RANKS[0])..f64::from(RANKS[RANKS.len() - 1]);
    let title = "an update of one rank, simulated";
    draw(&right, &panel(title, (-5, -2)), ranks, &simulated)?;
    area.present()?;
    Ok(())
}
