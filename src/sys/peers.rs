//! The user at the other end of a TCP connection within this machine, as the kernel reports it.

use std::net::{IpAddr, SocketAddr};

/// User id of the process that holds the other end of an established connection within this machine. `own` is this end's address,
/// `peer` is the other end's. `None` if the other end is on another machine or in another network namespace.
pub(crate) fn user_of(own: SocketAddr, peer: SocketAddr) -> Option<u32> {
    ["/proc/net/tcp", "/proc/net/tcp6"].iter().find_map(|path| {
        let table = std::fs::read_to_string(path).ok()?;
        user_in(&table, canonical(own), canonical(peer))
    })
}

fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// Does the same with the text of such a table.
fn user_in(table: &str, own: SocketAddr, peer: SocketAddr) -> Option<u32> {
    const ESTABLISHED: &str = "01";
    table.lines().skip(1).find_map(|line| {
        let mut fields = line.split_whitespace().skip(1);
        let (local, remote) = (fields.next()?, fields.next()?);
        let is_established = fields.next()? == ESTABLISHED;
        let is_it = is_established && address(local)? == peer && address(remote)? == own;
        let user = fields.nth(3)?;
        is_it.then(|| user.parse().ok())?
    })
}

/// Parses `0100007F:1F90`: the address in words of the machine's byte order, then the port.
fn address(text: &str) -> Option<SocketAddr> {
    let (digits, port) = text.split_once(':')?;
    let words: Option<Vec<u32>> = (0..digits.len() / 8)
        .map(|at| u32::from_str_radix(digits.get(at * 8..at * 8 + 8)?, 16).ok())
        .collect();
    let bytes: Vec<u8> = words?.iter().flat_map(|word| word.to_ne_bytes()).collect();
    let address = match bytes.len() {
        4 => IpAddr::from(<[u8; 4]>::try_from(bytes).ok()?),
        16 => IpAddr::from(<[u8; 16]>::try_from(bytes).ok()?),
        _ => return None,
    };
    let port = u16::from_str_radix(port, 16).ok()?;
    Some(canonical(SocketAddr::new(address, port)))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::*;

    #[test]
    fn both_ends_of_a_connection_here_are_this_users() {
        for place in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(place).unwrap();
            let address = listener.local_addr().unwrap();
            let client = TcpStream::connect(address).unwrap();
            let (server, peer) = listener.accept().unwrap();
            let user = nix::unistd::geteuid().as_raw();
            assert_eq!(user_of(server.local_addr().unwrap(), peer), Some(user));
            drop(client);
            let other = SocketAddr::new(peer.ip(), 1);
            assert_eq!(user_of(address, other), None);
        }
    }

    #[test]
    fn another_users_end_is_told_from_ones_own() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
            0: 0100007F:C350 0100007F:1F90 06 00000000:00000000 03:00000000 00000000     0        0 0 3\n\
            1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000    33        0 4711 1\n";
        let of = |text: &str| text.parse::<SocketAddr>().unwrap();
        let (own, peer) = (of("127.0.0.1:8080"), of("127.0.0.1:50000"));
        if cfg!(target_endian = "little") {
            assert_eq!(user_in(table, own, peer), Some(33));
            assert_eq!(user_in(table, own, of("127.0.0.1:50001")), None);
        }
    }
}
