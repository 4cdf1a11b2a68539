//! Clients that send no requests, half ones, too many, or take no replies. The door serves the others meanwhile.

mod support;

use std::net::TcpStream;

use longarm_resp::RespOptions;
use support::{DOOR, OpenDoor, Raw, encode, with_hub};

#[test]
fn the_door_outlives_hostile_clients() {
    with_hub("the_door_outlives_hostile_clients", || {
        let mut options = RespOptions::default();
        options.max_clients = 500;
        let door = OpenDoor::new(options);
        let mut good = Raw::connect(DOOR);
        assert_eq!(good.ask(&["set", "big", &"b".repeat(100_000)]), "+OK\r\n");

        // Random bytes, and requests that are cut anywhere.
        let mut random = fastrand::Rng::with_seed(7);
        let whole = encode(&[b"set".to_vec(), b"k".to_vec(), b"v".to_vec()]);
        for number in 0..300 {
            let mut raw = Raw::connect(DOOR);
            let noise: Vec<u8> = (0..random.usize(1..200)).map(|_| random.u8(..)).collect();
            // The door may have ended the connection already.
            let _ = raw.send_bytes(if number % 2 == 0 { &noise } else { &whole[..random.usize(..whole.len())] });
        }
        assert_eq!(good.ask(&["ping"]), "+PONG\r\n");

        // Lengths that nobody will ever send.
        let mut claims = Raw::connect(DOOR);
        claims.send_bytes(b"*2000000000\r\n$536870912\r\nabc").unwrap();
        assert_eq!(good.ask(&["get", "k"]), "$-1\r\n");

        // A client that asks and takes nothing: 100,000 replies would be 10 GB.
        let slow = Raw::connect(DOOR);
        slow.stream().set_nonblocking(true).unwrap();
        let requests = encode(&[b"get".to_vec(), b"big".to_vec()]).repeat(100_000);
        let sent = std::io::Write::write(&mut slow.stream(), &requests);
        assert!(sent.is_ok());
        for _ in 0..100 {
            assert_eq!(good.ask(&["strlen", "big"]), ":100000\r\n");
        }
        drop(slow);

        // A pipeline that is longer than all buffers comes back whole.
        let mut patient = Raw::connect(DOOR);
        patient.send_bytes(&encode(&[b"get".to_vec(), b"big".to_vec()]).repeat(200)).unwrap();
        for _ in 0..200 {
            assert_eq!(patient.reply().unwrap().len(), 100_000 + 2 + 9);
        }

        // More clients than there is room for.
        let crowd: Vec<TcpStream> = (0..600).map(|_| TcpStream::connect(DOOR).unwrap()).collect();
        testkit::wait_until("the door refuses some", || door.door.counts().refused > 0);
        drop(crowd);
        testkit::wait_until("there is room again", || {
            let mut raw = Raw::connect(DOOR);
            raw.send(&[b"ping".to_vec()]);
            raw.reply().is_some_and(|reply| reply == b"+PONG\r\n")
        });
        assert_eq!(good.ask(&["ping"]), "+PONG\r\n");
        assert!(door.door.counts().broken > 0);
    });
}
