//! One program with its options, and the criterion of its success.

/// The processes and hosts of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CaseSetup {
    /// Alone, to its end.
    Alone,
    /// Alone; it runs until it is killed.
    Lives,
    /// Server and client on one host.
    Pair,
    /// Server and client in two network namespaces with MTU 1500 between them.
    TwoHosts,
}

/// The criterion of success beside the exit status.
#[derive(Clone, Copy)]
pub(crate) enum Judge {
    /// The output contains all of these texts.
    Says(&'static [&'static str]),
    /// The client prints at least this number of rows of numbers.
    Rows(usize),
}

/// A program that must run.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) program: &'static str,
    /// The name in the document, if it is not the program's.
    pub(crate) name: &'static str,
    /// Options of both sides; `{server}` is the address, for the client only.
    pub(crate) options: &'static str,
    /// Options of the server only.
    pub(crate) server: &'static str,
    /// Options of the client only.
    pub(crate) client: &'static str,
    /// The environment, as `NAME=VALUE NAME=VALUE`.
    pub(crate) environment: &'static str,
    pub(crate) how: CaseSetup,
    pub(crate) judge: Judge,
    /// The server keeps running after its client has ended.
    pub(crate) serves: bool,
    /// The server has no listening TCP or RDMA port to wait for.
    pub(crate) silent: bool,
    /// A plan of faults.
    pub(crate) faults: Option<&'static str>,
    /// The program compares the data.
    pub(crate) verified: bool,
}

/// Texts that programs print when they continue after a failure.
pub(crate) const FAILURE_TEXTS: [&str; 6] =
    ["invalid data", "Completion with error", "Failed to", "Couldn't", "Completion error", "longarm: "];

/// The message of `longarm pair` about a server that keeps running.
const SERVER_KEPT_RUNNING: &str = "longarm: the server keeps running; ending it";

impl Case {
    /// A program that runs alone.
    pub(crate) const fn alone(program: &'static str, options: &'static str, says: &'static [&'static str]) -> Case {
        Case {
            program,
            name: "",
            options,
            server: "",
            client: "",
            environment: "",
            how: CaseSetup::Alone,
            judge: Judge::Says(says),
            serves: false,
            silent: false,
            faults: None,
            verified: false,
        }
    }

    /// A program with two sides on one host.
    pub(crate) const fn pair(program: &'static str, options: &'static str, judge: Judge) -> Case {
        Case { how: CaseSetup::Pair, judge, ..Case::alone(program, options, &[]) }
    }

    pub(crate) const fn lives(self) -> Case {
        Case { how: CaseSetup::Lives, ..self }
    }

    pub(crate) const fn two_hosts(self) -> Case {
        Case { how: CaseSetup::TwoHosts, ..self }
    }

    /// Two programs, one for each side, as commands of a shell.
    pub(crate) const fn commands(server: &'static str, client: &'static str, judge: Judge) -> Case {
        Case::pair("sh", "-c", judge).server(server).client(client)
    }

    pub(crate) const fn named(self, name: &'static str) -> Case {
        Case { name, ..self }
    }

    pub(crate) const fn silent(self) -> Case {
        Case { silent: true, ..self }
    }

    pub(crate) const fn serves(self) -> Case {
        Case { serves: true, ..self }
    }

    pub(crate) const fn server(self, server: &'static str) -> Case {
        Case { server, ..self }
    }

    pub(crate) const fn client(self, client: &'static str) -> Case {
        Case { client, ..self }
    }

    pub(crate) const fn environment(self, environment: &'static str) -> Case {
        Case { environment, ..self }
    }

    pub(crate) const fn faults(self, plan: &'static str) -> Case {
        Case { faults: Some(plan), ..self }
    }

    pub(crate) const fn verified(self) -> Case {
        Case { verified: true, ..self }
    }

    /// The arguments of `longarm` for this case.
    pub(crate) fn arguments(&self) -> Vec<&str> {
        // Long enough for a server that listens, even under valgrind on a busy machine.
        let wait = if self.silent { "2" } else { "30" };
        let mut arguments: Vec<&str> = match self.how {
            CaseSetup::Alone | CaseSetup::Lives => vec!["run"],
            CaseSetup::Pair => vec!["pair", "--wait", wait],
            CaseSetup::TwoHosts => vec!["pair", "--wait", wait, "--namespaces"],
        };
        arguments.extend(self.faults.iter().flat_map(|plan| ["--faults", plan]));
        if !self.server.is_empty() {
            arguments.extend(["--server-args", self.server]);
        }
        if !self.client.is_empty() {
            arguments.extend(["--client-args", self.client]);
        }
        arguments.extend(["--", self.program]);
        arguments.extend(self.options.split_whitespace());
        arguments
    }

    /// The variables and their values.
    pub(crate) fn variables(&self) -> impl Iterator<Item = (&str, &str)> {
        self.environment.split_whitespace().map(|pair| pair.split_once('=').expect("NAME=VALUE"))
    }

    /// An expected text that is missing in the output, or an unwanted one that is present.
    pub(crate) fn problem(&self, said: &str) -> Option<String> {
        let said = if self.serves { said.replace(SERVER_KEPT_RUNNING, "") } else { said.to_owned() };
        if let Some(word) = FAILURE_TEXTS.iter().find(|word| said.contains(**word)) {
            return Some(format!("it said {word:?}"));
        }
        match self.judge {
            Judge::Says(words) => words.iter().find(|word| !said.contains(**word)).map(|word| format!("no {word:?}")),
            Judge::Rows(least) => {
                let rows = said.lines().filter(|line| is_row(line)).count();
                (rows < least).then(|| format!("{rows} of {least} lines of numbers"))
            }
        }
    }
}

/// Whether a line is a row of the client's table: four numbers or more.
fn is_row(line: &str) -> bool {
    let Some(words) = line.strip_prefix("client│ ") else { return false };
    let mut count = 0;
    words.split_whitespace().all(|word| {
        count += 1;
        word.parse::<f64>().is_ok()
    }) && count >= 4
}
