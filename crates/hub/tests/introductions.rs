//! Introductions between processes of one user.

mod common;

use common::sharing::{file, heard, link, next_event, offer, text, write};
use common::{Client, Raw, TestHub, descriptors, is_alive, play_role_if_asked};
use longarm_hub::client::{
    AttachError, AttachOptions, Introduction, IntroductionRefusal, RequestedBy, Session, SessionEvent, attach,
};
use std::os::fd::AsFd;
use testkit::wait_until;
use udp::testing::in_new_netns;

#[test]
fn role() {
    play_role_if_asked();
}

fn sharing(place: &TestHub, name: &str) -> Session {
    attach(&AttachOptions { shm: Some(offer(name)), ..place.options() }).unwrap()
}

fn introduced(session: &mut Session) -> Introduction {
    match next_event(session) {
        SessionEvent::Introduced(introduction) => introduction,
        other => panic!("{other:?}"),
    }
}

/// Asks for an introduction that the hub refuses. Returns the reason.
fn refused(session: &mut Session, slot: u8) -> IntroductionRefusal {
    session.introduce(slot, link("refused").0).unwrap();
    refusal(session, slot)
}

fn refusal(session: &mut Session, expected: u8) -> IntroductionRefusal {
    match next_event(session) {
        SessionEvent::NotIntroduced { slot, reason } if slot == expected => reason,
        other => panic!("{other:?}"),
    }
}

#[test]
fn both_get_the_peers_descriptors_and_a_link() {
    in_new_netns(|| {
        let place = TestHub::new("introduced");
        let (mut a, mut b) = (sharing(&place, "a"), sharing(&place, "b"));
        b.more_slots(2).unwrap();
        let slots: Vec<u8> = b.slots().iter().map(|slot| slot.number).collect();
        let (offered, socket) = link("a to b");
        a.introduce(slots[2], offered).unwrap();
        // A request in between gets its own answer.
        a.more_slots(1).unwrap();

        let to_b = introduced(&mut a);
        assert_eq!((to_b.slot, &to_b.slots, to_b.pid), (slots[2], &slots, std::process::id()));
        assert!(matches!(to_b.requested_by, RequestedBy::ThisProcess));
        assert_eq!((text(&to_b.export), text(&to_b.wake)), ("b".into(), "wake b".into()));

        let to_a = introduced(&mut b);
        assert_eq!((to_a.slot, to_a.slots, to_a.pid), (a.slot(), vec![a.slot()], std::process::id()));
        let RequestedBy::Peer(got) = to_a.requested_by else { panic!("b did not ask") };
        assert_eq!((text(&to_a.export), text(&to_a.wake)), ("a".into(), "wake a".into()));
        assert_eq!(text(&got.link), "a to b");
        write(&got.socket, "from b");
        write(&socket, "from a");
        assert_eq!((heard(&socket), heard(&got.socket)), ("from b".into(), "from a".into()));
        for fd in [to_b.export.as_fd(), to_a.wake.as_fd(), got.link.as_fd(), got.socket.as_fd()] {
            assert!(rustix::io::fcntl_getfd(fd).unwrap().contains(rustix::io::FdFlags::CLOEXEC));
        }
        let status = place.status();
        assert_eq!(status.clients.iter().map(|client| client.introductions).collect::<Vec<_>>(), [1, 1]);
        assert_eq!(status.counters.introduced, 1);
    });
}

#[test]
fn introductions_name_the_peers_process() {
    in_new_netns(|| {
        let place = TestHub::new("processes");
        let client = Client::start(&place, "sharer");
        let slot: u8 = client.expect("attached ").parse().unwrap();
        let mut session = sharing(&place, "test");
        let (offered, socket) = link("link");
        session.introduce(slot, offered).unwrap();
        let other = introduced(&mut session);
        assert_eq!((other.pid, text(&other.export)), (client.pid(), client.pid().to_string()));
        assert_eq!(client.expect("introduced by "), format!("{} test", session.slot()));
        assert_eq!(heard(&socket), "hello");
        // The link's socket reports its death.
        client.kill();
        let mut byte = [0];
        assert_eq!(rustix::net::recv(&socket, &mut byte, rustix::net::RecvFlags::empty()).unwrap().0, 0);
    });
}

#[test]
fn of_crossing_requests_the_first_is_granted() {
    in_new_netns(|| {
        let place = TestHub::new("crossing");
        let (mut a, mut b) = (sharing(&place, "a"), sharing(&place, "b"));
        let (slot_a, slot_b) = (a.slot(), b.slot());
        a.introduce(slot_b, link("from a").0).unwrap();
        b.introduce(slot_a, link("from b").0).unwrap();
        // The hub may read either first.
        let (of_a, of_b) = (introduced(&mut a), introduced(&mut b));
        let first_was_a = matches!(of_a.requested_by, RequestedBy::ThisProcess);
        assert_eq!(matches!(of_b.requested_by, RequestedBy::Peer(_)), first_was_a);
        let (late, slot) = if first_was_a { (&mut b, slot_a) } else { (&mut a, slot_b) };
        assert_eq!(refusal(late, slot), IntroductionRefusal::Already { slots: vec![slot] });
        // Nor later, with another slot that the refusal names.
        let more = b.more_slots(1).unwrap()[0].number;
        assert_eq!(refused(&mut a, more), IntroductionRefusal::Already { slots: vec![slot_b, more] });
        assert_eq!(place.status().counters.introduced, 1);
    });
}

#[test]
fn introductions_need_another_process_and_two_offers() {
    in_new_netns(|| {
        let place = TestHub::new("nobody");
        let (mut a, mut silent) = (sharing(&place, "a"), attach(&place.options()).unwrap());
        let (slot_a, slot_silent) = (a.slot(), silent.slot());
        for slot in [0, 200, 255] {
            assert_eq!(refused(&mut a, slot), IntroductionRefusal::UnknownSlot);
        }
        assert_eq!(refused(&mut a, slot_a), IntroductionRefusal::Yourself);
        assert_eq!(refused(&mut a, slot_silent), IntroductionRefusal::NoOffer);
        assert_eq!(refused(&mut silent, slot_a), IntroductionRefusal::NoOffer);
        assert_eq!(refused(&mut silent, slot_silent), IntroductionRefusal::Yourself);
        // Answers come in the order of the requests.
        for slot in [slot_silent, 200, slot_a] {
            a.introduce(slot, link("many").0).unwrap();
        }
        assert_eq!(refusal(&mut a, slot_silent), IntroductionRefusal::NoOffer);
        assert_eq!(refusal(&mut a, 200), IntroductionRefusal::UnknownSlot);
        assert_eq!(refusal(&mut a, slot_a), IntroductionRefusal::Yourself);
        assert_eq!(place.status().counters.introduced, 0);
    });
}

#[test]
fn the_hub_keeps_no_descriptors_of_a_dead_process() {
    in_new_netns(|| {
        let place = TestHub::new("gone");
        let mut a = sharing(&place, "a");
        let hub = place.status().pid;
        let before = descriptors(hub);
        for round in 0..20 {
            let mut b = sharing(&place, "b");
            let (slot_a, slot_b) = (a.slot(), b.slot());
            // Once in each direction.
            let (asker, asked, slot) = if round % 2 == 0 { (&mut a, &mut b, slot_b) } else { (&mut b, &mut a, slot_a) };
            asker.introduce(slot, link("link").0).unwrap();
            assert!(matches!(introduced(asker).requested_by, RequestedBy::ThisProcess));
            assert!(matches!(introduced(asked).requested_by, RequestedBy::Peer(_)));
            drop(b);
            wait_until("it is forgotten", || place.status().clients.len() == 1);
            assert_eq!(place.status().clients[0].introductions, 0);
            assert_eq!(refused(&mut a, slot_b), IntroductionRefusal::UnknownSlot);
        }
        wait_until("no descriptor is left", || descriptors(hub) <= before);
    });
}

#[test]
fn a_new_hub_gets_the_offers_and_introduces_again() {
    in_new_netns(|| {
        let place = TestHub::new("anew");
        let client = Client::start(&place, "sharer");
        let slot: u8 = client.expect("attached ").parse().unwrap();
        let mut session = sharing(&place, "test");
        session.introduce(slot, link("first").0).unwrap();
        introduced(&mut session);
        assert_eq!(client.expect("introduced by "), format!("{} test", session.slot()));

        let hub = place.status().pid;
        common::stop(hub);
        // A request to a hub that will never answer.
        session.introduce(slot, link("never").0).unwrap();
        common::kill(hub);
        assert_eq!(refusal(&mut session, slot), IntroductionRefusal::HubLost);
        assert!(matches!(next_event(&mut session), SessionEvent::HubLost));
        assert!(matches!(next_event(&mut session), SessionEvent::Reattached));
        client.expect("reattached ");
        assert!(!is_alive(hub));

        let (offered, socket) = link("second");
        session.introduce(slot, offered).unwrap();
        let other = introduced(&mut session);
        assert_eq!((other.pid, text(&other.export)), (client.pid(), client.pid().to_string()));
        assert_eq!(client.expect("introduced by "), format!("{} test", session.slot()));
        assert_eq!(heard(&socket), "hello");
    });
}

#[test]
fn without_a_hub_there_are_no_introductions() {
    in_new_netns(|| {
        let place = TestHub::new("without");
        let (mut a, b) = (sharing(&place, "a"), sharing(&place, "b"));
        longarm_hub::client::shutdown(Some(&place.dir()), true).unwrap();
        assert!(matches!(next_event(&mut a), SessionEvent::HubLost));
        let refused = a.introduce(b.slot(), link("link").0);
        assert!(matches!(refused, Err(AttachError::NotRunning)), "{refused:?}");
        assert!(a.next_event().is_none());
    });
}

#[test]
fn a_client_that_does_not_read_stops_no_other() {
    in_new_netns(|| {
        let place = TestHub::new("deaf");
        let _honest = attach(&place.options()).unwrap();
        let deaf = Raw::greeted(&place);
        let (export, wake) = (file("export"), file("wake"));
        let attach = br#"{"request":"attach","slot":77,"counters":false,"local":true}"#;
        deaf.send(attach, &[export.as_fd(), wake.as_fd()]).unwrap();
        let (answer, _) = deaf.receive().unwrap();
        assert!(answer.contains("attached"), "{answer}");
        // Its answers fill its socket, until the hub reads no more of its requests.
        let full = || {
            while deaf.try_send(br#"{"request":"status"}"#).is_ok() {}
            let mut session = sharing(&place, "a");
            refused(&mut session, 200);
            session.introduce(77, link("link").0).unwrap();
            matches!(next_event(&mut session), SessionEvent::NotIntroduced { slot: 77, reason } if reason == IntroductionRefusal::NotListening)
        };
        wait_until("it does not listen", full);
        // All others are served as usual.
        let (mut a, mut b) = (sharing(&place, "a"), sharing(&place, "b"));
        a.introduce(b.slot(), link("link").0).unwrap();
        introduced(&mut a);
        introduced(&mut b);
    });
}

#[test]
fn a_client_without_room_for_descriptors_keeps_the_hub() {
    in_new_netns(|| {
        let place = TestHub::new("limit");
        let mut client = Client::start(&place, "sharer");
        let slot: u8 = client.expect("attached ").parse().unwrap();
        let (mut a, mut b) = (sharing(&place, "a"), sharing(&place, "b"));
        client.tell(&format!("introduce limited {}", a.slot()));
        assert_eq!(client.expect("not introduced to "), format!("{}: System", a.slot()));
        let RequestedBy::Peer(offered) = introduced(&mut a).requested_by else { panic!("a did not ask") };
        assert_eq!(text(&offered.link), "role");
        b.introduce(slot, link("link").0).unwrap();
        introduced(&mut b);
        client.tell("unlimited");
        client.tell("more 1");
        client.expect("more ");
        let status = place.status();
        assert_eq!((status.counters.reattached, status.counters.introduced), (0, 2));
        client.quit();
    });
}

#[test]
fn the_wrong_number_of_descriptors_ends_the_connection() {
    in_new_netns(|| {
        let place = TestHub::new("numbers");
        let session = sharing(&place, "honest");
        let hub = place.status().pid;
        let before = descriptors(hub);
        let files: Vec<_> = (0..6).map(|n| file(&n.to_string())).collect();
        let some = |count: usize| files.iter().take(count).map(|file| file.as_fd()).collect::<Vec<_>>();
        for (request, right) in [
            (r#"{"request":"attach","slot":null,"counters":false,"local":true}"#, 2),
            (r#"{"request":"attach","slot":null,"counters":true,"local":true}"#, 3),
            (r#"{"request":"reattach","slots":[9],"counters":true,"local":true}"#, 5),
        ] {
            for count in (0..=6).filter(|count| *count != right) {
                let raw = Raw::greeted(&place);
                raw.send(request.as_bytes(), &some(count)).unwrap();
                assert!(raw.hear().unwrap().contains("malformed"), "{request} with {count}");
                assert_eq!(raw.hear(), None);
            }
        }
        let introduce = format!(r#"{{"request":"introduce","slot":{}}}"#, session.slot());
        for count in (0..=6).filter(|count| *count != 2) {
            let raw = Raw::greeted(&place);
            raw.say(&introduce);
            assert!(raw.hear().unwrap().contains("out_of_order"), "without a slot");
            let raw = Raw::greeted(&place);
            raw.send(br#"{"request":"attach","slot":null,"counters":false,"local":true}"#, &some(2)).unwrap();
            assert!(raw.hear().unwrap().contains("attached"));
            raw.send(introduce.as_bytes(), &some(count)).unwrap();
            assert!(raw.hear().unwrap().contains("malformed"), "{count} descriptors");
            assert_eq!(raw.hear(), None);
        }
        wait_until("all are gone", || place.status().clients.len() == 1);
        wait_until("no descriptor is left", || descriptors(hub) <= before);
        assert!(session.is_attached());
    });
}
