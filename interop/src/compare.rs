//! Compares the packets that one host sent in two captures of the same exchange, field by field.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::net::IpAddr;

use wire::mad::{self, MAD_LEN};
use wire::{Qpn, source_port, source_port_ud};

use crate::capture::frames;
use crate::fields::{CapturedPacket, Field};

/// All differences of one kind.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord, Clone)]
pub(crate) struct Difference {
    /// The field, or a packet that is missing or repeated.
    pub(crate) field: String,
    /// Longarm's value and the other one.
    pub(crate) ours: String,
    pub(crate) theirs: String,
    /// The opcodes of packets with this difference.
    pub(crate) opcodes: Vec<String>,
    pub(crate) count: usize,
}

/// The packets of one host in a capture, by their stream and position in it.
struct SentPackets {
    /// Key: stream, and PSN relative to the first one or the message's number. Value: the first packet at this
    /// position, and the number of packets there.
    packets: BTreeMap<(PacketStream, u32), (Vec<Field>, usize)>,
}

/// Packets with a common numbering. Queue pairs have numbers in the order in which they appear.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum PacketStream {
    /// Requests of a queue pair.
    Requests(usize),
    /// Responses of a queue pair.
    Responses(usize),
    /// Messages of the connection manager, of one kind.
    Messages(u16),
}

/// Compares the packets of `ours` in one capture with those of `theirs` in the other.
pub(crate) fn compare(
    (our_pcap, ours): (&[u8], IpAddr),
    (their_pcap, theirs): (&[u8], IpAddr),
) -> Result<Vec<Difference>, String> {
    let ours = SentPackets::new(our_pcap, ours)?;
    let theirs = SentPackets::new(their_pcap, theirs)?;
    let mut found = Differences::default();
    for (place, (fields, times)) in &ours.packets {
        match theirs.packets.get(place) {
            Some((other, _)) => found.packet(fields, other),
            None => found.add("packet that only we send", fields, "sent", "-"),
        }
        if *times > 1 {
            found.add("packet sent again", fields, "sent again", "-");
        }
    }
    let only_theirs = theirs.packets.iter().filter(|(place, _)| !ours.packets.contains_key(place));
    only_theirs.for_each(|(_, (fields, _))| found.add("packet that only they send", fields, "-", "sent"));
    Ok(found.differences.into_values().collect())
}

impl SentPackets {
    fn new(pcap: &[u8], sender: IpAddr) -> Result<SentPackets, String> {
        let all: Vec<CapturedPacket<'_>> = frames(pcap)?.into_iter().filter_map(CapturedPacket::new).collect();
        if all.is_empty() {
            return Err("a capture without packets".into());
        }
        let (messages, all): (Vec<_>, Vec<_>) = all.into_iter().partition(|packet| packet.mad().is_some());
        let numbers = CaptureNumbers::new(&all, sender);
        let mut conversation = Conversation::default();
        let mut packets: BTreeMap<(PacketStream, u32), (Vec<Field>, usize)> = BTreeMap::new();
        for packet in messages.iter().chain(&all).filter(|packet| packet.source == sender) {
            let place = packet.mad().map_or_else(|| numbers.position(packet), |mad| conversation.position(mad));
            let entry = packets.entry(place).or_insert_with(|| (numbers.fields(packet), 0));
            entry.1 += 1;
        }
        Ok(SentPackets { packets })
    }
}

/// The connection manager's messages so far, by kind.
#[derive(Default)]
struct Conversation {
    messages: HashMap<u16, Vec<[u8; MAD_LEN]>>,
}

impl Conversation {
    /// The stream and number of a message. The first of its kind is 0; a repeated message keeps its number.
    fn position(&mut self, mad: &[u8; MAD_LEN]) -> (PacketStream, u32) {
        let kind = mad::attribute(mad).map_or(0, |attribute| attribute.0);
        let messages = self.messages.entry(kind).or_default();
        let number = messages.iter().position(|other| other == mad).unwrap_or_else(|| {
            messages.push(*mad);
            messages.len() - 1
        });
        (PacketStream::Messages(kind), number as u32)
    }
}

/// A queue pair of a host: two hosts can have the same numbers.
type QpAddress = (IpAddr, Qpn);

/// Queue pairs and first PSNs of a capture, to which its numbers are relative.
#[derive(Default)]
struct CaptureNumbers {
    /// Queue pairs of the other host, in the order in which the compared host first sent to them.
    queue_pairs: HashMap<QpAddress, usize>,
    /// The first PSN of requests to a queue pair.
    first: HashMap<QpAddress, u32>,
    /// Connections: maps a queue pair to the one at the other end.
    ends: HashMap<QpAddress, QpAddress>,
}

/// A bound that the number of PSNs of each exchange stays below.
const WINDOW: u32 = 1 << 16;

impl CaptureNumbers {
    fn new(all: &[CapturedPacket<'_>], sender: IpAddr) -> CaptureNumbers {
        let mut numbers = CaptureNumbers::default();
        for packet in all {
            if packet.source == sender {
                let next = numbers.queue_pairs.len();
                numbers.queue_pairs.entry(packet.end()).or_insert(next);
            }
            if packet.info.is_request() {
                numbers.first.entry(packet.end()).or_insert(packet.psn.get());
            }
        }
        all.iter().filter(|packet| packet.info.is_response()).for_each(|response| numbers.join(response));
        numbers.join_the_only(all, sender);
        numbers
    }

    /// A response joins the two ends of a connection: it has the PSN of a request to its source.
    fn join(&mut self, response: &CapturedPacket<'_>) {
        let asked = |(end, first): (&QpAddress, &u32)| {
            let near = response.psn.get().wrapping_sub(*first) & 0xff_ffff < WINDOW;
            (near && end.0 == response.source).then_some(*end)
        };
        if let Some(from) = self.first.iter().find_map(asked) {
            self.ends.insert(response.end(), from);
            self.ends.insert(from, response.end());
        }
    }

    /// Without responses: if each host has one queue pair, the two belong together.
    fn join_the_only(&mut self, all: &[CapturedPacket<'_>], sender: IpAddr) {
        let own: HashSet<QpAddress> =
            all.iter().filter(|packet| packet.source != sender).map(CapturedPacket::end).collect();
        if let (Some(own), 1, 1) = (own.iter().next(), own.len(), self.queue_pairs.len()) {
            self.ends.extend(self.queue_pairs.keys().map(|peer| (*peer, *own)));
        }
    }

    fn position(&self, packet: &CapturedPacket<'_>) -> (PacketStream, u32) {
        let responses = packet.info.is_response();
        let to = packet.end();
        let requests_to = if responses { self.ends.get(&to) } else { Some(&to) };
        let first = requests_to.and_then(|end| self.first.get(end)).copied().unwrap_or_default();
        let queue_pair = self.queue_pairs.get(&to).copied().unwrap_or_default();
        let stream = if responses { PacketStream::Responses(queue_pair) } else { PacketStream::Requests(queue_pair) };
        (stream, packet.psn.get().wrapping_sub(first) & 0xff_ffff)
    }

    fn fields(&self, packet: &CapturedPacket<'_>) -> Vec<Field> {
        let mut fields = packet.fields();
        let by_formula = match packet.datagram_source() {
            Some(qpn) => source_port_ud(qpn) == packet.source_port,
            None => {
                let own = self.ends.get(&packet.end());
                own.is_some_and(|(_, own)| source_port(0, *own, packet.dest_qpn) == packet.source_port)
            }
        };
        let port = match by_formula {
            true => "by the formula",
            false if packet.source_port >= 0xc000 => "another above 0xc000",
            false => "below 0xc000",
        };
        fields.push(("UDP source port", port.to_owned()));
        fields
    }
}

/// Differences, grouped by kind.
#[derive(Default)]
struct Differences {
    differences: BTreeMap<(String, String, String, String), Difference>,
}

impl Differences {
    fn packet(&mut self, ours: &[Field], theirs: &[Field]) {
        for (name, value) in ours {
            match theirs.iter().find(|(other, _)| other == name) {
                Some((_, other)) if other == value => {}
                Some((_, other)) => self.add(name, ours, value, other),
                None => self.add(name, ours, value, "-"),
            }
        }
        for (name, value) in theirs {
            if !ours.iter().any(|(other, _)| other == name) {
                self.add(name, ours, "-", value);
            }
        }
    }

    fn add(&mut self, field: &str, packet: &[Field], ours: &str, theirs: &str) {
        let named = |field| packet.iter().find(|(name, _)| *name == field).map(|(_, value)| value.as_str());
        let opcode = named("MAD").or_else(|| named("opcode")).unwrap_or("?").to_owned();
        // Messages of the connection manager are separate kinds.
        let kind = named("MAD").unwrap_or_default().to_owned();
        let key = (field.to_owned(), ours.to_owned(), theirs.to_owned(), kind);
        let difference = self.differences.entry(key).or_insert_with(|| Difference {
            field: field.to_owned(),
            ours: ours.to_owned(),
            theirs: theirs.to_owned(),
            opcodes: Vec::new(),
            count: 0,
        });
        difference.count += 1;
        if !difference.opcodes.contains(&opcode) {
            difference.opcodes.push(opcode);
        }
    }
}
