//! The incast: the properties that each kind of lossless network must and must not have.

use core::time::Duration;
use std::sync::LazyLock;

use longarm_sim::incast::{IncastPlan, IncastResult, LossControl, SwitchSpec, chart, page, run};

static OUTCOMES: LazyLock<Vec<IncastResult>> =
    LazyLock::new(|| LossControl::ALL.map(|loss_control| run(&IncastPlan::new(loss_control, 1))).into());

fn of(loss_control: LossControl) -> &'static IncastResult {
    OUTCOMES.iter().find(|outcome| outcome.plan.loss_control == loss_control).expect("all ways were run")
}

#[test]
fn windows_alone_lose_packets() {
    let neither = of(LossControl::Neither);
    assert!(neither.drops > 0);
    assert_eq!(neither.failures, 0, "lost packets are sent again");
    assert!(neither.total() > 0.9 * of(LossControl::Pfc).total(), "and selectively, so that the link stays busy");
}

#[test]
fn pauses_lose_nothing_and_keep_a_long_queue() {
    let pfc = of(LossControl::Pfc);
    assert_eq!((pfc.drops, pfc.sent_again, pfc.marks), (0, 0, 0));
    assert!(pfc.fairness() > 0.99);
    assert!(pfc.later_queue().0 > 1_000_000, "{:?}", pfc.later_queue());
    assert!(pfc.paused_later > pfc.plan.duration / 2 * 64 * 9 / 10, "links are paused most of the time");
}

#[test]
fn notifications_keep_the_queue_short_and_the_flows_fair() {
    for loss_control in [LossControl::Dcqcn, LossControl::Both] {
        let (outcome, pfc) = (of(loss_control), of(LossControl::Pfc));
        let (mean, longest) = outcome.later_queue();
        assert!(mean * 5 < pfc.later_queue().0, "{loss_control:?}: {mean}");
        assert!(longest < pfc.later_queue().0, "{loss_control:?}: {longest}");
        assert!(outcome.fairness() > 0.9, "{loss_control:?}: {}", outcome.fairness());
        assert!(outcome.total() > 0.75 * pfc.total(), "{loss_control:?}: {}", outcome.total());
        assert!(outcome.notifications > 0 && outcome.failures == 0);
    }
}

#[test]
fn both_together_pause_at_first_only() {
    let (both, dcqcn) = (of(LossControl::Both), of(LossControl::Dcqcn));
    assert_eq!(both.drops, 0);
    assert!(both.pauses > 0 && both.pauses < of(LossControl::Pfc).pauses);
    assert!(both.paused_later < Duration::from_millis(10), "{:?}", both.paused_later);
    assert!(both.longest_queue() * 2 < dcqcn.longest_queue(), "the first burst is held back");
}

/// The first burst is what notifications are too late for.
#[test]
fn notifications_alone_lose_packets_where_the_buffer_is_small() {
    let switch = SwitchSpec { buffer_bytes: 3_000_000, ..SwitchSpec::default() };
    let small = |loss_control| {
        run(&IncastPlan { switch, duration: Duration::from_millis(10), ..IncastPlan::new(loss_control, 1) })
    };
    assert!(small(LossControl::Dcqcn).drops > 0);
    assert_eq!(small(LossControl::Both).drops, 0);
}

#[test]
fn a_seed_is_a_run() {
    let short =
        |seed| run(&IncastPlan { duration: Duration::from_millis(2), ..IncastPlan::new(LossControl::Both, seed) });
    assert_eq!(short(7), short(7));
    assert_ne!(short(7).samples, short(8).samples);
}

#[test]
fn the_page_and_the_plot_show_every_way() {
    let (page, svg) = (page(&OUTCOMES), chart(&OUTCOMES).expect("it can be drawn"));
    for loss_control in LossControl::ALL {
        assert!(page.contains(&format!("| {} |", loss_control.name())), "{}", loss_control.name());
        assert!(svg.contains(loss_control.name()), "{}", loss_control.name());
    }
}
