//! Any messages and any calls cause no panic, no event of an unknown id, and no memory that stays for ever.

mod support;

use std::collections::BTreeSet;
use std::time::Duration;

use cm::{CmEvent, Config, ConnId, Manager, ManagerOutput};
use proptest::collection::vec;
use proptest::prelude::*;
use support::{SERVER, reply, request, route, sidr_reply, sidr_request};
use wire::mad::{self, Attribute};

/// A step of the outside world.
#[derive(Clone, Debug)]
enum Step {
    /// Bytes that may be a message, with known ids if wanted.
    Mad { bytes: Vec<u8>, attribute: u16, ids: (Option<usize>, Option<usize>), stranger: bool },
    /// A call for the n-th id.
    Call { which: u8, id: usize },
    /// Time.
    Pass(u16),
}

fn step() -> impl Strategy<Value = Step> {
    let ids = (proptest::option::of(0usize..6), proptest::option::of(0usize..6));
    let attributes = prop_oneof![9 => Attribute::REQ.0..=Attribute::APR.0, 1 => any::<u16>()];
    prop_oneof![
        4 => (vec(any::<u8>(), 256), attributes, ids, prop::bool::weighted(0.1))
            .prop_map(|(bytes, attribute, ids, stranger)| Step::Mad { bytes, attribute, ids, stranger }),
        4 => (0u8..14, 0usize..6).prop_map(|(which, id)| Step::Call { which, id }),
        1 => any::<u16>().prop_map(Step::Pass),
    ]
}

/// A manager, the ids that its caller holds, and those that peers know.
struct World {
    manager: Manager,
    now: Duration,
    held: Vec<ConnId>,
    /// Communication ids of peers in messages so far.
    remote: Vec<u32>,
    sent: usize,
}

impl World {
    fn id(&self, n: usize) -> ConnId {
        self.held.get(n % self.held.len().max(1)).copied().unwrap_or(ConnId(n as u32))
    }

    fn mad(&self, bytes: &[u8], attribute: u16, ids: (Option<usize>, Option<usize>)) -> [u8; 256] {
        let mut mad: [u8; 256] = bytes.try_into().expect("its length");
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        if let Some(n) = ids.0 {
            let remote = self.remote.get(n % self.remote.len().max(1)).copied().unwrap_or(7);
            mad[24..28].copy_from_slice(&remote.to_be_bytes());
            mad[40..48].copy_from_slice(&7u64.to_be_bytes());
        }
        if let Some(n) = ids.1 {
            let at = if attribute == Attribute::SIDR_REP.0 { 24 } else { 28 };
            mad[at..at + 4].copy_from_slice(&self.id(n).0.to_be_bytes());
        }
        mad
    }

    fn call(&mut self, which: u8, id: ConnId) {
        let (manager, now) = (&mut self.manager, self.now);
        match which {
            0 | 1 => self.held.extend(manager.connect(now, &request())),
            2 => self.held.extend(manager.sidr_request(now, &sidr_request())),
            3 | 4 => drop(manager.accept(now, id, &reply())),
            5 => drop(manager.confirm(now, id, &[1])),
            6 => drop(manager.established(now, id)),
            7 => drop(manager.delay(now, id, 31, &[])),
            8 => drop(manager.delay_repeats(now, id, 1, &[])),
            9 => drop(manager.reject(now, id, 28, &[], &[])),
            10 | 11 => drop(manager.disconnect(now, id, &[])),
            12 => drop(manager.sidr_reply(now, id, &sidr_reply())),
            _ => {
                manager.destroy(now, id);
                self.held.retain(|held| *held != id);
            }
        }
        let _ = manager.closing_mad(id);
    }

    /// Takes the outputs; events are of ids that the caller holds, or of new ones.
    fn check(&mut self) {
        while let Some(output) = self.manager.poll() {
            match output {
                ManagerOutput::Event { id, event: CmEvent::Request(_) | CmEvent::SidrRequest(_) } => {
                    assert!(!self.held.contains(&id), "a new id");
                    self.held.push(id);
                }
                ManagerOutput::Event { id, event } => assert!(self.held.contains(&id), "{event:?} for nobody"),
                ManagerOutput::Send { mad, .. } => {
                    self.sent += 1;
                    assert!(mad::decode(&mad).is_ok());
                }
            }
        }
        let unique: BTreeSet<ConnId> = self.held.iter().copied().collect();
        assert_eq!(unique.len(), self.held.len());
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Mad { bytes, attribute, ids, stranger } => {
                let mad = self.mad(&bytes, attribute, ids);
                self.remote.push(u32::from_be_bytes([mad[24], mad[25], mad[26], mad[27]]));
                let mut way = route(SERVER);
                if stranger {
                    way.remote = [192, 168, 0, 1].into();
                }
                let before = self.sent;
                self.manager.receive(self.now, &way, &mad);
                self.check();
                assert!(self.sent - before <= 2, "an answer and a DREQ at most");
            }
            Step::Call { which, id } => self.call(which, self.id(id)),
            Step::Pass(ms) => {
                self.now += Duration::from_millis(u64::from(ms));
                self.manager.expire(self.now);
                assert!(self.manager.next_timeout().is_none_or(|next| next > self.now));
            }
        }
        self.check();
    }

    /// After all ids are destroyed everything ends in bounded time.
    fn finish(mut self) {
        for id in std::mem::take(&mut self.held) {
            self.manager.destroy(self.now, id);
        }
        self.check();
        let end = self.now + Duration::from_secs(1000);
        while let Some(next) = self.manager.next_timeout() {
            assert!(next < end, "for ever");
            self.manager.expire(next);
            self.check();
        }
        assert_eq!(self.manager.ids_in_use(), 0);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn any_steps_are_survived(steps in vec(step(), 1..60)) {
        let config = Config { half_open_limit: 8, ..Config::new(1, 7, 1) };
        let start = Duration::from_secs(1);
        let (held, remote) = (Vec::new(), vec![7]);
        let mut world = World { manager: Manager::new(config), now: start, held, remote, sent: 0 };
        steps.into_iter().for_each(|step| world.step(step));
        world.finish();
    }

    #[test]
    fn refusals_are_never_refused(bytes in vec(any::<u8>(), 256), attribute in Attribute::REQ.0..=Attribute::APR.0) {
        let mut mad: [u8; 256] = bytes.try_into().expect("its length");
        mad[..4].copy_from_slice(&[1, 7, 2, 3]);
        mad[16..18].copy_from_slice(&attribute.to_be_bytes());
        if let Some(answer) = cm::refuse(&mad) {
            prop_assert_eq!(cm::refuse(&answer), None);
            prop_assert_eq!(&answer[8..16], &mad[8..16]);
        }
    }
}
