//! Fabrics and plans of latencies from any source: descriptions, output of ibnetdiscover, forwarding tables, tables of ports.

use latency::fabric::{Draft, Fabric, FabricError};
use latency::import::{self, Topology};
use latency::{description, planfile};

use super::one_line;
use crate::driver::magnitude;

pub const WORDS: &[&str] = &[
    "version = 1\n",
    "hosts = [\"a\", \"b\"]\n",
    "switches = [\"s\"]\n",
    "[[cables]]\nlist = [[\"a\", \"s\"], [\"b\", \"s\"]]\n",
    "[routes]\nrule = \"symmetric\"\n",
    "[[tables]]\nswitch = \"s\"\nother = \"b\"\n",
    "[[paths]]\nfrom = \"a\"\nto = \"b\"\nvia = [\"a-s\", \"b-s\"]\n",
    "Switch\t2 \"S-1\"\t# \"x\"\n[1]\t\"H-2\"[1](3)\t# \"n1\" lid 2\n",
    "Ca\t1 \"H-2\"\t# \"n1 mlx5_0\"\n[1](3)\t\"S-1\"[1]\t# lid 2 lmc 0\n",
    "Unicast lids [0x0-0x2] of switch Lid 1 guid 0x1 (x):\n0x0002 001 : (x)\n",
    "host,switch,port,name,class,cost\na,s,1,,,\nb,s,2,,,\n",
];

pub fn run(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let described = shape(description::read(&text));
    let found = Topology::read(&text);
    let by_rule = shape(
        found
            .as_ref()
            .map(|found| found.by_rule("destination-mod"))
            .map_err(Clone::clone),
    );
    let by_tables = shape(found.and_then(|found| found.by_tables(&text)));
    let ports = shape(import::table(&text, "symmetric"));
    format!("{described}; {by_rule}; {by_tables}; {ports}")
}

/// Checks a fabric: writing and reading it gives the same fabric, each pair has a route, and it refuses an invalid plan.
fn shape(draft: Result<Draft, FabricError>) -> String {
    let sound = draft.and_then(|draft| Fabric::new(&draft).map(|fabric| (draft, fabric)));
    let (draft, fabric) = match sound {
        Ok(sound) => sound,
        Err(error) => {
            let text = one_line(&error.what, 1000);
            return text
                .split_whitespace()
                .take(2)
                .collect::<Vec<_>>()
                .join(" ");
        }
    };
    let again = description::read(&description::write(&draft)).expect("it was written here");
    let other = Fabric::new(&again).expect("it was sound before");
    assert_eq!(
        (&other.hosts, &other.cables),
        (&fabric.hosts, &fabric.cables)
    );
    let hosts = u32::try_from(fabric.hosts.len().min(8)).expect("few");
    let (mut hops, mut same) = (Vec::new(), Vec::new());
    for from in 0..hosts {
        for to in (0..hosts).filter(|to| *to != from) {
            fabric.route(from, to, &mut hops);
            other.route(from, to, &mut same);
            assert!(hops.len() >= 2 && hops == same);
            assert_eq!(fabric.target(hops[hops.len() - 1]), to);
        }
    }
    assert!(planfile::read(&fabric, "version = 1").is_err());
    format!("fabric of {}", magnitude(fabric.hosts.len()))
}
