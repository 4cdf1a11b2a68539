//! One program with its options, and the criterion of its success. The terms are those of the
//! tables of programs in `crates/cli/tests/programs`.

use std::time::Duration;

use crate::exchange::{DeviceAddresses, Exchange};
use crate::ready::Listens;

/// The criterion of success beside the exit status of both sides.
#[derive(Clone, Copy)]
pub(crate) enum Judge {
    /// Both sides print all of these texts.
    Says(&'static [&'static str]),
    /// The client prints all of these texts.
    ClientSays(&'static [&'static str]),
    /// The client prints at least this number of rows of numbers.
    Rows(usize),
}

/// A program that must run between Longarm and Soft-RoCE, with either as the server.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) program: &'static str,
    /// The client's program, if it differs.
    pub(crate) client_program: Option<&'static str>,
    /// Options of both sides. In all options `{device}`, `{gid}` and `{own}` are the side's own device, GID and
    /// address, `{server}` is the server's address, and `{meeting}` its IPv4 address.
    pub(crate) options: &'static str,
    /// The options that give device and GID to this program.
    pub(crate) place: &'static str,
    /// Options of the server only, and of the client only.
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
    /// The sign that the server accepts connections.
    pub(crate) listens: Listens,
    /// The server keeps running after its client has ended.
    pub(crate) outlives_client: bool,
    /// A limit that both sides stay below, even emulated on a busy machine.
    pub(crate) patience: Duration,
    pub(crate) judge: Judge,
    /// The link's MTU in bytes.
    pub(crate) mtu: u32,
    /// A plan of faults on Longarm's side.
    pub(crate) faults: Option<&'static str>,
    /// Options of the guest's queueing discipline netem for packets that the guest sends.
    pub(crate) netem: Option<&'static str>,
    /// The possible roles and address families, and the reason why others are not.
    pub(crate) roles: &'static [Role],
    pub(crate) families: &'static [IpFamily],
    pub(crate) limit: &'static str,
    /// The program compares the data.
    pub(crate) verified: bool,
    /// The case is part of the short run.
    pub(crate) short: bool,
    /// The number of attempts until it must have succeeded.
    pub(crate) attempts: usize,
}

/// Longarm's side.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Client,
    Server,
}

/// The address family of the connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum IpFamily {
    V4,
    V6,
}

pub(crate) const ROLES: [Role; 2] = [Role::Client, Role::Server];
pub(crate) const FAMILIES: [IpFamily; 2] = [IpFamily::V4, IpFamily::V6];

/// The MTU of plain Ethernet, and one that carries the largest path MTU of RDMA.
pub(crate) const ETHERNET: u32 = 1500;
pub(crate) const JUMBO: u32 = 4200;

/// The TCP port at which programs exchange their queue pair numbers.
const MEETING: Listens = Listens::Tcp(18515);

/// Texts that programs print when they continue after a failure.
const FAILURE_TEXTS: [&str; 6] =
    ["invalid data", "Completion with error", "Failed to", "Couldn't", "Completion error", "longarm: "];

impl Case {
    /// A ping-pong of ibverbs-utils.
    pub(crate) const fn ping(program: &'static str, options: &'static str) -> Case {
        let judge = Judge::Says(&[" bytes in ", "usec/iter"]);
        Case::new(program, options, "-d {device} -g {gid}", judge)
    }

    /// A program of perftest.
    pub(crate) const fn perf(program: &'static str, options: &'static str) -> Case {
        Case::new(program, options, "-d {device} -x {gid} -F", Judge::Rows(1))
    }

    const fn new(program: &'static str, options: &'static str, place: &'static str, judge: Judge) -> Case {
        Case {
            program,
            client_program: None,
            options,
            place,
            server: "",
            client: "{meeting}",
            listens: MEETING,
            outlives_client: false,
            patience: Duration::from_secs(30),
            judge,
            mtu: ETHERNET,
            faults: None,
            netem: None,
            roles: &ROLES,
            families: &FAMILIES,
            limit: "",
            verified: false,
            short: false,
            attempts: 1,
        }
    }

    /// A program that connects by the connection manager; both sides have an option for the address.
    pub(crate) const fn connects(program: &'static str, options: &'static str, judge: Judge) -> Case {
        Case { client: "-s {server}", listens: Listens::Rdma, ..Case::new(program, options, "", judge) }
    }

    /// A program of perftest that connects by the connection manager.
    pub(crate) const fn perf_connects(program: &'static str, options: &'static str) -> Case {
        let case = Case::new(program, options, "-d {device} -F", Judge::Rows(1));
        Case { client: "{server}", listens: Listens::Rdma, ..case }
    }

    /// Options of the server only.
    pub(crate) const fn server(self, server: &'static str) -> Case {
        Case { server, ..self }
    }

    /// Options of the client only.
    pub(crate) const fn client(self, client: &'static str) -> Case {
        Case { client, ..self }
    }

    /// The client runs another program.
    pub(crate) const fn client_program(self, program: &'static str) -> Case {
        Case { client_program: Some(program), ..self }
    }

    pub(crate) const fn listens(self, listens: Listens) -> Case {
        Case { listens, ..self }
    }

    /// The server does not end by itself; the run stops it.
    pub(crate) const fn outlives_client(self) -> Case {
        Case { outlives_client: true, ..self }
    }

    /// Limits the case to these address families.
    pub(crate) const fn over(self, families: &'static [IpFamily], limit: &'static str) -> Case {
        Case { families, limit, ..self }
    }

    /// Limits Longarm to these roles.
    pub(crate) const fn only_as(self, roles: &'static [Role], limit: &'static str) -> Case {
        Case { roles, limit, ..self }
    }

    /// The server tells the client over the first connection to connect a second time. A slow server may not
    /// listen again by then, and the program gives up. A delay of the guest's packets gives the server time.
    pub(crate) const fn listens_late(self) -> Case {
        Case { netem: Some("delay 50ms"), attempts: 4, ..self }
    }

    /// Sets the time limit, in seconds.
    pub(crate) const fn patience(self, seconds: u64) -> Case {
        Case { patience: Duration::from_secs(seconds), ..self }
    }

    pub(crate) const fn jumbo(self) -> Case {
        Case { mtu: JUMBO, ..self }
    }

    pub(crate) const fn faults(self, plan: &'static str) -> Case {
        Case { faults: Some(plan), attempts: self.attempts_with_loss(), ..self }
    }

    /// Faults on packets that the guest sends.
    pub(crate) const fn netem(self, what: &'static str) -> Case {
        Case { netem: Some(what), attempts: self.attempts_with_loss(), ..self }
    }

    /// The last ACK of a program that has ended can be lost too. No process is left to repeat it, so the
    /// peer rightly reports an error. Programs of perftest end together, by a message over TCP.
    const fn attempts_with_loss(&self) -> usize {
        match self.judge {
            Judge::Says(_) | Judge::ClientSays(_) => 4,
            Judge::Rows(_) => 1,
        }
    }

    /// The program ends while messages of its peer are still in flight to it, and the peer may report an error.
    pub(crate) const fn stragglers(self) -> Case {
        Case { attempts: 2, ..self }
    }

    /// rxe's own ACK timeout (67 ms) can expire while a slow guest still sends. If the ACK of the whole
    /// message arrives while rxe retransmits, kernel 6.1 sometimes hangs for ever.
    pub(crate) const fn long_messages(self) -> Case {
        Case { attempts: 3, ..self }
    }

    pub(crate) const fn verified(self) -> Case {
        Case { verified: true, ..self }
    }

    pub(crate) const fn short(self) -> Case {
        Case { short: true, ..self }
    }

    /// Program and distinguishing options, as a user would type them.
    pub(crate) fn name(&self) -> String {
        let mut name = format!("{} {}", self.program, self.options);
        if self.mtu != ETHERNET {
            name.push_str(&format!(" (link {})", self.mtu));
        }
        if let Some(plan) = self.faults {
            name.push_str(&format!(" (faults {plan})"));
        }
        if let Some(what) = self.netem {
            name.push_str(&format!(" (netem {what})"));
        }
        if !self.limit.is_empty() {
            name.push_str(&format!(" ({})", self.limit));
        }
        name
    }

    /// Whether Longarm can have this role over these addresses.
    pub(crate) fn can(&self, (role, family): (Role, IpFamily)) -> bool {
        self.roles.contains(&role) && self.families.contains(&family)
    }

    /// The commands of both sides.
    pub(crate) fn exchange<'a>(
        &'a self,
        ours: &DeviceAddresses,
        theirs: &DeviceAddresses,
        role: Role,
        family: IpFamily,
    ) -> Exchange<'a> {
        let server = if role == Role::Server { ours } else { theirs };
        let their_role = if role == Role::Server { Role::Client } else { Role::Server };
        Exchange {
            ours: self.line(role, ours, server, family),
            theirs: self.line(their_role, theirs, server, family),
            role,
            case: self,
        }
    }

    /// The command of the side that has this role.
    fn line(&self, role: Role, own: &DeviceAddresses, server: &DeviceAddresses, family: IpFamily) -> String {
        let (program, side) = match role {
            Role::Server => (self.program, self.server),
            Role::Client => (self.client_program.unwrap_or(self.program), self.client),
        };
        let options = format!("{} {} {side}", self.place, self.options)
            .replace("{device}", &own.device)
            .replace("{gid}", &own.gid(family).to_string())
            .replace("{own}", own.address(family))
            .replace("{server}", server.address(family))
            .replace("{meeting}", server.address(IpFamily::V4));
        format!("{program} {}", options.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// An expected text that is missing in the output, or an unwanted one that is present.
    pub(crate) fn problem(&self, client: &str, server: &str) -> Option<String> {
        let both = [client, server];
        if let Some(word) = FAILURE_TEXTS.iter().find(|word| both.iter().any(|said| said.contains(**word))) {
            return Some(format!("it said {word:?}"));
        }
        match self.judge {
            Judge::Says(words) => words
                .iter()
                .find(|word| !both.iter().all(|said| said.contains(**word)))
                .map(|word| format!("a side did not say {word:?}")),
            Judge::ClientSays(words) => words
                .iter()
                .find(|word| !client.contains(**word))
                .map(|word| format!("the client did not say {word:?}")),
            Judge::Rows(least) => {
                let rows = client.lines().filter(|line| is_row(line)).count();
                (rows < least).then(|| format!("{rows} of {least} lines of numbers"))
            }
        }
    }
}

/// Whether a line consists of four numbers or more.
fn is_row(line: &str) -> bool {
    let mut count = 0;
    line.split_whitespace().all(|word| {
        count += 1;
        word.parse::<f64>().is_ok()
    }) && count >= 4
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_lines_of_numbers() {
        assert!(is_row(" 65536      1000             0.00               1.89     0.03 "));
        assert!(!is_row(" #bytes     #iterations    BW peak[MB/sec]"));
        assert!(!is_row("1 2 3"));
    }

    #[test]
    fn a_silent_side_is_a_problem() {
        let case = Case::ping("ibv_rc_pingpong", "-c");
        let good = "8192000 bytes in 0.05 seconds = 1.0 Mbit/sec\n1000 iters in 0.05 seconds = 5 usec/iter\n";
        assert_eq!(case.problem(good, good), None);
        assert!(case.problem(good, "").is_some());
        assert!(case.problem("invalid data in page 0", good).is_some());
    }
}
