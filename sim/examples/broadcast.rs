//! How long the table of a job takes to 1,000, 10,000 and 100,000 ranks, and what it costs central.
//!
//! `cargo run --release -p rejoin-sim --example broadcast` writes
//! `docs/bench/rejoin-broadcast.{tsv,svg,md}`. The run is a simulation of virtual time: it gives
//! the same figures everywhere.

mod pages;

use pages::{Line, Panel, draw, seconds_label, size, time};
use plotters::prelude::*;
use rejoin_sim::table_distribution::{Costs, Figure, TableRoute, measure};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

const RANKS: [u32; 7] = [320, 1_000, 3_200, 10_000, 32_000, 64_000, 100_000];
/// Those that the page quotes.
const QUOTED: [u32; 3] = [1_000, 10_000, 100_000];
const PER_HOST: u32 = 32;
const FANOUT: usize = 8;
const WAYS: [(&str, TableRoute, RGBColor); 3] = [
    ("star", TableRoute::Star, RGBColor(0xd0, 0x5a, 0x48)),
    ("tree", TableRoute::Tree(FANOUT), RGBColor(0x2a, 0x9d, 0x74)),
    (
        "on demand",
        TableRoute::Asked(FANOUT),
        RGBColor(0x5b, 0x84, 0xc4),
    ),
];

/// A panel of the plot, and the value that it shows.
type ValuePanel = (Panel, fn(&Figure) -> f64);

const PANELS: [ValuePanel; 2] = [
    (
        Panel {
            title: "time until the last rank has it",
            range: (-4, 2),
            label: seconds_label,
        },
        |f| f.time as f64 / 1e9,
    ),
    (
        Panel {
            title: "bytes that central sends and takes",
            range: (2, 11),
            label: bytes_label,
        },
        |f| f.bytes as f64,
    ),
];

fn bytes_label(power: i32) -> String {
    match power {
        ..3 => format!("{} B", 10_u32.pow(power as u32)),
        3..6 => format!("{} kB", 10_u32.pow((power - 3) as u32)),
        6..9 => format!("{} MB", 10_u32.pow((power - 6) as u32)),
        _ => format!("{} GB", 10_u32.pow((power - 9) as u32)),
    }
}

/// Width and height of the plot in pixels.
const SIZE: (u32, u32) = (840, 380);
type Rows = Vec<(&'static str, RGBColor, Vec<Figure>)>;

fn main() -> Result<(), Box<dyn Error>> {
    let costs = Costs::default();
    let mut rows = Rows::new();
    for (name, way, colour) in WAYS {
        let figures = RANKS.map(|ranks| measure(ranks, PER_HOST, way, costs));
        let figures = figures.into_iter().collect::<Result<Vec<_>, _>>()?;
        rows.push((name, colour, figures));
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent();
    let out = root.ok_or("no workspace")?.join("docs/bench");
    std::fs::write(out.join("rejoin-broadcast.tsv"), table(&rows)?)?;
    plot(&out.join("rejoin-broadcast.svg"), &rows)?;
    let page = page(&rows, costs)?;
    print!("{page}");
    std::fs::write(out.join("rejoin-broadcast.md"), page)?;
    Ok(())
}

fn table(rows: &Rows) -> Result<String, std::fmt::Error> {
    let mut text = String::from("way\tranks\thosts\ttime_ns\tcentral_messages\tcentral_bytes\n");
    for (name, _, figures) in rows {
        for f in figures {
            let (time, messages, bytes) = (f.time, f.messages, f.bytes);
            let (ranks, hosts) = (f.ranks, f.hosts);
            writeln!(
                text,
                "{name}\t{ranks}\t{hosts}\t{time}\t{messages}\t{bytes}"
            )?;
        }
    }
    Ok(text)
}

fn page(rows: &Rows, costs: Costs) -> Result<String, std::fmt::Error> {
    let mut text = format!(
        "# The table of ranks: down a tree, from central alone, or on demand\n\n\
         `cargo run --release -p rejoin-sim --example broadcast` simulates in virtual time and gives the same\n\
         figures everywhere. It runs the managers' cores (`managers/protocol/src/broadcast.rs`, `lookup.rs`)\n\
         with {PER_HOST} ranks per host. A frame takes {} µs from host to host. A manager works {} µs for each\n\
         message sent or taken, and {} µs for each KiB sent, also to the host's own ranks. Frames have their\n\
         real sizes; links are established.\n\n\
         - *star*: central sends the table to every host.\n\
         - *tree*: down a tree of local managers with {FANOUT} children each, acknowledged upwards.\n\
         - *on demand*: what ranks start with (incarnation and host of each) goes down the tree ahead of the\n\
         \x20 table; each rank asks the managers of its six neighbours in a grid for their entries. Jobs of more\n\
         \x20 than 256 ranks start so.\n\n\
         ![time and bytes](rejoin-broadcast.svg)\n\n\
         | way | ranks | hosts | time | central's messages | central's bytes |\n|---|---|---|---|---|---|\n",
        costs.latency / 1000,
        costs.message / 1000,
        costs.kibibyte / 1000,
    );
    for (name, _, figures) in rows {
        for f in figures.iter().filter(|f| QUOTED.contains(&f.ranks)) {
            writeln!(
                text,
                "| {name} | {} | {} | {} | {} | {} |",
                f.ranks,
                f.hosts,
                time(f.time),
                f.messages,
                size(f.bytes)
            )?;
        }
    }
    Ok(text)
}

fn plot(path: &Path, rows: &Rows) -> Result<(), Box<dyn Error>> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let ranks = f64::from(RANKS[0])..f64::from(RANKS[RANKS.len() - 1]);
    for ((panel, value), part) in PANELS.iter().zip(area.split_evenly((1, PANELS.len()))) {
        let line = |(name, colour, figures): &(&'static str, RGBColor, Vec<Figure>)| {
            let points = figures.iter().map(|f| (f64::from(f.ranks), value(f)));
            (*name, *colour, points.collect())
        };
        let lines: Vec<Line> = rows.iter().map(line).collect();
        draw(&part, panel, ranks.clone(), &lines)?;
    }
    area.present()?;
    Ok(())
}
