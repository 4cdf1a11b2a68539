//! The way from the root to the node that holds an aim, as a state machine.
//!
//! ```text
//!  pointer ─► node: of that number, whole
//!               ├─ replaced, or the aim is above its fences ─► its link
//!               ├─ the aim is inside, and its level is wanted ─► there
//!               ├─ the aim is inside ─► its child
//!               └─ anything else ─► lost: begin at the root again
//! ```
//! A live node whose fences hold the aim is right, whatever the way there was. So the way may lead over copies of inner nodes that
//! are old.

use crate::lookup::ReadRequest;
use crate::tree::cache::NodeCache;
use crate::tree::node::{Aim, AimedAt, NodeView};
use crate::tree::pointer::{NODE_BYTES, NodePointer, NodeState};
use crate::tree::separator::{KnownOrder, LongSeparator, separator_hash};

/// Nodes and separators on one way, before it is given up.
const STEPS: u32 = 256;

/// The next step of a descent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DescentStep {
    /// These bytes are wanted.
    Read(ReadRequest),
    /// The descent is at the wanted node.
    There,
    /// A node was not what its pointer says.
    Lost,
}

#[derive(Clone, Copy, Debug)]
enum Wanted {
    Nothing,
    Node,
    Separator(LongSeparator),
}

/// The tree that a descent is in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TreePlace {
    pub(crate) salt: u64,
    pub(crate) memory_bytes: u64,
}

/// A descent to the node of a level that holds an aim.
#[derive(Debug)]
pub(crate) struct Descent {
    place: TreePlace,
    /// Wanted level.
    level: u8,
    uses_cache: bool,
    pointer: NodePointer,
    /// The node that has led here.
    parent: NodePointer,
    /// The bytes of the node at `pointer`.
    node: Vec<u8>,
    /// Answers of comparisons with long separators.
    known: Vec<KnownOrder>,
    wanted: Wanted,
    steps: u32,
    /// True if the first pointer led to a node that is no longer the root.
    root_moved: bool,
}

impl Descent {
    pub(crate) fn new() -> Descent {
        Descent {
            place: TreePlace { salt: 0, memory_bytes: 0 },
            level: 0,
            uses_cache: false,
            pointer: NodePointer::NONE,
            parent: NodePointer::NONE,
            node: vec![0; NODE_BYTES as usize],
            known: Vec::new(),
            wanted: Wanted::Nothing,
            steps: 0,
            root_moved: false,
        }
    }

    /// Begins at a node. `level` is the wanted level.
    pub(crate) fn start(
        &mut self,
        place: TreePlace,
        (from, level): (NodePointer, u8),
        aim: Aim<'_>,
        cache: Option<&mut NodeCache>,
    ) -> DescentStep {
        (self.place, self.level, self.uses_cache) = (place, level, cache.is_some());
        (self.parent, self.steps, self.root_moved) = (NodePointer::NONE, 0, false);
        self.known.clear();
        let mut none = NodeCache::new(0);
        self.arrive(from, aim, cache.unwrap_or(&mut none))
    }

    /// Takes the bytes that the last step asked for.
    pub(crate) fn feed(&mut self, aim: Aim<'_>, bytes: &[u8], cache: &mut NodeCache) -> DescentStep {
        match std::mem::replace(&mut self.wanted, Wanted::Nothing) {
            Wanted::Nothing => DescentStep::Lost,
            Wanted::Node => {
                let Some(view) = NodeView::open(bytes, self.place.salt, self.pointer) else {
                    return self.lost(cache);
                };
                if view.header().state() == NodeState::Live && view.header().level() > 0 {
                    cache.put(self.pointer, bytes);
                }
                self.node.copy_from_slice(bytes);
                self.look(aim, cache)
            }
            Wanted::Separator(long) => {
                if separator_hash(self.place.salt, bytes) != long.hash {
                    return self.lost(cache);
                }
                self.known.push((long.hash, aim.key().cmp(bytes)));
                self.look(aim, cache)
            }
        }
    }

    /// The bytes of the node where it is.
    pub(crate) fn view(&self) -> Option<NodeView<'_>> {
        NodeView::trusted(&self.node)
    }

    /// The pointer to that node.
    pub(crate) fn pointer(&self) -> NodePointer {
        self.pointer
    }

    pub(crate) fn root_moved(&self) -> bool {
        self.root_moved
    }

    fn arrive(&mut self, pointer: NodePointer, aim: Aim<'_>, cache: &mut NodeCache) -> DescentStep {
        self.pointer = pointer;
        if self.uses_cache
            && let Some(bytes) = cache.get(pointer)
        {
            self.node.copy_from_slice(bytes);
            return self.look(aim, cache);
        }
        self.wanted = Wanted::Node;
        self.read(pointer.at(), NODE_BYTES, cache)
    }

    fn read(&mut self, at: u64, len_bytes: u64, cache: &mut NodeCache) -> DescentStep {
        self.steps += 1;
        let is_inside = at != 0 && at.checked_add(len_bytes).is_some_and(|end| end <= self.place.memory_bytes);
        if !is_inside || self.steps > STEPS {
            self.wanted = Wanted::Nothing;
            return self.lost(cache);
        }
        DescentStep::Read(ReadRequest { at, len_bytes })
    }

    fn lost(&mut self, cache: &mut NodeCache) -> DescentStep {
        self.parent_is_old(cache);
        DescentStep::Lost
    }

    /// The parent may be an old copy: the next descent reads it again.
    fn parent_is_old(&mut self, cache: &mut NodeCache) {
        self.root_moved |= self.parent.is_none();
        cache.forget(self.parent);
    }

    /// Looks at the node, and goes on.
    fn look(&mut self, aim: Aim<'_>, cache: &mut NodeCache) -> DescentStep {
        self.steps += 1;
        let (next, is_hop) = match self.next(aim) {
            Ok(Some(NextNode::Here)) => return DescentStep::There,
            Ok(Some(NextNode::Link(next))) => (next, true),
            Ok(Some(NextNode::Child(next))) => (next, false),
            Ok(None) => return self.lost(cache),
            Err(long) => {
                self.wanted = Wanted::Separator(long);
                return self.read(long.at, u64::from(long.len_bytes), cache);
            }
        };
        if self.steps > STEPS {
            return self.lost(cache);
        }
        if is_hop {
            self.parent_is_old(cache);
        } else {
            self.parent = self.pointer;
        }
        self.arrive(next, aim, cache)
    }

    /// The node after this one.
    fn next(&self, aim: Aim<'_>) -> Result<Option<NextNode>, LongSeparator> {
        let Some(view) = self.view() else { return Ok(None) };
        let link = Ok(Some(NextNode::Link(view.link())));
        match view.header().state() {
            NodeState::Nothing => return Ok(None),
            NodeState::Replaced => return link,
            NodeState::Live => {}
        }
        match view.locate(aim, &self.known)? {
            None | Some(AimedAt::Below) => Ok(None),
            Some(AimedAt::Above) => link,
            Some(AimedAt::Inside) if view.header().level() == self.level => Ok(Some(NextNode::Here)),
            Some(AimedAt::Inside) if view.header().level() < self.level => Ok(None),
            Some(AimedAt::Inside) => {
                let number = view.choose(aim, &self.known)?;
                Ok(number.and_then(|number| view.child(number)).map(NextNode::Child))
            }
        }
    }
}

enum NextNode {
    Here,
    Link(NodePointer),
    Child(NodePointer),
}
