//! The same exchanges as in the golden captures of the Linux driver, with our managers at both ends: every MAD
//! equals the captured one in all of its 256 bytes but the ids. See `crates/wire/tests/golden/README.md`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

use cm::{
    CmEvent, Config, ConnId, ConnectReply, ConnectRequest, Ece, MadRoute, Manager, ManagerOutput, SidrReply,
    SidrRequest, ip,
};
use wire::mad::{self, Attribute, CmMessage};
use wire::{ICRC_LEN, frame};

const NOW: Duration = Duration::ZERO;
const CAPTURES: [&str; 6] = ["rping", "rping_v6", "ucmatose", "udaddy", "rstream", "send_bw_cm"];

/// A MAD and its sender.
struct Captured {
    source: IpAddr,
    mad: [u8; 256],
}

impl Captured {
    fn message(&self) -> CmMessage {
        mad::decode(&self.mad).expect("a message").1
    }
}

fn frames(pcap: &[u8]) -> Vec<&[u8]> {
    let mut frames = Vec::new();
    let mut rest = &pcap[24..];
    while !rest.is_empty() {
        let len = u32::from_le_bytes(rest[8..12].try_into().expect("four bytes")) as usize;
        frames.push(&rest[16..16 + len]);
        rest = &rest[16 + len..];
    }
    frames
}

/// The MADs of a capture, by conversation: the first communication id that appears in them.
fn conversations(name: &str) -> BTreeMap<u32, Vec<Captured>> {
    let path = format!("{}/../wire/tests/golden/{name}.pcap", env!("CARGO_MANIFEST_DIR"));
    let pcap = std::fs::read(path).expect("a golden capture");
    let mut all: BTreeMap<u32, Vec<Captured>> = BTreeMap::new();
    let mut same = BTreeMap::new();
    for bytes in frames(&pcap) {
        let Some(frame) = frame::decode(bytes).filter(|frame| frame.payload.len() > ICRC_LEN) else { continue };
        let ib = &frame.payload[..frame.payload.len() - ICRC_LEN];
        let Ok(packet) = mad::packet::parse(ib) else { continue };
        let captured = Captured { source: frame.flow.source, mad: *packet.mad };
        let local = u32::from_be_bytes(captured.mad[24..28].try_into().expect("four bytes"));
        let key = match captured.message() {
            CmMessage::Rep(rep) => *same.entry(local).or_insert(rep.remote_id),
            _ => *same.get(&local).unwrap_or(&local),
        };
        all.entry(key).or_default().push(captured);
    }
    all
}

/// A MAD without transaction and communication ids: the same in every exchange.
fn without_ids(mad: &[u8; 256]) -> [u8; 256] {
    let mut mad = *mad;
    let requests = [Attribute::SIDR_REQ, Attribute::SIDR_REP, Attribute::REQ].map(Ok);
    let ids = if requests.contains(&mad::attribute(&mad)) { 24..28 } else { 24..32 };
    mad[8..16].fill(0);
    mad[ids].fill(0);
    mad
}

fn route(local: IpAddr, remote: IpAddr) -> MadRoute {
    MadRoute { local, remote, interface: 0, traffic_class: 0 }
}

fn trimmed(private_data: &[u8]) -> &[u8] {
    let len = private_data.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
    &private_data[..len]
}

/// Two managers in the place of the captured machines.
struct Ends {
    managers: BTreeMap<IpAddr, Manager>,
    ids: BTreeMap<IpAddr, ConnId>,
}

impl Ends {
    fn new(guids: &[(IpAddr, u64)]) -> Ends {
        let managers = guids.iter().map(|(ip, guid)| (*ip, Manager::new(Config::new(1, *guid, *guid)))).collect();
        Ends { managers, ids: BTreeMap::new() }
    }

    fn at(&mut self, ip: IpAddr) -> &mut Manager {
        self.managers.get_mut(&ip).expect("a manager")
    }

    /// Checks that an end's next MAD equals the captured one, and passes it to the other end.
    fn compare(&mut self, name: &str, captured: &Captured) {
        let Some(ManagerOutput::Send { route: way, mad }) = self.at(captured.source).poll() else {
            panic!("{name}: nothing is sent")
        };
        let what = mad::attribute(&captured.mad);
        let (ours, rxe) = (without_ids(&mad), without_ids(&captured.mad));
        let differences: Vec<usize> = (0..256).filter(|at| ours[*at] != rxe[*at]).collect();
        assert!(differences.is_empty(), "{name}: {what:x?} differs at {differences:?}");
        self.at(way.remote).receive(NOW, &route(way.remote, way.local), &mad);
        while let Some(output) = self.at(way.remote).poll() {
            let ManagerOutput::Event { id, event } = output else { panic!("{name}: an answer by itself") };
            if matches!(event, CmEvent::Request(_) | CmEvent::SidrRequest(_)) {
                self.ids.insert(way.remote, id);
            }
        }
    }

    /// Makes the call that made the captured end send its message, with the choices of its program.
    fn act(&mut self, captured: &Captured, peer: IpAddr) {
        let source = captured.source;
        let id = self.ids.get(&source).copied().unwrap_or(ConnId(0));
        let manager = self.managers.get_mut(&source).expect("a manager");
        match captured.message() {
            CmMessage::Req(req) => {
                let request = ConnectRequest {
                    responder_resources: req.responder_resources,
                    initiator_depth: req.initiator_depth,
                    flow_control: req.flow_control,
                    retry_count: req.retry_count,
                    rnr_retry_count: req.rnr_retry_count,
                    flow_label: req.primary.flow_label,
                    private_data: trimmed(&req.private_data),
                    ..ConnectRequest::new(route(source, peer), req.service_id, req.qpn, req.starting_psn)
                };
                let id = manager.connect(NOW, &request).expect("an id");
                self.ids.insert(source, id);
            }
            CmMessage::Rep(rep) => {
                let reply = ConnectReply {
                    responder_resources: rep.responder_resources,
                    initiator_depth: rep.initiator_depth,
                    flow_control: rep.flow_control,
                    rnr_retry_count: rep.rnr_retry_count,
                    private_data: trimmed(&rep.private_data),
                    ..ConnectReply::new(rep.qpn, rep.starting_psn)
                };
                manager.accept(NOW, id, &reply).expect("a request");
            }
            CmMessage::Rtu(_) => manager.confirm(NOW, id, &[]).expect("a reply"),
            CmMessage::Dreq(_) | CmMessage::Drep(_) => manager.disconnect(NOW, id, &[]).expect("a connection"),
            CmMessage::SidrReq(req) => {
                let private_data = trimmed(&req.private_data);
                let request = SidrRequest { private_data, ..SidrRequest::new(route(source, peer), req.service_id) };
                let id = manager.sidr_request(NOW, &request).expect("an id");
                self.ids.insert(source, id);
            }
            CmMessage::SidrRep(rep) => {
                let private_data = trimmed(&rep.private_data);
                let (qpn, qkey) = (rep.qpn, rep.qkey);
                let reply = SidrReply { status: 0, qpn, qkey, ece: Ece::default(), info: &[], private_data };
                manager.sidr_reply(NOW, id, &reply).expect("a request");
            }
            other => panic!("no capture has {other:?}"),
        }
    }
}

fn guids(conversation: &[Captured]) -> Vec<(IpAddr, u64)> {
    let guids: BTreeMap<IpAddr, u64> = conversation
        .iter()
        .map(|captured| match captured.message() {
            CmMessage::Req(req) => (captured.source, req.ca_guid),
            CmMessage::Rep(rep) => (captured.source, rep.ca_guid),
            _ => (captured.source, 0),
        })
        .rev()
        .collect();
    guids.into_iter().collect()
}

#[test]
fn every_message_equals_that_of_linux_but_for_ids() {
    let mut compared = 0;
    for name in CAPTURES {
        for conversation in conversations(name).values() {
            let guids = guids(conversation);
            let mut ends = Ends::new(&guids);
            for captured in conversation {
                let peer = guids.iter().map(|(ip, _)| *ip).find(|ip| *ip != captured.source).expect("two ends");
                ends.act(captured, peer);
                ends.compare(name, captured);
                compared += 1;
            }
        }
    }
    assert_eq!(compared, 32, "every MAD of the captures");
}

#[test]
fn transactions_begin_with_req_dreq_and_sidr_req_as_in_linux() {
    for name in CAPTURES {
        for conversation in conversations(name).values() {
            let transaction = |captured: &Captured| mad::decode(&captured.mad).expect("a MAD").0.transaction_id;
            let mut current = 0;
            for captured in conversation {
                match captured.message() {
                    CmMessage::Req(_) | CmMessage::Dreq(_) | CmMessage::SidrReq(_) => current = transaction(captured),
                    _ => assert_eq!(transaction(captured), current, "{name}"),
                }
            }
        }
    }
}

#[test]
fn the_ip_header_of_requests() {
    for name in CAPTURES {
        for conversation in conversations(name).values() {
            let (service_id, private_data) = match conversation[0].message() {
                CmMessage::Req(req) => (req.service_id, req.private_data.to_vec()),
                CmMessage::SidrReq(req) => (req.service_id, req.private_data.to_vec()),
                other => panic!("{name} begins with {other:?}"),
            };
            let header = ip::IpCmHeader::of_private_data(&private_data).expect("the header");
            assert_eq!(header.source, conversation[0].source, "{name}");
            assert_eq!(header.encode(), private_data[..ip::IpCmHeader::LEN], "{name}");
            let (space, port) = ip::space_and_port(service_id).expect("an IP service");
            assert_eq!(space, if name == "udaddy" { ip::SPACE_UDP } else { ip::SPACE_TCP });
            assert_eq!(ip::service_id(space, port), service_id);
            assert_ne!(header.source_port, 0);
        }
    }
}
