//! Names and services as `rdma_getaddrinfo(3)` resolves them: by the system's `getaddrinfo(3)`, with RDMA's
//! services in place of the sockets'.

use std::ffi::CString;
use std::net::SocketAddr;

use crate::rdmacm::address;
use abi::*;

/// The arguments of a resolution.
pub(super) struct ResolveRequest {
    pub(super) node: Option<CString>,
    pub(super) service: Option<CString>,
    pub(super) hints: ResolveHints,
}

/// The caller's hints about the results that it wants.
#[derive(Clone, Default)]
pub(super) struct ResolveHints {
    pub(super) given: bool,
    pub(super) flags: c_int,
    pub(super) family: c_int,
    pub(super) qp_type: c_int,
    pub(super) port_space: c_int,
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
}

/// One result.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct ResolvedAddress {
    pub(super) flags: c_int,
    pub(super) qp_type: c_int,
    pub(super) port_space: c_int,
    pub(super) source: Option<SocketAddr>,
    pub(super) destination: Option<SocketAddr>,
}

/// The results.
pub(super) type ResolvedAddresses = Vec<ResolvedAddress>;

/// The error of a resolution: a code of `getaddrinfo(3)`, or an errno.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) enum Unresolved {
    /// A code of `getaddrinfo(3)`.
    Code(c_int),
    /// An errno.
    Errno(c_int),
}

/// All flags.
const FLAGS: c_int = RAI_PASSIVE | RAI_NUMERICHOST | RAI_NOROUTE | RAI_FAMILY | RAI_SA | RAI_DNS;

/// Resolves; may take as long as the name service does.
pub(super) fn resolve(question: &ResolveRequest) -> Result<ResolvedAddresses, Unresolved> {
    let hints = &question.hints;
    if question.node.is_none() && question.service.is_none() {
        return if hints.given { Ok(vec![copied(hints)]) } else { Err(Unresolved::Errno(libc::EINVAL)) };
    }
    if hints.flags & !FLAGS != 0 {
        return Err(Unresolved::Code(libc::EAI_BADFLAGS));
    }
    if hints.flags & RAI_SA != 0 {
        // RoCE has no subnet administrator.
        return Err(Unresolved::Errno(libc::EOPNOTSUPP));
    }
    let found = look_up(question, &sockets_hints(hints)?)?;
    Ok(found.into_iter().map(|(address, socket_type)| answer(hints, address, socket_type)).collect())
}

/// Without a name, the hints are the result.
fn copied(hints: &ResolveHints) -> ResolvedAddress {
    ResolvedAddress {
        flags: hints.flags,
        qp_type: hints.qp_type,
        port_space: hints.port_space,
        source: hints.source,
        destination: hints.destination,
    }
}

fn sockets_hints(hints: &ResolveHints) -> Result<libc::addrinfo, Unresolved> {
    // SAFETY: all zero bytes are a valid structure without hints.
    let mut sockets: libc::addrinfo = unsafe { std::mem::zeroed() };
    if hints.flags & RAI_PASSIVE != 0 {
        sockets.ai_flags |= libc::AI_PASSIVE;
    }
    if hints.flags & RAI_NUMERICHOST != 0 {
        sockets.ai_flags |= libc::AI_NUMERICHOST;
    }
    if hints.flags & RAI_FAMILY != 0 {
        if !matches!(hints.family, libc::AF_INET | libc::AF_INET6) {
            return Err(Unresolved::Code(libc::EAI_FAMILY));
        }
        sockets.ai_family = hints.family;
    }
    (sockets.ai_socktype, sockets.ai_protocol) = (socket_type(hints), protocol(hints));
    Ok(sockets)
}

/// The socket type that corresponds to the hints' service; a stream if they name none.
fn socket_type(hints: &ResolveHints) -> c_int {
    match (hints.qp_type, hints.port_space) {
        (IBV_QPT_UD, _) | (0, RDMA_PS_UDP) => libc::SOCK_DGRAM,
        _ => libc::SOCK_STREAM,
    }
}

fn protocol(hints: &ResolveHints) -> c_int {
    match hints.port_space {
        RDMA_PS_UDP => libc::IPPROTO_UDP,
        RDMA_PS_TCP => libc::IPPROTO_TCP,
        _ => 0,
    }
}

fn look_up(question: &ResolveRequest, hints: &libc::addrinfo) -> Result<Vec<(SocketAddr, c_int)>, Unresolved> {
    let text = |text: &Option<CString>| text.as_ref().map_or(std::ptr::null(), |text| text.as_ptr());
    let mut list: *mut libc::addrinfo = std::ptr::null_mut();
    // SAFETY: strings or nulls, hints, and a place for the list.
    let code = unsafe { libc::getaddrinfo(text(&question.node), text(&question.service), hints, &raw mut list) };
    match code {
        0 => {}
        libc::EAI_SYSTEM => return Err(Unresolved::Errno(crate::boundary::Errno::last().0)),
        code => return Err(Unresolved::Code(code)),
    }
    let mut found = Vec::new();
    let mut next = list;
    // SAFETY: the list is valid until it is freed.
    unsafe {
        while let Some(entry) = next.as_ref() {
            found.extend(address::read(entry.ai_addr).ok().map(|address| (address, entry.ai_socktype)));
            next = entry.ai_next;
        }
        libc::freeaddrinfo(list);
    }
    found.dedup();
    Ok(found)
}

fn answer(hints: &ResolveHints, address: SocketAddr, socket_type: c_int) -> ResolvedAddress {
    let is_datagram = socket_type == libc::SOCK_DGRAM;
    let is_passive = hints.flags & RAI_PASSIVE != 0;
    let or = |said: c_int, otherwise| if said != 0 { said } else { otherwise };
    ResolvedAddress {
        flags: hints.flags,
        qp_type: or(hints.qp_type, if is_datagram { IBV_QPT_UD } else { IBV_QPT_RC }),
        port_space: or(hints.port_space, if is_datagram { RDMA_PS_UDP } else { RDMA_PS_TCP }),
        source: if is_passive { Some(address) } else { hints.source },
        destination: if is_passive { None } else { Some(address) },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(node: Option<&str>, service: Option<&str>, hints: ResolveHints) -> Result<ResolvedAddresses, Unresolved> {
        let text = |text: Option<&str>| text.map(|text| CString::new(text).unwrap());
        resolve(&ResolveRequest { node: text(node), service: text(service), hints })
    }

    #[test]
    fn an_address_is_a_reliable_destination_by_default() {
        let found = ask(Some("127.0.0.1"), Some("7471"), ResolveHints::default()).unwrap();
        let destination = Some("127.0.0.1:7471".parse().unwrap());
        let expected =
            ResolvedAddress { flags: 0, qp_type: IBV_QPT_RC, port_space: RDMA_PS_TCP, source: None, destination };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn a_port_space_of_datagrams_means_datagrams() {
        let hints = ResolveHints { given: true, port_space: RDMA_PS_UDP, ..ResolveHints::default() };
        let found = ask(Some("::1"), Some("7471"), hints).unwrap();
        assert_eq!((found[0].qp_type, found[0].port_space), (IBV_QPT_UD, RDMA_PS_UDP));
    }

    #[test]
    fn a_passive_result_has_a_source_only() {
        let hints =
            ResolveHints { given: true, flags: RAI_PASSIVE, port_space: RDMA_PS_TCP, ..ResolveHints::default() };
        let found = ask(None, Some("7471"), hints).unwrap();
        let source = found.iter().find_map(|answer| answer.source).unwrap();
        assert!(source.ip().is_unspecified() && source.port() == 7471, "{source}");
        assert!(found.iter().all(|answer| answer.destination.is_none()));
    }

    #[test]
    fn refusals_have_the_codes_of_the_man_page() {
        let hints = |flags, family| ResolveHints { given: true, flags, family, ..ResolveHints::default() };
        let node = Some("127.0.0.1");
        assert_eq!(ask(None, None, ResolveHints::default()), Err(Unresolved::Errno(libc::EINVAL)));
        assert_eq!(ask(node, None, hints(1 << 9, 0)), Err(Unresolved::Code(libc::EAI_BADFLAGS)));
        assert_eq!(ask(node, None, hints(RAI_FAMILY, AF_IB)), Err(Unresolved::Code(libc::EAI_FAMILY)));
        assert_eq!(ask(node, None, hints(RAI_SA, 0)), Err(Unresolved::Errno(libc::EOPNOTSUPP)));
        assert_eq!(ask(Some("no number"), None, hints(RAI_NUMERICHOST, 0)), Err(Unresolved::Code(libc::EAI_NONAME)));
        let inconsistent =
            ResolveHints { given: true, qp_type: IBV_QPT_UD, port_space: RDMA_PS_TCP, ..ResolveHints::default() };
        assert_eq!(ask(node, None, inconsistent), Err(Unresolved::Code(libc::EAI_SOCKTYPE)));
    }

    #[test]
    fn hints_alone_are_the_answer() {
        let source = Some("127.0.0.1:1".parse().unwrap());
        let hints = ResolveHints { given: true, qp_type: IBV_QPT_RC, source, ..ResolveHints::default() };
        assert_eq!(ask(None, None, hints).unwrap()[0].source, source);
    }
}
