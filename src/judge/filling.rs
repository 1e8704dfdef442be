//! Max-min fair filling: computes the rates of links when each gets as much as the narrowest place on its route leaves it.
//!
//! All rates grow together. When a place is full, the links through it keep their rate, and the others grow further
//! (Bertsekas and Gallager, Data Networks, 6.5.2). A link's weight is the number of its connections, among which places are
//! shared.

/// A link, or a chain of links that run at one rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Flow {
    /// Numbers of the places on its route. A place that the flow passes twice is listed twice.
    pub route: Vec<usize>,
    /// Number of connections.
    pub weight: f64,
    /// Maximum rate; infinite without a limit.
    pub cap: f64,
}

/// Rates of flows through places with these capacities, in the unit of the capacities.
pub fn fill(capacities: &[f64], flows: &[Flow]) -> Vec<f64> {
    /// Places that fill up at nearly the same level count as full together.
    const SAME: f64 = 1.0 + 1e-9;
    let mut rates = vec![0.0; flows.len()];
    let mut left = capacities.to_vec();
    // Number of connections through each place that still grow.
    let mut growing = vec![0.0; capacities.len()];
    // Number of flows through each place; later the end of the place's part of `through`.
    let mut ends = vec![0_usize; capacities.len()];
    for flow in flows {
        for place in &flow.route {
            growing[*place] += flow.weight;
            ends[*place] += 1;
        }
    }
    if ends.iter().all(|flows| *flows <= 1) {
        // No place is shared, so each flow is as fast as the narrowest place on its route.
        let alone = |flow: &Flow| {
            let places = flow.route.iter().map(|place| capacities[*place]);
            places.fold(flow.cap, f64::min)
        };
        return flows.iter().map(alone).collect();
    }
    let mut sum = 0;
    for end in &mut ends {
        sum += std::mem::replace(end, sum);
    }
    let mut through = vec![0_usize; sum];
    for (number, flow) in flows.iter().enumerate() {
        for place in &flow.route {
            through[ends[*place]] = number;
            ends[*place] += 1;
        }
    }
    let through = |place: usize| {
        let first = place.checked_sub(1).map_or(0, |before| ends[before]);
        &through[first..ends[place]]
    };
    let full_at = |flow: &Flow| flow.cap / flow.weight;
    let capped = (0..flows.len()).filter(|number| flows[*number].cap.is_finite());
    let mut capped: Vec<usize> = capped.collect();
    capped.sort_by(|a, b| full_at(&flows[*a]).total_cmp(&full_at(&flows[*b])));
    let mut capped = capped.into_iter().peekable();
    let mut grows = vec![true; flows.len()];
    let mut remaining = flows.len();
    let mut open: Vec<usize> = (0..left.len()).collect();
    let mut stopped = Vec::new();
    while remaining > 0 {
        while capped.next_if(|number| !grows[*number]).is_some() {}
        let of_flows = capped
            .peek()
            .map_or(f64::INFINITY, |number| full_at(&flows[*number]));
        open.retain(|place| growing[*place] > 1e-12);
        let level_of = |place: usize| (left[place] / growing[place]).max(0.0);
        let of_places = open.iter().map(|place| level_of(*place));
        let level = of_flows.min(of_places.fold(f64::INFINITY, f64::min));
        stopped.clear();
        for place in open
            .iter()
            .filter(|place| level_of(**place) <= level * SAME)
        {
            stopped.extend(through(*place).iter().filter(|number| grows[**number]));
        }
        while let Some(number) =
            capped.next_if(|number| !grows[*number] || full_at(&flows[*number]) <= level * SAME)
        {
            stopped.push(number);
        }
        if level.is_infinite() || stopped.is_empty() {
            // Nothing limits the remaining flows.
            stopped = (0..flows.len()).filter(|number| grows[*number]).collect();
        }
        for number in &stopped {
            if !std::mem::replace(&mut grows[*number], false) {
                continue;
            }
            let flow = &flows[*number];
            rates[*number] = (flow.weight * level).min(flow.cap);
            remaining -= 1;
            for place in &flow.route {
                left[*place] -= rates[*number];
                growing[*place] -= flow.weight;
            }
        }
    }
    rates
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn flow(route: &[usize]) -> Flow {
        Flow {
            route: route.to_vec(),
            weight: 1.0,
            cap: f64::INFINITY,
        }
    }

    #[test]
    fn the_example_of_the_textbook() {
        // Three flows share the first place. One of them and a fourth share the second.
        let flows = [flow(&[0]), flow(&[0]), flow(&[0, 1]), flow(&[1])];
        let sixths: Vec<f64> = fill(&[1.0, 1.0], &flows)
            .iter()
            .map(|rate| (rate * 6.0).round())
            .collect();
        assert_eq!(sixths, [2.0, 2.0, 2.0, 4.0]);
    }

    #[test]
    fn weights_share_and_caps_leave_room() {
        let mut flows = [flow(&[0]), flow(&[0])];
        flows[0].weight = 3.0;
        assert_eq!(fill(&[8.0], &flows), [6.0, 2.0]);
        flows[0].cap = 1.0;
        assert_eq!(fill(&[8.0], &flows), [1.0, 7.0]);
        // A flow through one place twice gets half of it.
        assert_eq!(fill(&[8.0], &[flow(&[0, 0])]), [4.0]);
        assert_eq!(fill(&[f64::INFINITY], &[flow(&[0])]), [f64::INFINITY]);
        assert_eq!(fill(&[0.0, 1.0], &[flow(&[0]), flow(&[1])]), [0.0, 1.0]);
    }

    proptest! {
        /// Definition of max-min fairness: no place is overfull, and every flow passes a full place at which no other flow has more per
        /// connection.
        #[test]
        fn every_flow_has_a_bottleneck(
            capacities in proptest::collection::vec(1.0_f64..100.0, 1..8),
            routes in proptest::collection::vec((proptest::collection::btree_set(0_usize..8, 1..4), 1_u8..5), 1..30),
        ) {
            let flows: Vec<Flow> = routes
                .iter()
                .map(|(route, weight)| Flow {
                    route: route.iter().map(|place| place % capacities.len()).collect::<std::collections::BTreeSet<_>>().into_iter().collect(),
                    weight: f64::from(*weight),
                    cap: f64::INFINITY,
                })
                .collect();
            let rates = fill(&capacities, &flows);
            let used = |place: usize| -> f64 {
                let through = flows.iter().zip(&rates).filter(|(flow, _)| flow.route.contains(&place));
                through.map(|(_, rate)| rate).sum()
            };
            for (place, capacity) in capacities.iter().enumerate() {
                prop_assert!(used(place) <= capacity * 1.000_001);
            }
            for (flow, rate) in flows.iter().zip(&rates) {
                let level = rate / flow.weight;
                let is_bottleneck = |place: &usize| {
                    let full = used(*place) >= capacities[*place] * 0.999_999;
                    let mut others = flows.iter().zip(&rates).filter(|(other, _)| other.route.contains(place));
                    full && others.all(|(other, rate)| rate / other.weight <= level * 1.000_001)
                };
                prop_assert!(flow.route.iter().any(is_bottleneck), "{:?} {rates:?}", flow);
            }
        }
    }
}
