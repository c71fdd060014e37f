//! How long the table of a job takes to 1,000, 10,000 and 100,000 ranks, and what it costs central.
//!
//! `cargo run --release -p rejoin-sim --example broadcast` writes `docs/bench/rejoin-broadcast.{tsv,svg,md}`.
//! The run is a simulation of virtual time: it gives the same figures everywhere.

use rejoin_sim::spread::{Costs, Figure, Way, measure};
use std::error::Error;
use std::fmt::Write as _;
use std::path::Path;

const RANKS: [u32; 7] = [320, 1_000, 3_200, 10_000, 32_000, 64_000, 100_000];
/// Those that the page quotes.
const QUOTED: [u32; 3] = [1_000, 10_000, 100_000];
const PER_HOST: u32 = 32;
const FANOUT: usize = 8;
const WAYS: [(&str, Way, &str); 3] = [
    ("star", Way::Star, "#b5493a"),
    ("tree", Way::Tree(FANOUT), "#2a7f62"),
    ("on demand", Way::Asked(FANOUT), "#34568b"),
];

/// A panel of the plot: what it shows, the value, the label of a power of ten.
struct Panel {
    title: &'static str,
    value: fn(&Figure) -> f64,
    /// Powers of ten at the bottom and the top.
    range: (i32, i32),
    label: fn(i32) -> String,
}

const PANELS: [Panel; 2] = [
    Panel {
        title: "time until the last rank has it",
        value: |f| f.time as f64 / 1e9,
        range: (-4, 2),
        label: |power| match power {
            ..-3 => format!("{} µs", 10_u32.pow((power + 6) as u32)),
            -3..0 => format!("{} ms", 10_u32.pow((power + 3) as u32)),
            _ => format!("{} s", 10_u32.pow(power as u32)),
        },
    },
    Panel {
        title: "bytes that central sends and takes",
        value: |f| f.bytes as f64,
        range: (2, 11),
        label: |power| match power {
            ..3 => format!("{} B", 10_u32.pow(power as u32)),
            3..6 => format!("{} kB", 10_u32.pow((power - 3) as u32)),
            6..9 => format!("{} MB", 10_u32.pow((power - 6) as u32)),
            _ => format!("{} GB", 10_u32.pow((power - 9) as u32)),
        },
    },
];

const LEFT: f64 = 70.0;
const WIDTH: f64 = 330.0;
const TOP: f64 = 50.0;
const HEIGHT: f64 = 260.0;

type Rows = Vec<(&'static str, &'static str, Vec<Figure>)>;

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
    std::fs::write(out.join("rejoin-broadcast.svg"), plot(&rows)?)?;
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
         `cargo run --release -p rejoin-sim --example broadcast` (a simulation in virtual time, the same everywhere):\n\
         the managers' cores (`managers/protocol/src/broadcast.rs`, `lookup.rs`), {PER_HOST} ranks per host, {} µs from host to host, {} µs\n\
         of a manager's work for each message sent or taken, {} µs for each KiB sent, also to the host's own ranks. Frames have their real sizes; links are up.\n\n\
         - *star*: central sends the table to every host.\n\
         - *tree*: down a tree of local managers with {FANOUT} children each, acknowledged upwards.\n\
         - *on demand*: down the tree goes, ahead of the table, what ranks start with (incarnation and host of each); each\n\
         \x20 rank asks for its six neighbours in a grid, of their hosts' managers. Jobs of more than 256 ranks start so.\n\n\
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

fn time(nanos: u64) -> String {
    match nanos as f64 / 1e6 {
        ms if ms < 10.0 => format!("{ms:.2} ms"),
        ms if ms < 1000.0 => format!("{ms:.0} ms"),
        ms => format!("{:.1} s", ms / 1000.0),
    }
}

fn size(bytes: u64) -> String {
    match bytes as f64 {
        b if b < 1e3 => format!("{b} B"),
        b if b < 1e6 => format!("{:.1} kB", b / 1e3),
        b if b < 1e9 => format!("{:.1} MB", b / 1e6),
        b => format!("{:.1} GB", b / 1e9),
    }
}

fn plot(rows: &Rows) -> Result<String, std::fmt::Error> {
    let width = 2.0 * (LEFT + WIDTH) + 30.0;
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{width}\" height=\"{}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
        TOP + HEIGHT + 70.0
    );
    for (number, panel) in PANELS.iter().enumerate() {
        draw(&mut svg, panel, LEFT + number as f64 * (LEFT + WIDTH), rows)?;
    }
    for (number, (name, colour, _)) in rows.iter().enumerate() {
        let (x, y) = (LEFT + 120.0 * number as f64, TOP + HEIGHT + 55.0);
        let line = y - 4.0;
        writeln!(
            svg,
            "<line x1=\"{x}\" x2=\"{}\" y1=\"{line}\" y2=\"{line}\" stroke=\"{colour}\" stroke-width=\"2\"/>\
             <text x=\"{}\" y=\"{y}\">{name}</text>",
            x + 20.0,
            x + 26.0
        )?;
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

fn draw(svg: &mut String, panel: &Panel, left: f64, rows: &Rows) -> std::fmt::Result {
    let (bottom, top) = panel.range;
    let x = |ranks: u32| left + (f64::from(ranks).log10() - 2.4) / 2.7 * WIDTH;
    let share = |power: f64| (power - f64::from(bottom)) / f64::from(top - bottom);
    let y = |power: f64| TOP + HEIGHT * (1.0 - share(power));
    let (right, low) = (left + WIDTH, TOP + HEIGHT);
    let title = panel.title;
    writeln!(
        svg,
        "<text x=\"{left}\" y=\"30\" font-size=\"14\">{title}</text>"
    )?;
    for power in bottom..=top {
        let (at, label) = (y(f64::from(power)), (panel.label)(power));
        writeln!(
            svg,
            "<line x1=\"{left}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\" stroke=\"#ddd\"/>\
             <text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\">{label}</text>",
            left - 6.0,
            at + 4.0
        )?;
    }
    for ranks in QUOTED {
        let at = x(ranks);
        writeln!(
            svg,
            "<line x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{TOP}\" y2=\"{low}\" stroke=\"#ddd\"/>\
             <text x=\"{at:.1}\" y=\"{}\" text-anchor=\"middle\">{ranks} ranks</text>",
            low + 18.0
        )?;
    }
    for (_, colour, figures) in rows {
        let point = |f: &Figure| format!("{:.1},{:.1}", x(f.ranks), y((panel.value)(f).log10()));
        let points: Vec<String> = figures.iter().map(point).collect();
        let points = points.join(" ");
        writeln!(
            svg,
            "<polyline points=\"{points}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\"/>"
        )?;
    }
    Ok(())
}
