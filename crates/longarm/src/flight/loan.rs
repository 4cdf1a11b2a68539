//! Loans: the memory that a work request lends to the device.

use transport::{Payload, Sge, Sgl};
use wire::QKey;

use crate::buffer::Buffer;
use crate::domain::DomainId;
use crate::region::RegionSlice;
use crate::scratch::ScratchPiece;
use crate::window::WindowCore;

/// Memory that a work request has lent to the device.
#[derive(Debug, Default)]
pub(crate) enum Loan {
    /// No memory: inline data, an invalidate.
    #[default]
    None,
    /// One buffer.
    Buffer(Buffer),
    /// A list of buffers.
    List(Vec<Buffer>),
    /// Part of a region that peers reach too.
    Region(RegionSlice),
    /// The place of an atomic's result.
    Word(ScratchPiece),
    /// A datagram's receive buffer, with a place for the GRH in front of it, and the Q_Key
    /// that senders use.
    Datagram(ScratchPiece, Buffer, QKey),
    /// A memory window that is being bound or unbound.
    Window(WindowCore),
}

impl Loan {
    /// The list that a send or write names: the buffers' contents.
    pub(crate) fn gather(&self) -> Payload {
        Payload::Sgl(match self {
            Loan::None | Loan::Window(_) => Sgl::new(),
            Loan::Buffer(buffer) => one(buffer.contents()),
            Loan::List(list) => list.iter().map(Buffer::contents).collect(),
            Loan::Region(slice) => one(slice.sge()),
            Loan::Word(scratch) => one(scratch.sge(8)),
            Loan::Datagram(_, buffer, _) => one(buffer.contents()),
        })
    }

    /// The list that a receive names: the buffers' whole room.
    pub(crate) fn scatter(&self) -> Sgl {
        match self {
            Loan::Buffer(buffer) => one(buffer.room()),
            Loan::Datagram(grh, buffer, _) => [grh.sge(GRH_BYTES), buffer.room()].into_iter().collect(),
            _ => Sgl::new(),
        }
    }

    /// Bytes that the lists of [`gather`](Loan::gather) name.
    pub(crate) fn len_bytes(&self) -> u64 {
        match self {
            Loan::Buffer(buffer) => buffer.len() as u64,
            Loan::List(list) => list.iter().map(|b| b.len() as u64).sum(),
            Loan::Region(slice) => slice.len_bytes(),
            _ => 0,
        }
    }

    /// The capacity in bytes.
    pub(crate) fn capacity_bytes(&self) -> u64 {
        match self {
            Loan::Buffer(buffer) => buffer.capacity() as u64,
            Loan::List(list) => list.iter().map(|b| b.capacity() as u64).sum(),
            other => other.len_bytes(),
        }
    }

    /// Sets the length of the contents to `len_bytes`, filling the buffers in order.
    /// The device never reports more than there is room for; more is cut off.
    pub(crate) fn set_len(&mut self, mut len_bytes: u64) {
        for buffer in self.buffers_mut() {
            let here = len_bytes.min(buffer.capacity() as u64);
            buffer.set_len(here as usize);
            len_bytes -= here;
        }
    }

    /// True if queue pairs of that protection domain may use all of it.
    pub(crate) fn is_of(&self, domain: DomainId) -> bool {
        match self {
            Loan::Buffer(buffer) | Loan::Datagram(_, buffer, _) => buffer.domain_id() == domain,
            Loan::List(list) => list.iter().all(|b| b.domain_id() == domain),
            Loan::Region(slice) => slice.domain_id() == domain,
            Loan::Window(window) => window.domain_id() == domain,
            Loan::None | Loan::Word(_) => true,
        }
    }

    pub(crate) fn buffer(&self) -> Option<&Buffer> {
        match self {
            Loan::Buffer(buffer) | Loan::Datagram(_, buffer, _) => Some(buffer),
            Loan::List(list) => list.first(),
            _ => None,
        }
    }

    fn buffers_mut(&mut self) -> &mut [Buffer] {
        match self {
            Loan::Buffer(buffer) | Loan::Datagram(_, buffer, _) => std::slice::from_mut(buffer),
            Loan::List(list) => list,
            _ => &mut [],
        }
    }

    pub(crate) fn into_buffers(self) -> Vec<Buffer> {
        match self {
            Loan::Buffer(buffer) | Loan::Datagram(_, buffer, _) => vec![buffer],
            Loan::List(list) => list,
            _ => Vec::new(),
        }
    }
}

/// The room that a datagram's GRH takes in front of a receive buffer.
pub(crate) const GRH_BYTES: u32 = 40;

fn one(sge: Sge) -> Sgl {
    std::iter::once(sge).collect()
}

mod sealed {
    use super::Loan;

    pub trait Loanable: Sized {
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn lend(self) -> Loan;
        #[doc(hidden)]
        #[allow(private_interfaces)]
        fn regain(loan: Loan) -> Option<Self>;
    }
}

pub(crate) use sealed::Loanable;

/// Memory that can be lent to the device: a [`Buffer`], several of them as one message
/// (`[Buffer; N]`, `Vec<Buffer>`), or a [`RegionSlice`].
///
/// The lender gets the same thing back with the completion.
///
/// ```no_run
/// # use std::time::Duration;
/// # fn example(qp: longarm::QueuePair, header: longarm::Buffer, body: longarm::Buffer) -> Result<(), Box<dyn std::error::Error>> {
/// let [header, body] = qp.send([header, body]).wait(Duration::from_secs(5))?;     // one message
/// # Ok(())
/// # }
/// ```
pub trait Lend: sealed::Loanable {}

impl Lend for Buffer {}
impl Lend for Vec<Buffer> {}
impl<const N: usize> Lend for [Buffer; N] {}
impl Lend for RegionSlice {}

impl sealed::Loanable for Buffer {
    #[allow(private_interfaces)]
    fn lend(self) -> Loan {
        Loan::Buffer(self)
    }

    #[allow(private_interfaces)]
    fn regain(loan: Loan) -> Option<Buffer> {
        loan.into_buffers().into_iter().next()
    }
}

impl sealed::Loanable for Vec<Buffer> {
    #[allow(private_interfaces)]
    fn lend(self) -> Loan {
        Loan::List(self)
    }

    #[allow(private_interfaces)]
    fn regain(loan: Loan) -> Option<Vec<Buffer>> {
        Some(loan.into_buffers())
    }
}

impl<const N: usize> sealed::Loanable for [Buffer; N] {
    #[allow(private_interfaces)]
    fn lend(self) -> Loan {
        Loan::List(self.into())
    }

    #[allow(private_interfaces)]
    fn regain(loan: Loan) -> Option<[Buffer; N]> {
        loan.into_buffers().try_into().ok()
    }
}

impl sealed::Loanable for RegionSlice {
    #[allow(private_interfaces)]
    fn lend(self) -> Loan {
        Loan::Region(self)
    }

    #[allow(private_interfaces)]
    fn regain(loan: Loan) -> Option<RegionSlice> {
        match loan {
            Loan::Region(slice) => Some(slice),
            _ => None,
        }
    }
}
