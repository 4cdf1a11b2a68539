//! One program with its options, and how its success is judged. The words are those of the
//! tables of programs in `crates/cli/tests/programs`.

use std::time::Duration;

use crate::exchange::{Exchange, Place};
use crate::ready::Listens;

/// What tells of success beside the exit status of both sides.
#[derive(Clone, Copy)]
pub(crate) enum Judge {
    /// Both sides say all of these words.
    Says(&'static [&'static str]),
    /// The client says them.
    ClientSays(&'static [&'static str]),
    /// The client prints at least so many lines of numbers.
    Rows(usize),
}

/// A program that must run between Longarm and Soft-RoCE, either being the server.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) program: &'static str,
    /// The client's, if it is another.
    pub(crate) client_program: Option<&'static str>,
    /// Options of both sides. In all options `{device}`, `{gid}` and `{own}` are the side's own device, GID and
    /// address, `{server}` is the server's address, and `{meeting}` its IPv4 address.
    pub(crate) options: &'static str,
    /// How device and GID are told to this program.
    pub(crate) place: &'static str,
    /// Options of one side.
    pub(crate) server: &'static str,
    pub(crate) client: &'static str,
    /// By what one sees that the server takes connections.
    pub(crate) listens: Listens,
    /// The server goes on when its client has ended.
    pub(crate) lives: bool,
    /// Longer than both sides take, emulated, on a busy machine.
    pub(crate) patience: Duration,
    pub(crate) judge: Judge,
    /// The link's MTU in bytes.
    pub(crate) mtu: u32,
    /// A plan of faults on our side.
    pub(crate) faults: Option<&'static str>,
    /// What the guest's queueing discipline netem does to packets of the guest.
    pub(crate) netem: Option<&'static str>,
    /// Which of them can be, and why no other.
    pub(crate) roles: &'static [Role],
    pub(crate) families: &'static [Family],
    pub(crate) limit: &'static str,
    /// The program compares the data.
    pub(crate) verified: bool,
    /// Part of the short run.
    pub(crate) short: bool,
    /// How often it may be tried until it succeeds.
    pub(crate) attempts: usize,
}

/// Which side Longarm is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    Client,
    Server,
}

/// Which addresses are used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    V4,
    V6,
}

pub(crate) const ROLES: [Role; 2] = [Role::Client, Role::Server];
pub(crate) const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

/// The MTU of plain Ethernet, and one that carries RDMA's largest.
pub(crate) const ETHERNET: u32 = 1500;
pub(crate) const JUMBO: u32 = 4200;

/// Where programs meet over TCP to tell each other their queue pairs.
const MEETING: Listens = Listens::Tcp(18515);

/// Words that programs use when they go on after a failure.
const NEVER: [&str; 6] =
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
            lives: false,
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

    /// Perftest, connecting by the connection manager.
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

    /// The client is another program.
    pub(crate) const fn client_program(self, program: &'static str) -> Case {
        Case { client_program: Some(program), ..self }
    }

    pub(crate) const fn listens(self, listens: Listens) -> Case {
        Case { listens, ..self }
    }

    /// The server has to be ended.
    pub(crate) const fn lives(self) -> Case {
        Case { lives: true, ..self }
    }

    /// Only over these addresses.
    pub(crate) const fn over(self, families: &'static [Family], limit: &'static str) -> Case {
        Case { families, limit, ..self }
    }

    /// Longarm has only these roles.
    pub(crate) const fn only_as(self, roles: &'static [Role], limit: &'static str) -> Case {
        Case { roles, limit, ..self }
    }

    /// The client connects a second time as soon as it is told to over the first connection, and the server, being
    /// slow, may not listen again yet. Then the program gives up; so its word to connect takes its time.
    pub(crate) const fn listens_late(self) -> Case {
        Case { netem: Some("delay 50ms"), attempts: 4, ..self }
    }

    /// May take so many seconds.
    pub(crate) const fn patience(self, seconds: u64) -> Case {
        Case { patience: Duration::from_secs(seconds), ..self }
    }

    pub(crate) const fn jumbo(self) -> Case {
        Case { mtu: JUMBO, ..self }
    }

    pub(crate) const fn faults(self, plan: &'static str) -> Case {
        Case { faults: Some(plan), attempts: self.attempts_with_loss(), ..self }
    }

    /// The same for packets of the guest.
    pub(crate) const fn netem(self, what: &'static str) -> Case {
        Case { netem: Some(what), attempts: self.attempts_with_loss(), ..self }
    }

    /// The last acknowledge of a program that has ended can be lost as well, and then nobody is there any
    /// more to send it again, so that the peer rightly complains. Perftest's say goodbye over TCP.
    const fn attempts_with_loss(&self) -> usize {
        match self.judge {
            Judge::Says(_) | Judge::ClientSays(_) => 4,
            Judge::Rows(_) => 1,
        }
    }

    /// The program ends while messages of its peer are still under way to it, and the peer may complain.
    pub(crate) const fn stragglers(self) -> Case {
        Case { attempts: 2, ..self }
    }

    /// rxe's own acknowledge timeout (67 ms) can pass while a slow guest still sends. If the acknowledge of
    /// all comes while rxe sends it again, kernel 6.1 sometimes stops there for ever.
    pub(crate) const fn long_messages(self) -> Case {
        Case { attempts: 3, ..self }
    }

    pub(crate) const fn verified(self) -> Case {
        Case { verified: true, ..self }
    }

    pub(crate) const fn short(self) -> Case {
        Case { short: true, ..self }
    }

    /// What distinguishes it, as a person would type it.
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
    pub(crate) fn can(&self, (role, family): (Role, Family)) -> bool {
        self.roles.contains(&role) && self.families.contains(&family)
    }

    /// What is run on both sides.
    pub(crate) fn exchange<'a>(&'a self, ours: &Place, theirs: &Place, role: Role, family: Family) -> Exchange<'a> {
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
    fn line(&self, role: Role, own: &Place, server: &Place, family: Family) -> String {
        let (program, side) = match role {
            Role::Server => (self.program, self.server),
            Role::Client => (self.client_program.unwrap_or(self.program), self.client),
        };
        let options = format!("{} {} {side}", self.place, self.options)
            .replace("{device}", &own.device)
            .replace("{gid}", &own.gid(family).to_string())
            .replace("{own}", own.address(family))
            .replace("{server}", server.address(family))
            .replace("{meeting}", server.address(Family::V4));
        format!("{program} {}", options.split_whitespace().collect::<Vec<_>>().join(" "))
    }

    /// What is missing in what both sides said, or should not be there.
    pub(crate) fn problem(&self, client: &str, server: &str) -> Option<String> {
        let both = [client, server];
        if let Some(word) = NEVER.iter().find(|word| both.iter().any(|said| said.contains(**word))) {
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

/// A line of four numbers or more, and nothing else.
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
