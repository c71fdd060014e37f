//! Sets of CPUs.

use std::collections::BTreeSet;
use std::fmt;

/// Most CPUs that a machine may have for us.
const MOST: usize = 1 << 16;
/// Bits of a word of the kernel's masks.
const BITS: usize = u64::BITS as usize;

/// Numbers of CPUs (hardware threads), as the kernel counts them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cpus(BTreeSet<usize>);

impl Cpus {
    /// Parses the kernel's lists: `0-3,8,10-11`. Other words are left out.
    #[must_use]
    pub fn parse(text: &str) -> Cpus {
        let mut cpus = Cpus::default();
        for part in text.trim().split(',') {
            let mut ends = part.splitn(2, '-').map(|n| n.trim().parse::<usize>());
            match (ends.next(), ends.next()) {
                (Some(Ok(only)), None) => cpus.0.extend((only < MOST).then_some(only)),
                (Some(Ok(first)), Some(Ok(last))) if last < MOST => cpus.0.extend(first..=last),
                _ => {}
            }
        }
        cpus
    }

    /// The CPUs that this process may run on, after affinity, cpusets and containers.
    #[must_use]
    pub fn allowed() -> Cpus {
        let mut mask = vec![0u64; 16];
        loop {
            // SAFETY: the kernel writes at most as many bytes as the mask has.
            let got = unsafe {
                let bytes = size_of_val(mask.as_slice());
                libc::syscall(libc::SYS_sched_getaffinity, 0, bytes, mask.as_mut_ptr())
            };
            if got > 0 {
                return Cpus::from_mask(&mask);
            }
            let larger = std::io::Error::last_os_error().raw_os_error() == Some(libc::EINVAL);
            if !larger || mask.len() * BITS >= MOST {
                let count = std::thread::available_parallelism().map_or(1, usize::from);
                return (0..count).collect();
            }
            mask.resize(2 * mask.len(), 0);
        }
    }

    fn from_mask(mask: &[u64]) -> Cpus {
        let set = |&cpu: &usize| mask[cpu / BITS] >> (cpu % BITS) & 1 == 1;
        (0..mask.len() * BITS).filter(set).collect()
    }

    /// The kernel's mask of them, as `sched_setaffinity` takes it.
    #[must_use]
    pub fn mask(&self) -> Vec<u64> {
        let mut mask = vec![0; self.0.last().map_or(0, |last| last / BITS + 1)];
        for cpu in &self.0 {
            mask[cpu / BITS] |= 1 << (cpu % BITS);
        }
        mask
    }

    /// The CPUs that are in both.
    #[must_use]
    pub fn and(&self, other: &Cpus) -> Cpus {
        Cpus(self.0.intersection(&other.0).copied().collect())
    }

    /// Whether it has this one.
    #[must_use]
    pub fn has(&self, cpu: usize) -> bool {
        self.0.contains(&cpu)
    }

    /// Adds one.
    pub fn add(&mut self, cpu: usize) {
        self.0.insert(cpu);
    }

    /// The lowest.
    #[must_use]
    pub fn first(&self) -> Option<usize> {
        self.0.first().copied()
    }

    /// Number of CPUs.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// None at all.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// All, from the lowest.
    pub fn iter(&self) -> impl Iterator<Item = usize> + '_ {
        self.0.iter().copied()
    }
}

impl FromIterator<usize> for Cpus {
    fn from_iter<I: IntoIterator<Item = usize>>(numbers: I) -> Cpus {
        Cpus(numbers.into_iter().collect())
    }
}

/// The CPUs as the kernel writes them: `0-3,8`.
impl fmt::Display for Cpus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = rest.next() {
            let mut last = first;
            while let Some(next) = rest.next_if_eq(&(last + 1)) {
                last = next;
            }
            match last - first {
                0 => write!(f, "{comma}{first}")?,
                _ => write!(f, "{comma}{first}-{last}")?,
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn kernel_lists_are_understood() {
        let parsed = |text| Cpus::parse(text).iter().collect::<Vec<_>>();
        assert_eq!(parsed("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert!(parsed("").is_empty() && parsed("\n").is_empty());
        assert_eq!(parsed("3-1,x,5"), [5]);
        assert!(parsed("0-18446744073709551615,99999999").is_empty());
    }

    #[test]
    fn what_is_allowed_here_is_what_the_kernel_lists() {
        let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find(|l| l.starts_with("Cpus_allowed_list:"));
        let list = line.unwrap().split_whitespace().last().unwrap();
        assert_eq!(Cpus::allowed(), Cpus::parse(list));
        assert_eq!(Cpus::allowed().to_string(), list);
    }

    proptest! {
        #[test]
        fn text_and_mask_hold_the_same(cpus in proptest::collection::btree_set(0usize..300, 0..40)) {
            let cpus = Cpus(cpus);
            prop_assert_eq!(&Cpus::parse(&cpus.to_string()), &cpus);
            prop_assert_eq!(Cpus::from_mask(&cpus.mask()), cpus);
        }
    }
}
