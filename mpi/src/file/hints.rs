//! Hints of files (MPI-5.0 §14.2.8), by the names that programs know from ROMIO.

use crate::error::Result;
use crate::info::Info;

/// Whether an optimisation is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Switch {
    /// Where it pays.
    Automatic,
    /// Wherever it is possible.
    Enable,
    /// Never.
    Disable,
}

impl Switch {
    const ALL: [(Self, &str); 3] = [
        (Self::Automatic, "automatic"),
        (Self::Enable, "enable"),
        (Self::Disable, "disable"),
    ];

    fn parse(text: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|(_, name)| *name == text);
        known.map(|(switch, _)| *switch)
    }

    fn name(self) -> &'static str {
        Self::ALL[self as usize].1
    }
}

/// Hints that change nothing here: they are kept and given back.
const KEPT: [&str; 11] = [
    "access_style",
    "collective_buffering",
    "cb_block_size",
    "cb_config_list",
    "chunked",
    "num_io_nodes",
    "striping_factor",
    "striping_unit",
    "start_iodevice",
    // Sieved writes would put back what other ranks have changed meanwhile.
    "romio_ds_write",
    "ind_wr_buffer_size",
];

/// Largest buffer that a hint may ask for, in bytes.
const MAX_BUFFER: u64 = 1 << 30;

/// The hints of an open file. The numbers are those of rank 0 on all ranks.
#[derive(Clone, Debug)]
pub(super) struct FileHints {
    /// Most aggregators; 0: one for each host.
    pub cb_nodes: u64,
    /// Bytes that an aggregator holds at a time.
    pub cb_buffer_size: u64,
    /// Bytes of a buffer for sieved reads.
    pub ind_rd_buffer_size: u64,
    /// Two-phase reads.
    pub cb_read: Switch,
    /// Two-phase writes.
    pub cb_write: Switch,
    /// Sieved reads.
    pub ds_read: Switch,
    /// The program makes collective accesses only.
    pub no_indep_rw: bool,
    /// Permissions of a new file.
    pub permissions: u32,
    kept: Vec<(&'static str, String)>,
}

impl Default for FileHints {
    fn default() -> Self {
        Self {
            cb_nodes: 0,
            cb_buffer_size: 16 << 20,
            ind_rd_buffer_size: 4 << 20,
            cb_read: Switch::Automatic,
            cb_write: Switch::Automatic,
            ds_read: Switch::Automatic,
            no_indep_rw: false,
            permissions: 0o666,
            kept: Vec::new(),
        }
    }
}

/// Bytes of hints in a message.
pub(super) const HINT_BYTES: usize = 7 * 8;

impl FileHints {
    /// Takes over the hints of an info object. Values that make no sense are no hints.
    pub fn read(&mut self, info: &Info) -> Result<()> {
        let numbers = [
            ("cb_nodes", &mut self.cb_nodes, u64::from(u32::MAX)),
            ("cb_buffer_size", &mut self.cb_buffer_size, MAX_BUFFER),
            (
                "ind_rd_buffer_size",
                &mut self.ind_rd_buffer_size,
                MAX_BUFFER,
            ),
        ];
        for (key, place, most) in numbers {
            let value = info.get(key)?.and_then(|text| text.trim().parse().ok());
            if let Some(value) = value.filter(|n| (1..=most).contains(n)) {
                *place = value;
            }
        }
        let switches = [
            ("romio_cb_read", &mut self.cb_read),
            ("romio_cb_write", &mut self.cb_write),
            ("romio_ds_read", &mut self.ds_read),
        ];
        for (key, place) in switches {
            if let Some(switch) = info.get(key)?.as_deref().and_then(Switch::parse) {
                *place = switch;
            }
        }
        match info.get("romio_no_indep_rw")?.as_deref() {
            Some("true") => self.no_indep_rw = true,
            Some("false") => self.no_indep_rw = false,
            _ => {}
        }
        if let Some(text) = info.get("file_perm")? {
            let octal = u32::from_str_radix(text.trim(), 8).ok();
            self.permissions = octal.filter(|p| *p <= 0o777).unwrap_or(self.permissions);
        }
        for key in KEPT {
            if let Some(value) = info.get(key)? {
                self.kept.retain(|(known, _)| *known != key);
                self.kept.push((key, value));
            }
        }
        Ok(())
    }

    /// The hints in use, for `MPI_File_get_info`.
    pub fn to_info(&self) -> Result<Info> {
        let info = Info::new();
        if self.cb_nodes > 0 {
            info.set("cb_nodes", &self.cb_nodes.to_string())?;
        }
        info.set("cb_buffer_size", &self.cb_buffer_size.to_string())?;
        info.set("ind_rd_buffer_size", &self.ind_rd_buffer_size.to_string())?;
        info.set("romio_cb_read", self.cb_read.name())?;
        info.set("romio_cb_write", self.cb_write.name())?;
        info.set("romio_ds_read", self.ds_read.name())?;
        info.set("romio_no_indep_rw", &self.no_indep_rw.to_string())?;
        for (key, value) in &self.kept {
            info.set(key, value)?;
        }
        Ok(info)
    }

    /// The numbers, for a message to the other ranks.
    pub fn encode(&self) -> [u8; HINT_BYTES] {
        let all = [
            self.cb_nodes,
            self.cb_buffer_size,
            self.ind_rd_buffer_size,
            self.cb_read as u64,
            self.cb_write as u64,
            self.ds_read as u64,
            u64::from(self.no_indep_rw),
        ];
        let mut bytes = [0; HINT_BYTES];
        for (to, number) in bytes.chunks_exact_mut(8).zip(all) {
            to.copy_from_slice(&number.to_le_bytes());
        }
        bytes
    }

    /// Takes over the numbers of rank 0.
    pub fn adopt(&mut self, bytes: &[u8]) {
        let (words, _) = bytes.as_chunks::<8>();
        let word = |i: usize| words.get(i).map_or(0, |w| u64::from_le_bytes(*w));
        let switch = |i: usize| match word(i) {
            0 => Switch::Automatic,
            1 => Switch::Enable,
            _ => Switch::Disable,
        };
        self.cb_nodes = word(0);
        self.cb_buffer_size = word(1).clamp(1, MAX_BUFFER);
        self.ind_rd_buffer_size = word(2).clamp(1, MAX_BUFFER);
        self.cb_read = switch(3);
        self.cb_write = switch(4);
        self.ds_read = switch(5);
        self.no_indep_rw = word(6) != 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hints_are_read_sent_and_given_back() {
        let info = Info::new();
        for (key, value) in [
            ("cb_nodes", "3"),
            ("cb_buffer_size", "none"),
            ("ind_rd_buffer_size", "0"),
            ("romio_cb_write", "disable"),
            ("romio_ds_read", "often"),
            ("romio_no_indep_rw", "true"),
            ("access_style", "write_once"),
            ("file_perm", "600"),
            ("mine", "x"),
        ] {
            info.set(key, value).unwrap();
        }
        let mut hints = FileHints::default();
        hints.read(&info).unwrap();
        assert_eq!(hints.permissions, 0o600);
        let mut other = FileHints::default();
        other.adopt(&hints.encode());
        let (given, sent) = (hints.to_info().unwrap(), other.to_info().unwrap());
        for (key, value) in [
            ("cb_nodes", "3"),
            ("cb_buffer_size", "16777216"),
            ("ind_rd_buffer_size", "4194304"),
            ("romio_cb_write", "disable"),
            ("romio_ds_read", "automatic"),
            ("romio_no_indep_rw", "true"),
        ] {
            assert_eq!(given.get(key).unwrap().as_deref(), Some(value), "{key}");
            assert_eq!(sent.get(key).unwrap().as_deref(), Some(value), "{key}");
        }
        assert_eq!(
            given.get("access_style").unwrap().as_deref(),
            Some("write_once")
        );
        assert_eq!(given.get("mine").unwrap(), None);
    }
}
