//! Checks that the ports on which ranks must listen suffice, and that ranks may use them.

use super::arguments::Given;
use crate::launch::launch_plan::Program;
use crate::launch::machines::Machines;
use procfs::process::Process;
use rejoin_channel_table::Rank;
use rejoin_managers_protocol::central::HostIndex;
use rejoin_wire::parse_port_range;
use std::collections::BTreeMap;

/// Gives one program a range of its own, and a job the default of `--port-range`.
const VARIABLE: &str = "REJOIN_TCP_PORTS";

/// First and last.
type Range = (u16, u16);

/// The range of the whole job, with the words in which the user has given it.
pub(super) fn shown((first, last): Range, given: Given<'_>) -> (String, Range) {
    let text = match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    (given("port_range", &text), (first, last))
}

/// Looks at the ports of all ranks. Returns what the user should know. `option`: the range of the
/// whole job.
pub(super) fn check(
    option: Option<(String, Range)>,
    programs: &[Program],
    ranks: &[(Rank, u32)],
    machines: &Machines,
    recovers: bool,
) -> Result<Vec<String>, String> {
    let mut told: Vec<Option<(String, Range)>> = Vec::new();
    for program in programs {
        told.push(ports_of(program, option.as_ref())?);
    }
    // Ranks with the same range on the same host share it.
    let mut sharing: BTreeMap<(&(String, Range), HostIndex), u32> = BTreeMap::new();
    for (rank, program) in ranks {
        let host = machines.placement.get(rank.0 as usize);
        if let (Some(Some(range)), Some(host)) = (told.get(*program as usize), host) {
            *sharing.entry((range, *host)).or_default() += 1;
        }
    }
    let mut warnings = Vec::new();
    for (((shown, range), host), count) in sharing {
        // The ports that others may use are visible there.
        let first_free = match machines.is_remote(host) {
            true => 0,
            false => first_unprivileged(),
        };
        let warning = enough(shown, *range, count, recovers, first_free)?;
        warnings.extend(warning.filter(|line| !warnings.contains(line)));
    }
    Ok(warnings)
}

/// The range that the ranks of a program get, and how the user has said it.
fn ports_of(
    program: &Program,
    option: Option<&(String, Range)>,
) -> Result<Option<(String, Range)>, String> {
    let mut set = program.set.iter().rev();
    let own = set.find(|(name, _)| name.as_slice() == VARIABLE.as_bytes());
    let Some((_, value)) = own.filter(|(_, value)| !value.is_empty()) else {
        return Ok(option.cloned());
    };
    let text = String::from_utf8_lossy(value);
    let shown = format!("{VARIABLE}={text}");
    match parse_port_range(&text) {
        Ok(range) => Ok(Some((shown, range))),
        Err(why) => Err(format!("{shown}: {why}")),
    }
}

/// Whether so many ranks of a host find their ports in a range, of which those from `first_free` on
/// are available.
fn enough(
    shown: &str,
    (first, last): Range,
    ranks: u32,
    recovers: bool,
    first_free: u16,
) -> Result<Option<String>, String> {
    if last < first_free {
        return Err(format!(
            "{shown}: ports below {first_free} are not for this user (net.ipv4.ip_unprivileged_port_start)"
        ));
    }
    let ports = u32::from(last - first.max(first_free)) + 1;
    let these = if ports == 1 { "this is" } else { "these are" };
    let these = match first < first_free {
        true => format!("{these} {ports} from {first_free} on, where those of this user begin"),
        false => format!("{these} {ports}"),
    };
    if ports < ranks {
        return Err(format!(
            "{shown}: {ranks} ranks need a port each, and {these}"
        ));
    }
    // Those that are no more keep theirs until their successors run.
    if recovers && ports < 2 * ranks {
        let who = if ranks == 1 {
            "a rank needs"
        } else {
            "ranks need"
        };
        return Ok(Some(format!(
            "{shown}: to come back when one is lost {who} two ports each, and {these}: the job may end instead"
        )));
    }
    Ok(None)
}

/// The first port that this user may listen on (ip(7)).
fn first_unprivileged() -> u16 {
    const CAP_NET_BIND_SERVICE: u32 = 10;
    let status = Process::myself().and_then(|own| own.status());
    if status.is_ok_and(|own| own.capeff & (1 << CAP_NET_BIND_SERVICE) != 0) {
        return 0;
    }
    let start = std::fs::read_to_string("/proc/sys/net/ipv4/ip_unprivileged_port_start");
    let start = start.ok().and_then(|text| text.trim().parse().ok());
    start.unwrap_or(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn too_few_ports_and_those_of_others_are_reported() {
        let told = |range, ranks, recovers, first_free| match enough(
            "PORTS", range, ranks, recovers, first_free,
        ) {
            Ok(warning) => warning.unwrap_or_default(),
            Err(error) => format!("refused: {error}"),
        };
        assert_eq!(told((5000, 5003), 4, false, 1024), "");
        assert_eq!(told((5000, 5007), 4, true, 1024), "");
        assert_eq!(told((80, 80), 1, false, 0), "");
        assert_eq!(
            told((80, 80), 1, false, 1024),
            "refused: PORTS: ports below 1024 are not for this user (net.ipv4.ip_unprivileged_port_start)"
        );
        assert_eq!(
            told((1000, 1025), 3, false, 1024),
            "refused: PORTS: 3 ranks need a port each, and these are 2 from 1024 on, where those of this user begin"
        );
        assert_eq!(
            told((5000, 5000), 2, true, 1024),
            "refused: PORTS: 2 ranks need a port each, and this is 1"
        );
        assert_eq!(
            told((5000, 5006), 4, true, 1024),
            "PORTS: to come back when one is lost ranks need two ports each, and these are 7: the job may end instead"
        );
    }
}
