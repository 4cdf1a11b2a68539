//! The mix of operations that applications ask for.

use faults::Rng;
use transport::QpType;

/// A kind of request.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Kind {
    /// SEND.
    Send,
    /// SEND with immediate.
    SendImm,
    /// SEND with invalidate of a window that the peer has opened.
    SendInvalidate,
    /// WRITE.
    Write,
    /// WRITE with immediate.
    WriteImm,
    /// READ.
    Read,
    /// READ of an object at one moment.
    ObjectRead,
    /// Fetch and add on a word that only this queue pair uses.
    PrivateAdd,
    /// Compare and swap on such a word.
    PrivateSwap,
    /// Fetch and add on a word that all queue pairs use.
    SharedAdd,
    /// Compare and swap on such a word.
    SharedSwap,
    /// WRITE of a number that only grows, to a place of its own: whoever is told of a later
    /// message must find it there.
    Ticket,
    /// ATOMIC WRITE of a word.
    AtomicWrite,
    /// FLUSH of a range or of all.
    Flush,
    /// Bind a window for the peer.
    OpenWindow,
    /// Invalidate or unbind it.
    CloseWindow,
}

/// Kinds with their weights.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mix(Vec<(Kind, u64)>);

impl Mix {
    /// Everything that a service can do.
    pub fn all(service: QpType) -> Mix {
        use Kind::*;
        let (rc, uc) = (service == QpType::Rc, service != QpType::Ud);
        let only = |can: bool, weight: u64| if can { weight } else { 0 };
        let weights = [
            (Send, 20),
            (SendImm, 10),
            (SendInvalidate, only(rc, 6)),
            (Write, only(uc, 22)),
            (WriteImm, only(uc, 10)),
            (Read, only(rc, 20)),
            (ObjectRead, only(rc, 8)),
            (PrivateAdd, only(rc, 5)),
            (PrivateSwap, only(rc, 5)),
            (SharedAdd, only(rc, 6)),
            (SharedSwap, only(rc, 6)),
            (Ticket, only(rc, 6)),
            (AtomicWrite, only(rc, 6)),
            (Flush, only(rc, 6)),
            (OpenWindow, only(uc, 5)),
            (CloseWindow, only(uc, 4)),
        ];
        Mix(weights.into_iter().filter(|(_, weight)| *weight > 0).collect())
    }

    /// These kinds, each as often. A kind that is not possible at a moment becomes a SEND.
    pub fn only(kinds: &[Kind]) -> Mix {
        Mix(kinds.iter().map(|kind| (*kind, 1)).collect())
    }

    /// One of them.
    pub(crate) fn draw(&self, rng: &mut Rng) -> Kind {
        let total = self.0.iter().map(|(_, weight)| weight).sum::<u64>();
        let mut at = rng.below(total.max(1));
        for (kind, weight) in &self.0 {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *kind,
            }
        }
        Kind::Send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_drawn_and_no_other() {
        let mut rng = Rng::new(1);
        for (service, kinds) in [(QpType::Rc, 16), (QpType::Uc, 6), (QpType::Ud, 2)] {
            let mix = Mix::all(service);
            let mut drawn = Vec::new();
            for _ in 0..2000 {
                let kind = mix.draw(&mut rng);
                if !drawn.contains(&kind) {
                    drawn.push(kind);
                }
            }
            assert_eq!(drawn.len(), kinds, "{service:?}");
        }
        let only = Mix::only(&[Kind::Read]);
        assert!((0..10).all(|_| only.draw(&mut rng) == Kind::Read));
    }
}
