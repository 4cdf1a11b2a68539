//! A chat by datagrams: no server, every member hears all others, and can whisper to a member that it has found.
//!
//! Shows an unreliable datagram endpoint, a multicast group, the source of a message, and the lookup of
//! an endpoint by address and port.

mod roles;

use std::io::{BufRead, stdin};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Instant;

use longarm::service::Ud;
use longarm::{AddressHandle, Endpoint, InFlight, Listener, Message, Route, UdQueuePair};
use roles::{Args, Other, PATIENCE, Result};

const HELP: &str = "\
A chat between all who run this on the same network. Type a line to say it.

  ud_chat                       join the chat
  ud_chat --with NAME           start a second process, NAME, that greets us; answer it; leave

  --name NAME     who we are (somebody)
  --group ADDR    the multicast group (239.255.71.71)
  --say TEXT      say this instead of reading lines (may be given several times)
  --hear N        leave when so many messages were heard
  --port N        let others find us at this port
  --whisper ADDR  say everything to whom is found there only (HOST:PORT)";

const LINES_AHEAD: usize = 16;

fn main() -> Result<()> {
    let args = Args::parse(HELP, &["--with", "--name", "--group", "--say", "--hear", "--port", "--whisper"])?;
    let name: String = args.get("--name", "somebody".into())?;
    let group: IpAddr = args.get("--group", [239, 255, 71, 71].into())?;
    let hear = args.get("--hear", usize::MAX)?;

    let whisper = args.all("--whisper").last();
    let endpoint = Arc::new(match whisper {
        // Not every device has a route to the address.
        Some(address) => Route::to(address).wait(PATIENCE)?.ud()?,
        None => Endpoint::ud()?,
    });
    let ears = Ears::open(&endpoint)?;
    let membership = endpoint.join(group)?;
    let to = match whisper {
        Some(address) => find(&endpoint, address)?,
        None => membership.address_handle(),
    };
    if args.all("--port").next().is_some() {
        let listener = Listener::bind_ud((Ipv4Addr::UNSPECIFIED, args.get("--port", 0)?)).wait(PATIENCE)?;
        let (endpoint, name) = (Arc::clone(&endpoint), name.clone());
        std::thread::spawn(move || be_found(&listener, &endpoint, &name));
    }
    let mouth = Mouth { endpoint: &endpoint, to, name };

    if let Some(other) = args.all("--with").last() {
        return greet(&mouth, ears, other, group);
    }
    if args.all("--say").next().is_some() {
        args.all("--say").try_for_each(|text| mouth.say(text))?;
        return ears.listen(hear);
    }
    std::thread::scope(|scope| {
        let heard = scope.spawn(|| ears.listen(hear));
        for line in stdin().lock().lines() {
            mouth.say(&line?)?;
        }
        println!("(no more lines to say; still listening)");
        heard.join().map_err(|_| "the listener died")?
    })
}

/// Asks the member at `address` for its name and the address handle for private messages.
fn find(endpoint: &UdQueuePair, address: &str) -> Result<AddressHandle> {
    let found = endpoint.look_up(address, b"").wait(PATIENCE)?;
    let name = String::from_utf8_lossy(&found.private_data);
    println!("(whispering to {})", name.trim_end_matches('\0').escape_debug());
    Ok(found.address)
}

/// Answers lookups with this member's name and endpoint.
fn be_found(listener: &Listener<Ud>, endpoint: &UdQueuePair, name: &str) {
    while let Ok(incoming) = listener.incoming().wait(std::time::Duration::MAX) {
        if let Err(error) = incoming.answer(endpoint, name.as_bytes()) {
            println!("({error})");
        }
    }
}

/// Starts another member, waits for its greeting, and answers.
fn greet(mouth: &Mouth, ears: Ears, other: &str, group: IpAddr) -> Result<()> {
    let words = ["--name", other, "--say", "hello", "--hear", "1", "--group", &group.to_string()];
    let other = Other::start(words.map(str::to_owned))?;
    ears.listen(1)?;
    mouth.say("hello to you")?;
    other.finish()
}

struct Mouth<'e> {
    endpoint: &'e Endpoint<UdQueuePair>,
    /// The group, or one member.
    to: AddressHandle,
    name: String,
}

impl Mouth<'_> {
    /// Sends a line of text.
    fn say(&self, text: &str) -> Result<()> {
        let line = format!("{}: {text}", self.name);
        // A datagram is one packet; longer lines are cut.
        let len = line.len().min(self.endpoint.max_message_bytes() as usize);
        let buffer = self.endpoint.allocate(len)?.with(&line.as_bytes()[..len]);
        self.endpoint.send_to(buffer, &self.to).wait(PATIENCE)?;
        Ok(())
    }
}

struct Ears<'e> {
    endpoint: &'e Endpoint<UdQueuePair>,
    posted: std::collections::VecDeque<InFlight<Message>>,
}

impl<'e> Ears<'e> {
    /// Posts buffers for received messages. Messages that find no buffer are lost.
    fn open(endpoint: &'e Endpoint<UdQueuePair>) -> Result<Ears<'e>> {
        let len = endpoint.max_message_bytes() as usize;
        let buffers = endpoint.protection_domain().allocate_many(LINES_AHEAD, len)?;
        let posted = buffers.into_iter().map(|buffer| endpoint.recv(buffer).start()).collect();
        Ok(Ears { endpoint, posted })
    }

    /// Prints the messages of other members; returns after `messages` of them.
    fn listen(mut self, messages: usize) -> Result<()> {
        let (start, mut heard) = (Instant::now(), 0);
        while heard < messages {
            let Some(mut next) = self.posted.pop_front() else { return Err("deaf".into()) };
            let Some(message) = next.wait_for(PATIENCE) else {
                if messages != usize::MAX && start.elapsed() > PATIENCE {
                    return Err("nobody says anything".into());
                }
                self.posted.push_front(next);
                continue;
            };
            let message = message?;
            let source = message.source().copied();
            if source != Some(self.endpoint.address_handle()) {
                let from = source.map_or("?".into(), |s| format!("{}, {}", s.gid().ip(), s.qpn()));
                println!("{}   [{from}]", String::from_utf8_lossy(&message).escape_debug());
                heard += 1;
            }
            self.posted.push_back(self.endpoint.recv(message.into_buffer()).start());
        }
        Ok(())
    }
}
