//! The runs that the measuring program has printed.

/// A line of the measuring program: its cells after the first, which is the kind.
pub type Cells = Vec<String>;

/// The runs of each kind.
#[derive(Debug, Default)]
pub struct Runs {
    /// Program, hosts, setting, seconds, processor seconds.
    pub costs: Vec<Cells>,
    /// Setting, seconds to the first event, seconds until ranks are replaced.
    pub notices: Vec<Cells>,
    /// Setting, seconds, alarms.
    pub alarms: Vec<Cells>,
}

impl Runs {
    /// Reads the lines of the measuring program.
    pub fn read(text: &str) -> Runs {
        let mut runs = Runs::default();
        for line in text.lines() {
            let mut cells = line.split('\t').map(str::to_owned);
            let list = match cells.next().as_deref() {
                Some("cost") => &mut runs.costs,
                Some("notice") => &mut runs.notices,
                Some("alarm") => &mut runs.alarms,
                _ => continue,
            };
            list.push(cells.collect());
        }
        runs
    }
}
