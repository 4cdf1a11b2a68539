//! GETs that the server's device carries out, without the server's program. (Li, Ruan, Xiao, Lu, Xiong, Putnam, Chen, Zhang:
//! "KV-Direct: High-Performance In-Memory Key-Value Store with Programmable NIC", SOSP 2017.)
//!
//! The handler walks the table in its memory as a client's READs do, so it takes no lock that the server's threads hold.

use longarm::{MemoryRegion, ReplyBytes, ResourceError, ServedCalls};
use remote::{
    AtomicReads, Cluster, Crc64, Cuckoo, FoundObject, Hopscotch, KeyLookup, LocalReads, LookupError, TableLayout,
    TableMemory, TornCheck, TreeLookup,
};

use crate::device_get::{DeviceCall, DeviceReply, REPLY_BYTES};
use crate::server::layout::KvLayout;

/// Looks a key up, and appends the reply.
type Answer = fn(&MemoryRegion, &[u8], &mut ReplyBytes);

/// Lets the device answer GETs from a table of that layout.
pub(crate) fn serve(memory: &TableMemory, layout: KvLayout) -> Result<ServedCalls, ResourceError> {
    let answer: Answer = match layout {
        KvLayout::Cluster => answer::<Cluster, Crc64>,
        KvLayout::Hopscotch => answer::<Hopscotch, Crc64>,
        KvLayout::Cuckoo => answer::<Cuckoo, Crc64>,
        KvLayout::ClusterAtomic => answer::<Cluster, AtomicReads>,
        KvLayout::Tree => answer_from_tree,
    };
    memory.region().serve_calls(move |call, reply| match DeviceCall::decode(call.request()) {
        Some(DeviceCall::Get(key)) => answer(call.memory(), key, reply),
        Some(DeviceCall::AskServed) => append(DeviceReply::Served, reply),
        None => {}
    })
}

fn answer<L: TableLayout, C: TornCheck>(memory: &MemoryRegion, key: &[u8], reply: &mut ReplyBytes) {
    let mut lookup = KeyLookup::<L, C>::new(memory.len_bytes());
    let found = LocalReads::new(memory).find(&mut lookup, key, REPLY_BYTES as u64, |found| tell(found, reply));
    or_ask(found, reply);
}

fn answer_from_tree(memory: &MemoryRegion, key: &[u8], reply: &mut ReplyBytes) {
    let mut lookup = TreeLookup::<Crc64>::new(memory.len_bytes());
    let found = LocalReads::new(memory).find_in_tree(&mut lookup, key, REPLY_BYTES as u64, |found| tell(found, reply));
    or_ask(found, reply);
}

fn tell(found: Option<FoundObject<'_>>, reply: &mut ReplyBytes) {
    append(found.map_or(DeviceReply::Absent, |found| DeviceReply::Found(found.header, found.value)), reply);
}

/// Long values, and keys that are being changed, are left to the server.
fn or_ask(found: Result<Option<()>, LookupError>, reply: &mut ReplyBytes) {
    if !matches!(found, Ok(Some(()))) {
        append(DeviceReply::AskServer, reply);
    }
}

/// A caller without room for a reply gets an empty one.
fn append(answer: DeviceReply<'_>, reply: &mut ReplyBytes) {
    answer.encode(reply.room_bytes(), |part| {
        let _ = reply.append(part);
    });
}
