//! A process that manages connections, from within.

use super::mads::{dreq, packet};
use longarm_hub::RUNTIME_DIR_VARIABLE;
use longarm_hub::client::AttachOptions;
use longarm_hub::client::manager::{BindOptions, ManagerSession, manage};
use std::env;
use std::time::{Duration, Instant};

/// Does what it is told, a line each, until it is told to quit or is killed.
pub(super) fn play(say: impl Fn(&str)) {
    let runtime_dir = env::var_os(RUNTIME_DIR_VARIABLE).map(Into::into);
    let mut session = manage(&AttachOptions { runtime_dir, ..AttachOptions::default() }).unwrap();
    say(&format!("number {}", session.number()));
    for line in std::io::stdin().lines().map_while(Result::ok) {
        let words: Vec<&str> = line.split(' ').collect();
        if !obey(&words, &mut session, &say) {
            return;
        }
    }
}

fn obey(words: &[&str], session: &mut ManagerSession, say: &impl Fn(&str)) -> bool {
    let number = |at: usize| words[at].parse::<u32>().unwrap();
    match words[0] {
        "listen" => {
            let binding = session.bind(0x0106, words[1].parse().unwrap(), BindOptions::default()).unwrap();
            session.listen(binding.token).unwrap();
            say(&format!("listening {}", binding.port));
        }
        "closing" => {
            let message = dreq(u32::from(session.number()) << 20 | number(1), number(2));
            let closing = packet("127.0.0.1", "127.0.0.1", u64::from(number(1)), message);
            session.set_closing_message(number(1), &closing, true);
            say("done");
        }
        "goodbye" => {
            let message = dreq(u32::from(session.number()) << 20 | number(1), number(2));
            session.send_mad(&packet("127.0.0.1", "127.0.0.1", u64::from(number(1)), message));
            session.clear_closing_message(number(1));
        }
        "maintain" => {
            let end = Instant::now() + Duration::from_millis(u64::from(number(1)));
            while Instant::now() < end {
                session.maintain(Instant::now());
                std::thread::sleep(Duration::from_millis(1));
            }
            say("done");
        }
        "fork" => say(&format!("forked {}", super::role::fork_sleeper())),
        "quit" => return false,
        other => panic!("unknown command {other}"),
    }
    true
}
