//! What managers note of the faults that they have injected (`managers/src/fault`).

use crate::folder::Folder;

/// A fault that occurred.
pub struct Struck {
    /// As the variable named it.
    pub fault: String,
    /// The killed processes, each with the name of its victim.
    pub killed: Vec<(String, u32)>,
}

impl Struck {
    /// The number of killed ranks.
    #[must_use]
    pub fn ranks(&self) -> usize {
        let ranks = self.killed.iter();
        ranks.filter(|(who, _)| who.starts_with("rank-")).count()
    }

    /// Somebody was there of those whom the fault names, apart from the central manager, which
    /// always is.
    #[must_use]
    pub fn found(&self) -> bool {
        let others = |who: &&str| *who != "central";
        let named = self.fault.split_once('=').map_or("", |(_, named)| named);
        let found = self.killed.iter().map(|(who, _)| who.as_str());
        found.filter(others).count() > 0 || named.split('+').all(|who| !others(&who))
    }
}

/// The file in which managers note the processes that they have killed.
pub struct Notes(Folder);

impl Notes {
    /// In a folder of its own.
    #[must_use]
    pub fn new(name: &str) -> Notes {
        Notes(Folder::new(&name.replace([':', '='], "-")))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> String {
        self.0.name("notes")
    }

    /// The folder, which goes with this value.
    #[must_use]
    pub fn folder(&self) -> &Folder {
        &self.0
    }

    /// Each fault that occurred.
    ///
    /// # Panics
    /// When a line is no note of a manager.
    #[must_use]
    pub fn read(&self) -> Vec<Struck> {
        let text = std::fs::read_to_string(self.path()).unwrap_or_default();
        let line = |line: &str| {
            let mut words = line.split(' ');
            let fault = words.next().expect("a fault").to_owned();
            let process = |word: &str| {
                let (victim, pid) = word.split_once(':').expect("a victim and its pid");
                (victim.to_owned(), pid.parse().expect("a pid"))
            };
            // When that was comes in between.
            let killed = words.skip(1).map(process).collect();
            Struck { fault, killed }
        };
        // The last one may be seen in the middle of its writing.
        let lines = text.split_inclusive('\n');
        lines
            .filter_map(|line| line.strip_suffix('\n'))
            .map(line)
            .collect()
    }
}
