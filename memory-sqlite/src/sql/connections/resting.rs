//! Idle connections, in order of their last use.

use std::collections::{HashMap, VecDeque};

use memory_core::ScopeDigest;

use super::connection::Conn;
use crate::sandbox::Role;

pub(super) type Slot = (ScopeDigest, Role);

/// Idle connections, in the order they were returned.
#[derive(Debug, Default)]
pub(super) struct Shelf {
    connections: HashMap<Slot, Vec<(u64, Conn)>>,
    /// Some of these are no longer in the pool.
    order: VecDeque<(u64, Slot)>,
    pub(super) count: usize,
    next: u64,
}

impl Shelf {
    pub(super) fn take(&mut self, slot: Slot) -> Option<Conn> {
        let of_slot = self.connections.get_mut(&slot)?;
        let (_, conn) = of_slot.pop()?;
        if of_slot.is_empty() {
            self.connections.remove(&slot);
        }
        self.count -= 1;
        Some(conn)
    }

    pub(super) fn put(&mut self, conn: Conn) {
        let slot = (conn.state.digest, conn.role);
        self.next += 1;
        self.connections.entry(slot).or_default().push((self.next, conn));
        self.order.push_back((self.next, slot));
        self.count += 1;
        // Entries of taken connections stay in the queue for a while. This keeps it short at amortised constant cost.
        if self.order.len() > 2 * self.count + 64 {
            let connections = &self.connections;
            self.order.retain(|(number, slot)| {
                connections.get(slot).is_some_and(|found| found.iter().any(|(at, _)| at == number))
            });
        }
    }

    pub(super) fn oldest(&mut self) -> Option<Conn> {
        while let Some((number, slot)) = self.order.pop_front() {
            let Some(of_slot) = self.connections.get_mut(&slot) else { continue };
            let Some(at) = of_slot.iter().position(|(found, _)| *found == number) else { continue };
            let (_, conn) = of_slot.remove(at);
            if of_slot.is_empty() {
                self.connections.remove(&slot);
            }
            self.count -= 1;
            return Some(conn);
        }
        None
    }
}

/// Recently used connections keep their caches; the others keep little.
#[derive(Debug, Default)]
pub(super) struct Resting {
    pub(super) warm: Shelf,
    pub(super) cold: Shelf,
}
