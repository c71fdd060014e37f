//! The system's list of its addresses: by ioctl for IPv4 (netdevice(7)), from `/proc/net/if_inet6`
//! for IPv6. getifaddrs(3) takes memory from the C library's heap. A process that was restored from
//! an image taken inside `malloc` must not use that heap.

use std::ffi::CStr;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

use socket2::{Domain, Socket, Type};

use super::interface_address::Interface;
use crate::error::{Error, Result};

/// Room for addresses at first; doubled while the system fills it.
const ROOM: usize = 64;
/// Flags of an interface that carries traffic.
const RUNNING: libc::c_short = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;

/// Every address of an interface that is up, IPv4 first.
///
/// # Errors
/// When the system does not list them.
pub(super) fn list() -> Result<Vec<Interface>> {
    let failed = |error| Error::system("list the network interfaces", error);
    let socket = Socket::new(Domain::IPV4, Type::DGRAM.cloexec(), None).map_err(failed)?;
    let socket = OwnedFd::from(socket);
    let mut found = ipv4(&socket).map_err(failed)?;
    // A kernel without IPv6 has no such file.
    let text = std::fs::read_to_string("/proc/net/if_inet6").unwrap_or_default();
    found.extend(
        text.lines()
            .filter_map(parse_ipv6)
            .filter(|interface| is_running(&socket, &request_for(&interface.name))),
    );
    Ok(found)
}

fn ipv4(socket: &OwnedFd) -> io::Result<Vec<Interface>> {
    let mut room = ROOM;
    let entries = loop {
        // SAFETY: all zeroes is a valid ifreq.
        let mut entries: Vec<libc::ifreq> = vec![unsafe { std::mem::zeroed() }; room];
        let bytes = room * size_of::<libc::ifreq>();
        let mut list = libc::ifconf {
            ifc_len: i32::try_from(bytes).unwrap_or(i32::MAX),
            ifc_ifcu: libc::__c_anonymous_ifc_ifcu {
                ifcu_req: entries.as_mut_ptr(),
            },
        };
        // SAFETY: SIOCGIFCONF writes at most `ifc_len` bytes to the entries, which live on.
        ask(unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFCONF, &raw mut list) })?;
        let count = usize::try_from(list.ifc_len).unwrap_or(0) / size_of::<libc::ifreq>();
        if count < room {
            entries.truncate(count);
            break entries;
        }
        room *= 2;
    };
    let running = entries
        .into_iter()
        .filter(|entry| is_running(socket, entry));
    Ok(running
        .filter_map(|entry| {
            Some(Interface {
                name: name(&entry),
                address: SocketAddr::new(address(&entry)?.into(), 0),
                prefix: prefix(socket, &entry),
            })
        })
        .collect())
}

fn is_running(socket: &OwnedFd, entry: &libc::ifreq) -> bool {
    let mut request = *entry;
    // SAFETY: SIOCGIFFLAGS reads the name and writes the flags of one ifreq.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) };
    // SAFETY: the call has filled in the flags.
    asked >= 0 && unsafe { request.ifr_ifru.ifru_flags } & RUNNING == RUNNING
}

/// Bits of the network's prefix; 0 when the system does not tell.
fn prefix(socket: &OwnedFd, entry: &libc::ifreq) -> u8 {
    let mut request = *entry;
    // SAFETY: SIOCGIFNETMASK reads name and address and writes the mask of one ifreq.
    let asked = unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFNETMASK, &raw mut request) };
    let mask = (asked >= 0).then(|| address(&request)).flatten();
    let ones = mask.map_or(0, |mask| mask.to_bits().count_ones());
    u8::try_from(ones).unwrap_or(32)
}

/// The address that a call has filled in; `None` if it is of another family.
fn address(entry: &libc::ifreq) -> Option<Ipv4Addr> {
    // SAFETY: every family begins with sa_family, and the union is large enough for sockaddr_in.
    let at = unsafe {
        (&raw const entry.ifr_ifru)
            .cast::<libc::sockaddr_in>()
            .read()
    };
    (i32::from(at.sin_family) == libc::AF_INET)
        .then(|| Ipv4Addr::from_bits(u32::from_be(at.sin_addr.s_addr)))
}

fn name(entry: &libc::ifreq) -> String {
    let bytes = entry.ifr_name.map(libc::c_char::cast_unsigned);
    CStr::from_bytes_until_nul(&bytes)
        .map(|name| name.to_string_lossy().into_owned())
        .unwrap_or_default()
}

/// A request about the interface with this name.
fn request_for(name: &str) -> libc::ifreq {
    // SAFETY: all zeroes is a valid ifreq.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    // The last byte stays zero.
    let room = request.ifr_name.len() - 1;
    for (to, from) in request.ifr_name[..room].iter_mut().zip(name.bytes()) {
        *to = from.cast_signed();
    }
    request
}

/// A line such as `fe80…01 02 40 20 80 eth0`: address, index, prefix, scope, flags (all in hex),
/// name.
fn parse_ipv6(line: &str) -> Option<Interface> {
    let mut words = line.split_ascii_whitespace();
    let bits = u128::from_str_radix(words.next()?, 16).ok()?;
    let prefix = u8::from_str_radix(words.nth(1)?, 16).ok()?;
    let name = words.nth(2)?.to_owned();
    let ip = IpAddr::V6(Ipv6Addr::from_bits(bits));
    (prefix <= 128).then(|| Interface {
        name,
        address: SocketAddr::new(ip, 0),
        prefix,
    })
}

fn ask(answer: libc::c_int) -> io::Result<()> {
    if answer < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::ifaddrs::getifaddrs;
    use nix::net::if_::InterfaceFlags;

    #[test]
    fn the_list_is_that_of_the_c_library() {
        let up = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let mut theirs: Vec<IpAddr> = getifaddrs()
            .expect("listed")
            .filter(|entry| entry.flags.contains(up))
            .filter_map(|entry| {
                let address = entry.address?;
                let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
            })
            .collect();
        let mut ours: Vec<IpAddr> = list()
            .expect("listed")
            .iter()
            .map(|interface| interface.address.ip())
            .collect();
        theirs.sort_unstable();
        ours.sort_unstable();
        assert_eq!(ours, theirs);
    }

    #[test]
    fn loopback_has_its_prefix() {
        let list = list().expect("listed");
        let lo = list
            .iter()
            .find(|at| at.address.ip() == Ipv4Addr::LOCALHOST);
        let lo = lo.expect("loopback is up");
        assert_eq!((lo.name.as_str(), lo.prefix), ("lo", 8));
    }

    #[test]
    fn lines_of_the_kernel() {
        let line = "fd000000000000000000000000000001 02 40 00 80     eth0";
        let parsed = parse_ipv6(line).expect("an address");
        assert_eq!(parsed.name, "eth0");
        assert_eq!(parsed.prefix, 64);
        assert_eq!(parsed.address.ip().to_string(), "fd00::1");
        for bad in ["", "xyz 02 40 00 80 eth0", "fd00 02 40 00 80"] {
            assert_eq!(parse_ipv6(bad), None, "{bad}");
        }
    }
}
