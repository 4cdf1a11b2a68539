//! The hub is killed while processes manage connections.

mod common;

use common::mads::{Manager, TCP, UDP, id, message, packet, sidr_req};
use common::{Client, TestHub, play_role_if_asked};
use longarm_hub::client::manager::{BindOptions, ManagerEvent};
use testkit::wait_until;
use udp::testing::in_new_netns;
use wire::mad::CmMessage;

#[test]
fn role() {
    play_role_if_asked();
}

fn reattached(event: &ManagerEvent) -> Option<()> {
    matches!(event, ManagerEvent::Reattached).then_some(())
}

#[test]
fn numbers_ports_and_closing_messages_outlive_the_hub() {
    in_new_netns(|| {
        let place = TestHub::new("survives");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        let numbers = [a.session.number(), b.session.number()];
        a.listen(UDP, "127.0.0.1:7");
        a.session.bind(TCP, "[::]:8".parse().unwrap(), BindOptions { reuse: true, afonly: true }).unwrap();
        let gone = a.session.bind(TCP, "0.0.0.0:0".parse().unwrap(), BindOptions::default()).unwrap();
        a.session.unbind(gone.token);
        for key in 0..300 {
            a.session.set_closing_message(key, &packet("127.0.0.1", "127.0.0.1", 1, sidr_req(1, TCP, 1)), false);
        }
        (0..100).for_each(|key| a.session.clear_closing_message(key));
        let ports = |place: &TestHub| place.status().managers.iter().map(|m| m.ports.clone()).collect::<Vec<_>>();
        wait_until("the hub knows all", || {
            a.step();
            let status = place.status();
            status.managers[0].closing_messages == 200 && status.managers[0].ports_total == 2
        });
        let before = ports(&place);
        for _ in 0..3 {
            place.kill_hub();
            for manager in [&mut a, &mut b] {
                manager.expect("the loss", |event| matches!(event, ManagerEvent::HubLost).then_some(()));
                manager.expect("a new hub", reattached);
            }
            wait_until("the hub knows all", || {
                a.step();
                place.status().managers.iter().any(|m| m.closing_messages == 200 && m.ports_total == 2)
            });
            assert_eq!([a.session.number(), b.session.number()], numbers);
            let after = ports(&place);
            assert!(after.contains(&before[0]), "{after:?}");
            assert!(b.session.bind(UDP, "0.0.0.0:7".parse().unwrap(), BindOptions::default()).is_err());
            b.session.send_mad(&packet("127.0.0.1", "127.0.0.1", 5, sidr_req(id(numbers[1], 1), UDP, 7)));
            assert!(matches!(message(&a.expect_mad()), CmMessage::SidrReq(_)));
            b.exchange(&mut a, "::1", "::1", 0);
            (0..200).for_each(|_| a.session.clear_closing_message(0));
        }
    });
}

#[test]
fn binding_waits_for_the_next_hub() {
    in_new_netns(|| {
        let place = TestHub::new("waits");
        let mut a = Manager::new(&place);
        let first = a.session.bind(TCP, "0.0.0.0:7".parse().unwrap(), BindOptions::default()).unwrap();
        place.kill_hub();
        let second = a.session.bind(TCP, "0.0.0.0:8".parse().unwrap(), BindOptions::default()).unwrap();
        assert_ne!(first.token, second.token);
        place.kill_hub();
        a.session.listen(first.token).unwrap();
        let ports = &place.status().managers[0].ports;
        let shown: Vec<_> = ports.iter().map(|port| (port.address.port(), port.listening)).collect();
        assert_eq!(shown, [(7, true), (8, false)]);
        a.expect("a new hub", reattached);
    });
}

#[test]
fn a_port_that_another_process_has_taken_is_reported_lost() {
    in_new_netns(|| {
        let place = TestHub::new("meanwhile");
        let mut a = Manager::new(&place);
        let number = a.session.number();
        let lost = a.listen(TCP, "127.0.0.1:7");
        let kept = a.listen(TCP, "127.0.0.1:8");
        place.kill_hub();
        // Another process binds at the new hub first. (Its number is probably another one.)
        let mut b = Manager::new(&place);
        b.listen(TCP, "127.0.0.1:7");
        let token = a.expect("the loss of the port", |event| match event {
            ManagerEvent::BindingLost { token } => Some(*token),
            _ => None,
        });
        assert_eq!(token, lost.token);
        assert!(a.session.listen(lost.token).is_err());
        assert!(a.session.listen(kept.token).is_ok());
        if b.session.number() == number {
            a.expect("another number", |event| match event {
                ManagerEvent::Renumbered(other) => (*other != number).then_some(()),
                _ => None,
            });
        } else {
            assert_eq!(a.session.number(), number);
        }
    });
}

#[test]
fn a_process_with_slots_and_a_manager_find_the_same_new_hub() {
    in_new_netns(|| {
        let place = TestHub::new("both");
        let (client, _) = Client::attached(&place);
        let mut a = Manager::new(&place);
        a.listen(TCP, "127.0.0.1:7");
        for _ in 0..3 {
            place.kill_hub();
            a.expect("a new hub", reattached);
            client.expect("reattached ");
            let status = place.status();
            assert!(status.recovered, "the port was taken over");
            assert_eq!((status.clients.len(), status.managers.len()), (1, 1));
            a.session.send_mad(&packet("127.0.0.1", "127.0.0.1", 5, sidr_req(id(a.session.number(), 1), TCP, 7)));
            a.expect_mad();
        }
        client.quit();
    });
}

#[test]
fn the_hub_stays_as_long_as_connections_are_managed() {
    in_new_netns(|| {
        let place = TestHub::new("stays");
        let (mut a, mut b) = (Manager::new(&place), Manager::new(&place));
        let hub = place.status().pid;
        longarm_hub::client::up(Some(&place.dir()), Some(std::time::Duration::ZERO)).unwrap();
        for _ in 0..20 {
            a.exchange(&mut b, "127.0.0.1", "127.0.0.1", 0);
            assert_eq!(place.status().pid, hub);
        }
        drop((a, b));
        wait_until("the hub has left", || !common::is_alive(hub));
    });
}

#[test]
fn sessions_do_not_pile_up() {
    in_new_netns(|| {
        let place = TestHub::new("pile");
        let mut a = Manager::new(&place);
        let hub = place.status().pid;
        let before = common::descriptors(hub);
        for _ in 0..200 {
            let mut b = Manager::new(&place);
            b.listen(TCP, "127.0.0.1:0");
        }
        wait_until("all are gone", || place.status().managers.len() == 1);
        wait_until("no descriptor is left", || common::descriptors(hub) <= before);
        a.step();
        assert_eq!(place.status().managers[0].number, a.session.number());
    });
}
