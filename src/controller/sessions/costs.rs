//! Estimates of what a gigabyte costs hosts, before the first test.

use crate::record::HostCost;
use crate::wire::message::ToNode;

use super::{Halt, Sessions};

impl Sessions {
    /// Lets nodes estimate what a gigabyte costs their hosts, all at the same time, and returns the estimates. A run can do without them.
    pub(crate) fn estimate(&mut self, nodes: &[usize]) -> Result<Vec<Option<HostCost>>, Halt> {
        const LIMIT_MS: u64 = 5_000;
        for node in nodes {
            self.send(*node, &ToNode::Estimate);
        }
        self.await_condition("estimate its CPU cost", LIMIT_MS, |all| {
            let mut asked = nodes.iter().map(|node| &all.nodes[*node]);
            asked.all(|node| node.life.gone || node.test.has_estimated)
        })?;
        let cost = |node: &usize| self.nodes[*node].facts()?.cost;
        Ok(nodes.iter().map(cost).collect())
    }
}
