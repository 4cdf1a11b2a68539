//! A packet as a list of named fields. Numbers that differ between two runs of the same exchange
//! (queue pairs, keys, addresses, first PSNs) are left out or made relative.

use std::net::IpAddr;

use wire::frame::{self, EthernetFrame};
use wire::mad::{self, MAD_LEN};
use wire::{ICRC_LEN, OpcodeInfo, Packet, Psn, Qpn, SyndromeKind, icrc};

use crate::mads;

/// A packet of a capture.
pub(crate) struct CapturedPacket<'a> {
    pub(crate) source: IpAddr,
    pub(crate) source_port: u16,
    pub(crate) info: &'static OpcodeInfo,
    pub(crate) dest_qpn: Qpn,
    pub(crate) psn: Psn,
    bytes: &'a [u8],
    frame: EthernetFrame<'a>,
    packet: Packet<'a>,
}

/// A field's name and its value as text.
pub(crate) type Field = (&'static str, String);

impl<'a> CapturedPacket<'a> {
    /// Decodes a frame; `None` if it is not a RoCEv2 packet.
    pub(crate) fn new(bytes: &'a [u8]) -> Option<CapturedPacket<'a>> {
        let frame = frame::decode(bytes)?;
        let (ib, _) = frame.payload.split_at_checked(frame.payload.len().checked_sub(ICRC_LEN)?)?;
        let packet = Packet::parse(ib).ok()?;
        Some(CapturedPacket {
            source: frame.flow.source,
            source_port: frame.flow.source_port,
            info: packet.info(),
            dest_qpn: packet.dest_qpn(),
            psn: packet.psn(),
            bytes,
            frame,
            packet,
        })
    }

    /// All fields of IP, UDP, BTH and the extension headers, with the PSN relative to the first of its requester.
    pub(crate) fn fields(&self) -> Vec<Field> {
        let mut fields = self.network();
        fields.extend(self.base());
        fields.extend(self.extensions());
        fields.push(("payload bytes", self.packet.payload().len().to_string()));
        fields.extend(self.mad().into_iter().flat_map(mads::fields));
        fields
    }

    fn network(&self) -> Vec<Field> {
        let mut fields = vec![
            ("TTL or hop limit", self.frame.ttl.to_string()),
            ("TOS or traffic class", format!("{:#04x}", self.frame.tos)),
            ("UDP checksum", zero_or_not(self.udp_checksum())),
            ("ICRC", if self.icrc_is_right() { "right" } else { "wrong" }.to_owned()),
        ];
        if self.frame.flow.is_ipv4() {
            fields.push(("IPv4 flags", format!("{:#03x}", self.ip()[6] >> 5)));
            fields.push(("IPv4 identification", zero_or_not(self.frame.identification)));
        } else {
            let ip = self.ip();
            let label = u32::from_be_bytes([0, ip[1] & 0x0f, ip[2], ip[3]]);
            fields.push(("IPv6 flow label", format!("{label:#x}")));
        }
        fields
    }

    fn base(&self) -> Vec<Field> {
        let bth = self.packet.bth();
        let bytes = self.packet.bytes();
        vec![
            ("opcode", self.info.name.to_owned()),
            ("solicited event", bth.solicited.to_string()),
            ("MigReq", bth.migrated.to_string()),
            ("pad", bth.pad.to_string()),
            ("transport version", bth.version.to_string()),
            ("P_Key", format!("{:#06x}", bth.pkey.0)),
            ("FECN, BECN, reserved", format!("{:#04x}", bytes[4])),
            ("AckReq", bth.ack_req.to_string()),
            ("reserved after AckReq", format!("{:#04x}", bytes[8] & 0x7f)),
        ]
    }

    fn extensions(&self) -> Vec<Field> {
        let mut fields = Vec::new();
        if let Some(reth) = self.packet.reth() {
            fields.push(("RETH length", reth.len_bytes.to_string()));
        }
        if let Some(aeth) = self.packet.aeth() {
            let (kind, credits) = match aeth.syndrome.kind() {
                SyndromeKind::Ack { credits } => ("ACK".to_owned(), Some(credits)),
                other => (format!("{other:?}"), None),
            };
            fields.push(("AETH kind", kind));
            fields.extend(credits.map(|credits| ("AETH credits", credits.map_or("none".into(), |c| c.to_string()))));
            fields.push(("AETH MSN", aeth.msn.to_string()));
        }
        // Examples of rdmacm-utils send their QPN as immediate data.
        let own = self.datagram_source().map(Qpn::get);
        let immediate = |imm| if own == Some(imm) { "own queue pair".to_owned() } else { format!("{imm:#x}") };
        fields.extend(self.packet.imm().map(|imm| ("immediate data", immediate(imm))));
        fields.extend(self.packet.deth().map(|deth| ("Q_Key", format!("{:?}", deth.qkey))));
        fields
    }

    /// The source queue pair of a datagram.
    pub(crate) fn datagram_source(&self) -> Option<Qpn> {
        self.packet.deth().map(|deth| deth.src_qpn)
    }

    /// The message that a packet to QP1 carries.
    pub(crate) fn mad(&self) -> Option<&'a [u8; MAD_LEN]> {
        mad::packet::parse(self.frame.payload.split_at_checked(self.packet.bytes().len())?.0).ok().map(|mad| mad.mad)
    }

    /// The destination address and queue pair.
    pub(crate) fn end(&self) -> (IpAddr, Qpn) {
        (self.frame.flow.destination, self.dest_qpn)
    }

    fn icrc_is_right(&self) -> bool {
        let (ib, icrc) = self.frame.payload.split_at(self.packet.bytes().len());
        icrc::compute(&self.frame.flow, self.frame.identification, ib).to_le_bytes() == icrc
    }

    /// The frame from the IP header on.
    fn ip(&self) -> &'a [u8] {
        &self.bytes[14..]
    }

    fn udp_checksum(&self) -> u16 {
        let udp = &self.ip()[if self.frame.flow.is_ipv4() { 20 } else { 40 }..];
        u16::from_be_bytes([udp[6], udp[7]])
    }
}

fn zero_or_not(value: u16) -> String {
    if value == 0 { "0" } else { "not 0" }.to_owned()
}
