use super::*;

const BUDGET: u64 = 1 << 20;
/// This many queue pairs with full windows exceed the budget.
const MANY: usize = 64;

/// A queue pair by its number.
#[derive(Clone)]
struct NumberedWaiter(usize, Arc<AtomicBool>);

impl TurnWaiter for NumberedWaiter {
    fn becomes_queued(&self) {
        assert!(!self.1.swap(true, SeqCst), "it joins the queue once");
    }

    fn is_not_queued(&self) {
        assert!(self.1.swap(false, SeqCst), "it leaves the queue once");
    }

    fn is_queued(&self) -> bool {
        self.1.load(SeqCst)
    }

    fn is(&self, other: &NumberedWaiter) -> bool {
        self.0 == other.0
    }
}

impl DestinationShare<NumberedWaiter> {
    fn wait_as(&mut self, number: usize) {
        self.wait(&NumberedWaiter(number, Arc::default()));
    }
}

fn destinations() -> Destinations<NumberedWaiter> {
    Destinations::new(4 * BUDGET as usize)
}

fn join(destinations: &Destinations<NumberedWaiter>, count: usize) -> Vec<DestinationShare<NumberedWaiter>> {
    (0..count).map(|index| destinations.join(Gid::default(), Qpn::from_parts(7, index as u16))).collect()
}

fn granted(share: &DestinationShare<NumberedWaiter>) -> Vec<usize> {
    share.destination().grant().into_iter().map(|who| who.0).collect()
}

fn in_flight(share: &DestinationShare<NumberedWaiter>) -> u64 {
    share.destination().in_flight.load(SeqCst)
}

#[test]
fn few_are_not_counted() {
    let destinations = destinations();
    let mut few = join(&destinations, 2);
    for share in &mut few {
        assert_eq!(share.allowance(), u64::MAX);
        share.charge(|| unreachable!("nothing is counted"));
    }
}

#[test]
fn slots_and_addresses_are_told_apart() {
    let destinations = destinations();
    let a = destinations.join(Gid::default(), Qpn::from_parts(1, 5));
    let same = destinations.join(Gid::default(), Qpn::from_parts(1, 6));
    let other = destinations.join(Gid::default(), Qpn::from_parts(2, 5));
    assert!(Arc::ptr_eq(a.destination(), same.destination()));
    assert!(!Arc::ptr_eq(a.destination(), other.destination()));
    drop((a, same, other));
    let _anew = destinations.join(Gid::default(), Qpn::from_parts(3, 5));
    assert_eq!(destinations.places.lock().len(), 1, "those that nobody has are forgotten");
}

#[test]
fn many_wait_in_order_when_the_budget_is_used_up() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    assert_eq!(many[0].allowance(), BUDGET);
    many[0].charge(|| BUDGET);
    for (index, share) in many.iter_mut().enumerate().skip(1) {
        assert_eq!(share.allowance(), 0);
        share.wait_as(index);
        share.wait_as(index);
    }
    assert!(granted(&many[0]).is_empty(), "there is no room");
    many[0].charge(|| BUDGET - 2 * TURN_BYTES);
    assert_eq!(granted(&many[0]), [1, 2]);
    assert_eq!(many[0].allowance(), 0, "others wait");
    assert_eq!(many[3].allowance(), 0, "it is queued");
    assert_eq!(many[1].allowance(), TURN_BYTES);
    many[1].charge(|| 100);
    assert_eq!(in_flight(&many[0]), BUDGET - TURN_BYTES + 100, "of a turn only what is used counts");
}

#[test]
fn with_nothing_in_flight_one_queue_pair_has_a_turn() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    many[0].destination().budget.store(1, Relaxed);
    many[0].wait_as(0);
    many[1].wait_as(1);
    assert_eq!(granted(&many[0]), [0]);
    assert_eq!(many[0].allowance(), TURN_BYTES);
    many[0].charge(|| 500);
    assert!(granted(&many[0]).is_empty());
    many[0].charge(|| 0);
    assert_eq!(granted(&many[0]), [1]);
}

#[test]
fn a_dropped_share_gives_everything_back() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    many[0].charge(|| BUDGET);
    let mut queued = many.pop().unwrap();
    let mut at_turn = many.pop().unwrap();
    at_turn.wait_as(100);
    queued.wait_as(101);
    many[0].charge(|| BUDGET - TURN_BYTES);
    assert_eq!(granted(&many[0]), [100]);
    drop(queued);
    assert!(!many[0].destination().is_waited_for());
    drop(at_turn);
    assert_eq!(in_flight(&many[0]), BUDGET - TURN_BYTES);
    let first = many.remove(0);
    let destination = first.destination().clone();
    drop((first, many));
    assert_eq!((destination.in_flight.load(SeqCst), destination.members.load(Relaxed)), (0, 0));
}

/// A queue pair that is reset and connected again must not get a turn that it had waited for before.
#[test]
fn a_queue_pair_that_joins_again_waits_again() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    let who = NumberedWaiter(100, Arc::default());
    many[0].charge(|| BUDGET);
    many[1].wait(&who);
    let mut anew = destinations.join(Gid::default(), Qpn::from_parts(7, 1));
    drop(many.remove(1));
    assert!(!who.is_queued());
    many[1].wait_as(2);
    anew.wait(&who);
    assert_eq!(anew.allowance(), 0);
    many[0].charge(|| BUDGET - TURN_BYTES);
    assert_eq!(granted(&many[0]), [2], "its old place in the queue is lost");
    assert!(who.is_queued() && anew.allowance() == 0);
    many[0].charge(|| BUDGET - 2 * TURN_BYTES);
    assert_eq!(granted(&many[0]), [100]);
    assert_eq!(anew.allowance(), TURN_BYTES);
}

#[test]
fn losses_shrink_the_budget_and_acks_restore_it() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    let budget = |share: &DestinationShare<NumberedWaiter>| share.destination().budget.load(Relaxed);
    let second = |n: u64| Time(n * 1_000_000_000);
    many[0].note_resent(1, second(1));
    many[1].note_resent(1, second(1));
    assert_eq!(budget(&many[0]), BUDGET / 4 * 3, "losses at one time count once");
    (2..100).for_each(|n| many[0].note_resent(n, second(n)));
    assert_eq!(budget(&many[0]), LEAST_BYTES);
    for _ in 0..BUDGET {
        many[0].charge(|| LEAST_BYTES);
        many[0].charge(|| 0);
    }
    assert_eq!(budget(&many[0]), BUDGET);
}

fn at_ms(ms: u64) -> Time {
    Time(ms * 1_000_000)
}

/// One share that holds the whole budget of a silent peer, and others that wait.
fn held_by_a_silent_one(destinations: &Destinations<NumberedWaiter>) -> Vec<DestinationShare<NumberedWaiter>> {
    let mut many = join(destinations, MANY);
    many[0].charge(|| BUDGET);
    many[0].note_unanswered(1, at_ms(3));
    assert!(granted(&many[0]).is_empty(), "no queue pair waits");
    many[1].wait_as(1);
    many[2].wait_as(2);
    assert!(granted(&many[0]).is_empty(), "there is no room");
    many
}

#[test]
fn beside_a_silent_one_the_others_have_a_turn_now_and_then() {
    let destinations = destinations();
    let mut many = held_by_a_silent_one(&destinations);
    many[0].note_unanswered(2, at_ms(20));
    assert_eq!(granted(&many[0]), [1]);
    many[0].note_unanswered(3, at_ms(25));
    assert!(granted(&many[0]).is_empty(), "one was given lately");
    many[0].note_unanswered(4, at_ms(40));
    assert_eq!(granted(&many[0]), [2]);
    many[0].charge(|| BUDGET);
    assert_eq!(in_flight(&many[0]), BUDGET + 2 * TURN_BYTES, "the silent one has its share: all may be late");
}

/// On a busy machine round trips are long, and so is the time to the next probe.
#[test]
fn the_first_probe_without_an_answer_gives_a_turn() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    many[0].charge(|| BUDGET);
    many[1].wait_as(1);
    assert!(granted(&many[0]).is_empty(), "there is no room");
    many[0].note_unanswered(1, at_ms(100));
    assert_eq!(granted(&many[0]), [1]);
}

#[test]
fn a_share_lapses_when_others_are_answered() {
    let destinations = destinations();
    let mut many = held_by_a_silent_one(&destinations);
    for (probes, ms, who) in [(2, 20, 1), (3, 40, 2)] {
        many[0].note_unanswered(probes, at_ms(ms));
        assert_eq!(granted(&many[0]), [who]);
        assert_eq!(many[who].allowance(), TURN_BYTES);
        many[who].charge(|| 100);
        many[who].charge(|| 0);
    }
    many[0].note_unanswered(4, at_ms(60));
    assert!(many[0].has_lapsed());
    many[0].charge(|| BUDGET);
    assert_eq!(in_flight(&many[0]), 0, "what it has sent counts no more");
    assert_eq!(many[0].allowance(), 0, "it sends nothing new");
    assert_eq!(many[3].allowance(), BUDGET);
}

#[test]
fn an_answer_restores_a_share() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    many[0].charge(|| BUDGET);
    for probes in 1..4 {
        many[0].note_unanswered(probes, at_ms(0));
        many[1].charge(|| 100);
        many[1].charge(|| 0);
    }
    many[0].charge(|| BUDGET);
    assert_eq!((many[0].has_lapsed(), in_flight(&many[0])), (true, 0));
    many[0].heard();
    many[0].charge(|| 5000);
    assert_eq!((many[0].has_lapsed(), in_flight(&many[0])), (false, 5000));
    assert_eq!(many[0].allowance(), BUDGET - 5000);
}

#[test]
fn one_that_lapses_leaves_the_queue() {
    let destinations = destinations();
    let mut many = held_by_a_silent_one(&destinations);
    for probes in 1..4 {
        many[1].note_unanswered(probes, at_ms(0));
        many[3].charge(|| 100);
        many[3].charge(|| 0);
    }
    assert!(many[1].has_lapsed() && !many[1].waits());
    many[0].charge(|| 0);
    assert_eq!(granted(&many[0]), [2]);
}

#[test]
fn the_losses_of_a_lapsed_share_do_not_shrink_the_budget() {
    let destinations = destinations();
    let mut many = join(&destinations, MANY);
    for probes in 1..4 {
        many[0].note_unanswered(probes, at_ms(0));
        many[1].charge(|| 100);
        many[1].charge(|| 0);
    }
    many[0].note_resent(100, at_ms(1000));
    assert_eq!(many[0].destination().budget.load(Relaxed), BUDGET);
}
