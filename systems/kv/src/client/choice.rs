//! The choice at run time of who searches: the client by READs, or the server.
//!
//! After Cell (Mitchell, Montgomery, Nelson, Sen, Li: "Balancing CPU and Network in the Cell Distributed B-Tree Store", USENIX ATC
//! 2016): a client measures both ways, keeps averages that weigh recent ones more, and prefers the faster. Its own times contain
//! all that matters: the queue at a loaded server, and the round trips of a search by READs. Weights and limits here are our own.

/// A new time of the way in use is so much of its average.
const WEIGHT: f64 = 1.0 / 8.0;
/// A new time of the other way is so much, because its average is old.
const TRIAL_WEIGHT: f64 = 1.0 / 2.0;
/// A time counts as so many times the average at most: a processor that was away says little.
const OUTLIER: f64 = 2.0;
/// The other way has to be faster by so much. Two ways that are alike do not alternate.
const HYSTERESIS: f64 = 1.25;
/// Trials of the other way take one part of the time in so many.
const TRIAL_SHARE: f64 = 32.0;
/// Requests between two trials at least.
const TRIAL_REQUESTS: u32 = 16;
/// An answer of the server is waited for while so many searches by READs would take.
const PATIENCE: f64 = 8.0;
/// The shortest such wait, in nanoseconds: a thread may lose its processor for so long.
const SHORTEST_NS: f64 = 1e6;

/// The end that searches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Searcher {
    /// By READs.
    Client,
    /// By request.
    Server,
}

/// The choice for one kind of request. Times come from the caller.
#[derive(Clone, Debug)]
pub(crate) struct WayChooser {
    present: Searcher,
    /// Average times in nanoseconds: the client's, the server's.
    averages: [Option<f64>; 2],
    /// When the last trial ended.
    tried_ns: u64,
    requests: u32,
}

impl Searcher {
    fn other(self) -> Searcher {
        match self {
            Searcher::Client => Searcher::Server,
            Searcher::Server => Searcher::Client,
        }
    }
}

impl WayChooser {
    pub(crate) fn new() -> WayChooser {
        WayChooser { present: Searcher::Client, averages: [None; 2], tried_ns: 0, requests: 0 }
    }

    /// The one that shall search now.
    pub(crate) fn decide(&mut self, now_ns: u64) -> Searcher {
        self.requests = self.requests.saturating_add(1);
        let other = self.present.other();
        let is_due = match (self.average(self.present), self.average(other)) {
            (None, _) => false,
            (_, None) => true,
            (_, Some(cost)) => {
                let passed = now_ns.saturating_sub(self.tried_ns) as f64;
                self.requests >= TRIAL_REQUESTS && passed >= cost * TRIAL_SHARE
            }
        };
        if is_due { other } else { self.present }
    }

    /// Takes the time that a search took, or after which it was given up.
    pub(crate) fn learn(&mut self, searcher: Searcher, took_ns: u64, now_ns: u64) {
        let is_trial = searcher != self.present;
        if is_trial {
            (self.tried_ns, self.requests) = (now_ns, 0);
        }
        let (took, weight) = (took_ns as f64, if is_trial { TRIAL_WEIGHT } else { WEIGHT });
        let average = &mut self.averages[searcher as usize];
        *average = Some(average.map_or(took, |old| old + (took.min(old * OUTLIER) - old) * weight));
        let other = self.present.other();
        if let (Some(present), Some(rival)) = (self.average(self.present), self.average(other))
            && rival * HYSTERESIS < present
        {
            self.present = other;
            (self.tried_ns, self.requests) = (now_ns, 0);
        }
    }

    /// Nanoseconds after which READs are better than waiting for the server; `None` if nobody knows what READs cost.
    pub(crate) fn patience_ns(&self) -> Option<u64> {
        self.average(Searcher::Client).map(|average| (average * PATIENCE).max(SHORTEST_NS) as u64)
    }

    fn average(&self, searcher: Searcher) -> Option<f64> {
        self.averages[searcher as usize]
    }
}

/// Choices for all kinds of requests: how many keys matters, because the ways have different costs for each.
#[derive(Clone, Debug)]
pub(crate) struct WayChoices {
    gets: Vec<WayChooser>,
    ranges: Vec<WayChooser>,
}

/// A kind of request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ChoiceKind {
    /// GETs of so many keys.
    Gets(usize),
    /// A range of so many keys at most.
    Range(usize),
}

/// Numbers of keys are told apart by their powers of two, up to this one.
const KINDS: usize = 16;

impl WayChoices {
    pub(crate) fn new() -> WayChoices {
        WayChoices { gets: vec![WayChooser::new(); KINDS], ranges: vec![WayChooser::new(); KINDS] }
    }

    /// The choice for that kind.
    pub(crate) fn of(&mut self, kind: ChoiceKind) -> &mut WayChooser {
        let (choosers, count) = match kind {
            ChoiceKind::Gets(count) => (&mut self.gets, count),
            ChoiceKind::Range(limit) => (&mut self.ranges, limit),
        };
        &mut choosers[(count.max(1).ilog2() as usize).min(KINDS - 1)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use remote::{Crc64, LocalReads, NodeCache, PlainMemory, TreeLookup, TreeOptions, TreeOwner};
    use std::cell::Cell;
    use std::collections::BinaryHeap;

    /// Lets a client work for a while of its own clock. Returns the part of requests that the server carried out.
    fn work(
        chooser: &mut WayChooser,
        now_ns: &mut u64,
        requests: u32,
        mut took_ns: impl FnMut(Searcher) -> u64,
    ) -> f64 {
        let mut served = 0;
        for _ in 0..requests {
            let searcher = chooser.decide(*now_ns);
            let took_ns = took_ns(searcher);
            *now_ns += took_ns;
            chooser.learn(searcher, took_ns, *now_ns);
            served += u32::from(searcher == Searcher::Server);
        }
        f64::from(served) / f64::from(requests)
    }

    #[test]
    fn a_loaded_server_is_left_alone_and_found_again() {
        let (mut chooser, mut now_ns) = (WayChooser::new(), 0);
        let mut share = |server_ns: u64| {
            let times = move |searcher| if searcher == Searcher::Server { server_ns } else { 30_000 };
            // The choice takes its time, but not long.
            work(&mut chooser, &mut now_ns, 100_000, times);
            let began = now_ns;
            let share = work(&mut chooser, &mut now_ns, 100_000, times);
            (share, (now_ns - began) as f64 / 1e5)
        };
        for _ in 0..3 {
            let (idle, mean) = share(10_000);
            assert!(idle > 0.97 && mean < 10_700.0, "{idle}, {mean} ns");
            // Its queue is longer now than the search by READs.
            let (loaded, mean) = share(2_000_000);
            assert!(loaded < 0.01 && mean < 31_500.0, "{loaded}, {mean} ns");
        }
    }

    #[test]
    fn a_slow_network_makes_the_server_search_and_copies_of_nodes_the_client() {
        // The READs of a search in a real tree, with and without copies of inner nodes.
        let memory = PlainMemory::new(8 << 20);
        let mut tree = TreeOwner::<_, Crc64>::create(&memory, TreeOptions::default()).unwrap();
        (0..20_000_u32).for_each(|number| assert!(tree.put(&number.to_be_bytes(), b"value").is_ok()));
        let mut lookup = TreeLookup::<Crc64>::new(8 << 20);
        let mut reads_with = |nodes: usize| {
            let (mut local, mut cache) = (LocalReads::new(&memory), NodeCache::new(nodes));
            for number in (0..20_000_u32).step_by(7) {
                local.run_tree(&mut lookup, &number.to_be_bytes(), None, &mut cache).unwrap();
            }
            local.run_tree(&mut lookup, &77_u32.to_be_bytes(), None, &mut cache).unwrap();
            let counts = lookup.counts();
            u64::from(counts.root + counts.index + counts.object)
        };
        let (without, with) = (reads_with(0), reads_with(4096));
        assert!(without >= 3 && with == 2, "{without}, {with}");
        for (reads, round_ns, service_ns, wanted) in [
            (without, 50_000, 5_000, Searcher::Server),
            (with, 50_000, 5_000, Searcher::Server),
            // A round trip takes less than the server's thread.
            (without, 1_000, 20_000, Searcher::Client),
            (with, 2_000, 5_000, Searcher::Client),
            (without, 2_000, 2_000, Searcher::Server),
        ] {
            let (mut chooser, mut now_ns) = (WayChooser::new(), 0);
            let times = |searcher| match searcher {
                Searcher::Client => reads * round_ns,
                Searcher::Server => round_ns + service_ns,
            };
            work(&mut chooser, &mut now_ns, 1_000, times);
            let share = work(&mut chooser, &mut now_ns, 10_000, times);
            let is_met = if wanted == Searcher::Server { share > 0.9 } else { share < 0.1 };
            assert!(is_met, "{reads} READs of {round_ns} ns beside {service_ns} ns: {share}");
        }
    }

    #[test]
    fn ways_that_are_alike_do_not_alternate_and_an_outlier_changes_nothing() {
        let mut random = fastrand::Rng::with_seed(1);
        let (mut chooser, mut now_ns) = (WayChooser::new(), 0);
        let changes = Cell::new(0);
        let mut last = chooser.present;
        for number in 0..200 {
            let times = |searcher| {
                let mean = if searcher == Searcher::Server { 10_000 } else { 10_500 };
                // One in fifty times the thread was away.
                if random.u8(..50) == 0 { 4_000_000 } else { mean + random.u64(..1000) }
            };
            work(&mut chooser, &mut now_ns, 500, times);
            changes.set(changes.get() + i32::from(chooser.present != last && number > 0));
            last = chooser.present;
        }
        assert!(changes.get() < 60, "{} changes in 100,000 requests", changes.get());
        let (mut chooser, mut now_ns) = (WayChooser::new(), 0);
        work(&mut chooser, &mut now_ns, 100, |searcher| if searcher == Searcher::Server { 10_000 } else { 20_000 });
        assert_eq!(chooser.present, Searcher::Server);
        chooser.learn(Searcher::Server, 5_000_000, now_ns);
        assert_eq!(chooser.present, Searcher::Server);
    }

    #[test]
    fn a_server_that_does_not_answer_costs_little() {
        let (mut chooser, mut now_ns) = (WayChooser::new(), 0);
        assert_eq!(chooser.patience_ns(), None);
        let mut requests = |server_ns: Option<u64>| {
            let began = now_ns;
            for _ in 0..50_000 {
                let searcher = chooser.decide(now_ns);
                let patience_ns = chooser.patience_ns();
                let took_ns = match (searcher, server_ns) {
                    (Searcher::Client, _) => 40_000,
                    (Searcher::Server, Some(server_ns)) => server_ns,
                    (Searcher::Server, None) => patience_ns.expect("a search by READs was first"),
                };
                now_ns += took_ns;
                chooser.learn(searcher, took_ns, now_ns);
                if searcher == Searcher::Server && server_ns.is_none() {
                    now_ns += 40_000;
                }
            }
            (now_ns - began) as f64 / 50_000.0
        };
        let answered = requests(Some(10_000));
        assert!(answered < 10_700.0, "{answered} ns");
        // Beside 40,000 ns of READs alone.
        let stopped = requests(None);
        assert!(stopped < 42_000.0, "{stopped} ns");
        assert!(requests(Some(10_000)) < 12_000.0);
    }

    /// Clients of one server with one thread, each with one request under way, for a while. Returns requests for each second.
    fn rate_of(clients: usize, chooser: &dyn Fn() -> Option<WayChooser>, fixed: Searcher) -> f64 {
        const ROUND_NS: u64 = 10_000;
        const SERVICE_NS: u64 = 2_000;
        const READS_NS: u64 = 40_000;
        // A search by READs takes the server's network card so long.
        const CARD_NS: u64 = 1_000;
        const END_NS: u64 = 2_000_000_000;
        let mut choosers: Vec<_> = (0..clients).map(|_| chooser()).collect();
        // The next client to begin a request, by its time.
        let mut ready: BinaryHeap<_> = (0..clients).map(|client| std::cmp::Reverse((client as u64, client))).collect();
        let (mut server_free_ns, mut card_free_ns, mut done) = (0, 0, 0_u64);
        while let Some(std::cmp::Reverse((now_ns, client))) = ready.pop().filter(|next| next.0.0 < END_NS) {
            let searcher = choosers[client].as_mut().map_or(fixed, |chooser| chooser.decide(now_ns));
            let end_ns = match searcher {
                Searcher::Client => {
                    card_free_ns = card_free_ns.max(now_ns + READS_NS / 2) + CARD_NS;
                    card_free_ns + READS_NS / 2
                }
                Searcher::Server => {
                    server_free_ns = server_free_ns.max(now_ns + ROUND_NS / 2) + SERVICE_NS;
                    server_free_ns + ROUND_NS / 2
                }
            };
            if let Some(chooser) = &mut choosers[client] {
                chooser.learn(searcher, end_ns - now_ns, end_ns);
            }
            done += 1;
            ready.push(std::cmp::Reverse((end_ns, client)));
        }
        done as f64 / (END_NS as f64 / 1e9)
    }

    #[test]
    fn many_clients_use_both_the_server_and_the_network() {
        for clients in [1, 4, 16, 64, 256] {
            let only = |searcher| rate_of(clients, &|| None, searcher);
            let chosen = rate_of(clients, &|| Some(WayChooser::new()), Searcher::Client);
            let best = only(Searcher::Client).max(only(Searcher::Server));
            println!("{clients}: {chosen:.0} beside {best:.0}");
            // Where the server's thread is not full the choice costs its trials; where it is, both together do more.
            let least = if clients < 32 { 0.93 } else { 1.2 };
            assert!(chosen > best * least, "{clients} clients: {chosen:.0} requests/s beside {best:.0}");
        }
    }
}
