use super::*;

const TCP: u16 = 0x0106;
const UDP: u16 = 0x0111;

/// Binds for owner 1 in the TCP space.
struct Table {
    table: PortTable,
    next_token: u64,
}

#[derive(Clone, Copy, Default)]
struct Options {
    reuse: bool,
    afonly: bool,
}

const REUSE: Options = Options { reuse: true, afonly: false };
const AFONLY: Options = Options { reuse: false, afonly: true };

impl Table {
    fn new() -> Table {
        Table { table: PortTable::default(), next_token: 0 }
    }

    fn bind_for(&mut self, owner: ClientId, space: u16, address: &str, options: Options) -> Result<u64, BindRefusal> {
        self.next_token += 1;
        let spec = BindSpec { space, address: address.parse().unwrap(), reuse: options.reuse, afonly: options.afonly };
        self.table.bind(owner, self.next_token, &spec, || panic!("a port was asked for"))?;
        Ok(self.next_token)
    }

    fn bind(&mut self, address: &str, options: Options) -> Result<u64, BindRefusal> {
        self.bind_for(1, TCP, address, options)
    }

    fn any(&mut self, address: &str, range: RangeInclusive<u16>, start: u16) -> Result<u16, BindRefusal> {
        self.next_token += 1;
        let spec = BindSpec { space: TCP, address: address.parse().unwrap(), reuse: false, afonly: false };
        self.table.bind(1, self.next_token, &spec, || EphemeralPorts { range, start })
    }

    fn route(&self, port: u16, destination: &str) -> Option<ClientId> {
        self.table.route(TCP, port, destination.parse().unwrap(), 3)
    }
}

#[test]
fn two_bindings_of_one_port() {
    let plain = Options::default();
    let cases = [
        ("192.0.2.1:7", plain, "192.0.2.1:7", plain, false),
        ("192.0.2.1:7", plain, "192.0.2.1:8", plain, true),
        ("192.0.2.1:7", plain, "192.0.2.2:7", plain, true),
        ("192.0.2.1:7", plain, "0.0.0.0:7", plain, false),
        ("0.0.0.0:7", plain, "192.0.2.1:7", plain, false),
        ("0.0.0.0:7", plain, "0.0.0.0:7", plain, false),
        ("192.0.2.1:7", plain, "[fd00::1]:7", plain, true),
        ("192.0.2.1:7", plain, "[::]:7", plain, false),
        ("192.0.2.1:7", plain, "[::]:7", AFONLY, true),
        ("0.0.0.0:7", plain, "[::]:7", AFONLY, true),
        ("0.0.0.0:7", plain, "[::]:7", plain, false),
        ("[::]:7", AFONLY, "0.0.0.0:7", plain, true),
        ("[fd00::1]:7", plain, "[::]:7", AFONLY, false),
        ("[fd00::1]:7", plain, "[fd00::1]:7", AFONLY, false),
        ("[::ffff:192.0.2.1]:7", plain, "192.0.2.1:7", plain, false),
        ("[fe80::1%3]:7", plain, "[fe80::1%4]:7", plain, true),
        ("[fe80::1%3]:7", plain, "[fe80::1%3]:7", plain, false),
        ("[fe80::1%3]:7", plain, "[::]:7", plain, false),
        ("192.0.2.1:7", REUSE, "192.0.2.1:7", REUSE, true),
        ("0.0.0.0:7", REUSE, "192.0.2.1:7", REUSE, true),
        ("192.0.2.1:7", REUSE, "192.0.2.1:7", plain, false),
        ("192.0.2.1:7", plain, "192.0.2.1:7", REUSE, false),
    ];
    for (first, first_options, second, second_options, works) in cases {
        for second_owner in [1, 2] {
            let mut table = Table::new();
            table.bind(first, first_options).unwrap();
            let result = table.bind_for(second_owner, TCP, second, second_options);
            let expected = if works { Ok(2) } else { Err(BindRefusal::InUse) };
            assert_eq!(result, expected, "{first}, then {second}");
            assert!(table.bind_for(second_owner, UDP, second, second_options).is_ok(), "another port space");
        }
    }
}

#[test]
fn a_listener_is_alone() {
    let mut table = Table::new();
    let first = table.bind("0.0.0.0:7", REUSE).unwrap();
    let second = table.bind_for(2, TCP, "192.0.2.1:7", REUSE).unwrap();
    assert_eq!(table.table.listen(1, first), Err(BindRefusal::InUse), "two have the port");
    assert!(table.table.unbind(2, second));
    assert_eq!(table.table.listen(1, first), Ok(7));
    assert_eq!(table.table.listen(1, first), Ok(7), "twice is once");
    assert_eq!(table.bind("192.0.2.1:7", REUSE), Err(BindRefusal::InUse), "a listener does not share");
    assert_eq!(table.table.listen(2, first), Err(BindRefusal::UnknownToken), "somebody else's");
    assert_eq!(table.table.listen(1, 77), Err(BindRefusal::UnknownToken));
}

#[test]
fn the_most_specific_listener_gets_the_request() {
    let mut table = Table::new();
    let listeners = [(2, "[::]:7", AFONLY), (4, "0.0.0.0:8", Options::default()), (6, "[::]:9", Options::default())];
    for (owner, address, options) in listeners {
        let token = table.bind_for(owner, TCP, address, options).unwrap();
        assert_eq!(table.route(7, "fd00::1").filter(|o| *o == owner), None, "bound only");
        table.table.listen(owner, token).unwrap();
    }
    for (owner, address) in [(3, "192.0.2.1:7"), (5, "[fe80::1%3]:8"), (7, "[fe80::2%4]:8")] {
        let token = table.bind_for(owner, TCP, address, Options::default()).unwrap();
        table.table.listen(owner, token).unwrap();
    }
    let cases = [
        (7, "192.0.2.1", Some(3)),
        (7, "192.0.2.2", None),
        (7, "fd00::1", Some(2)),
        (8, "192.0.2.2", Some(4)),
        (8, "fe80::1", Some(5)),
        (8, "fe80::2", None),
        (8, "fd00::1", None),
        (9, "192.0.2.9", Some(6)),
        (9, "::ffff:192.0.2.9", Some(6)),
        (9, "fd00::1", Some(6)),
        (10, "fd00::1", None),
    ];
    for (port, destination, owner) in cases {
        assert_eq!(table.route(port, destination), owner, "{destination} port {port}");
    }
    assert_eq!(table.table.route(UDP, 9, "fd00::1".parse().unwrap(), 0), None, "another port space");
    table.table.remove_owner(6);
    assert_eq!(table.route(9, "fd00::1"), None, "gone");
}

#[test]
fn ephemeral_ports_come_from_the_range_and_go_round() {
    let mut table = Table::new();
    let ports: Vec<_> = (0..4).map(|_| table.any("0.0.0.0:0", 100..=103, 2)).collect();
    assert_eq!(ports, [Ok(102), Ok(103), Ok(100), Ok(101)]);
    assert_eq!(table.any("0.0.0.0:0", 100..=103, 2), Err(BindRefusal::NoPort));
    assert_eq!(table.any("192.0.2.1:0", 100..=103, 2), Err(BindRefusal::NoPort), "covered by the wildcard");
    assert_eq!(table.any("[fd00::1]:0", 100..=103, u16::MAX), Ok(103), "another family, start beyond the range");
    assert!(table.table.unbind(1, 3));
    assert_eq!(table.any("0.0.0.0:0", 100..=103, 0), Ok(100), "given back");
    let (low, high) = (5, 4);
    assert_eq!(table.any("0.0.0.0:0", low..=high, 0), Err(BindRefusal::NoPort), "no range at all");
    assert_eq!(table.any("0.0.0.0:0", 0..=1, 0), Ok(1), "0 is no port");
    assert_eq!(table.any("0.0.0.0:0", 65535..=65535, 9), Ok(65535));
}

#[test]
fn ephemeral_ports_are_not_shared_by_chance() {
    let mut table = Table::new();
    let spec = BindSpec { space: TCP, address: "0.0.0.0:0".parse().unwrap(), reuse: true, afonly: false };
    let one = || EphemeralPorts { range: 50..=51, start: 0 };
    assert_eq!(table.table.bind(1, 900, &spec, one), Ok(50));
    assert_eq!(table.table.bind(2, 900, &spec, one), Ok(51));
    assert_eq!(table.bind("0.0.0.0:50", REUSE), Ok(1), "but if asked for");
}

#[test]
fn bindings_that_are_refused() {
    let mut table = Table::new();
    let plain = Options::default();
    for address in ["224.0.0.1:7", "255.255.255.255:7", "[ff02::1]:7", "[fe80::1]:7"] {
        assert_eq!(table.bind(address, plain), Err(BindRefusal::InvalidAddress), "{address}");
    }
    for space in [0, 1, 3, 0x0107, u16::MAX] {
        assert_eq!(table.bind_for(1, space, "0.0.0.0:7", plain), Err(BindRefusal::UnknownSpace), "{space}");
    }
    let spec = BindSpec { space: TCP, address: "0.0.0.0:7".parse().unwrap(), reuse: true, afonly: false };
    let none = || panic!("a port was asked for");
    assert_eq!(table.table.bind(1, 5, &spec, none), Ok(7));
    assert_eq!(table.table.bind(1, 5, &spec, none), Err(BindRefusal::UnknownToken), "one token, two ports");
}

#[test]
fn a_client_has_its_limit() {
    let mut table = Table::new();
    for i in 0..MAX_BINDINGS {
        let address = format!("10.0.{}.1:{}", i >> 15, i % (1 << 15) + 1);
        table.bind(&address, Options::default()).unwrap();
    }
    assert_eq!(table.bind("192.0.2.1:7", Options::default()), Err(BindRefusal::TooMany));
    assert!(table.bind_for(2, TCP, "192.0.2.1:7", Options::default()).is_ok(), "another one has room");
    table.table.remove_owner(1);
    assert_eq!((table.table.count(1), table.table.count(2)), (0, 1));
    assert_eq!(table.table.ports.len(), 1, "nothing is left behind");
    assert!(table.bind("10.0.0.1:1", Options::default()).is_ok());
}

#[test]
fn the_ports_of_a_client_are_shown() {
    let mut table = Table::new();
    table.bind("0.0.0.0:7", Options::default()).unwrap();
    let second = table.bind_for(1, UDP, "[fd00::1]:9", Options::default()).unwrap();
    table.bind_for(2, UDP, "[fd00::2]:9", Options::default()).unwrap();
    table.table.listen(1, second).unwrap();
    let shown: Vec<_> = table.table.of(1).map(|p| (p.space, p.address.to_string(), p.listening)).collect();
    assert_eq!(shown, [(TCP, "0.0.0.0:7".to_owned(), false), (UDP, "[fd00::1]:9".to_owned(), true)]);
}
