//! Processors near a network card, and those that handle its interrupts.

use std::collections::BTreeSet;
use std::fs;

use super::affinity::{allowed, read_list};
use crate::units::show_list;

/// Usable processors of the NUMA nodes of these interfaces, as a list; empty if unknown.
pub(crate) fn near(names: &[String]) -> String {
    let lists = names.iter().filter_map(|name| {
        let path = format!("/sys/class/net/{name}/device/local_cpulist");
        read_list(&path)
    });
    show_usable(lists)
}

/// Usable processors that handle interrupts of these interfaces, as a list; empty if unknown.
pub(crate) fn handlers(names: &[String]) -> String {
    let table = fs::read_to_string("/proc/interrupts").unwrap_or_default();
    let of_cards = names.iter().flat_map(|name| {
        let folder = fs::read_dir(format!("/sys/class/net/{name}/device/msi_irqs"));
        folder.into_iter().flatten().flatten()
    });
    let of_cards = of_cards.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    let numbers = interrupts_of(&table, names, &of_cards.collect());
    let lists = numbers.into_iter().filter_map(|number| {
        // Where the kernel does not report the processor in use, it reports those that it may choose.
        let read = |file: &str| read_list(&format!("/proc/irq/{number}/{file}"));
        let in_use = read("effective_affinity_list").filter(|list| !list.is_empty());
        in_use.or_else(|| read("smp_affinity_list"))
    });
    show_usable(lists)
}

fn show_usable(lists: impl Iterator<Item = Vec<usize>>) -> String {
    let listed: BTreeSet<usize> = lists.flatten().collect();
    let usable = allowed().into_iter().filter(|one| listed.contains(one));
    show_list(&usable.collect::<Vec<usize>>())
}

/// Interrupts in the kernel's table that have occurred and belong to interfaces: those of their cards, and those that have their names.
fn interrupts_of(table: &str, names: &[String], of_cards: &BTreeSet<u32>) -> Vec<u32> {
    let is_named = |word: &str| {
        let mut names = names.iter();
        names.any(|name| {
            let rest = word.strip_prefix(name.as_str());
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['-', ':', '@']))
        })
    };
    let of_line = |line: &str| {
        let mut words = line.split_whitespace();
        let number = words.next()?.strip_suffix(':')?.parse().ok()?;
        let (mut occurred, mut named) = (false, false);
        let mut counts = true;
        for word in words {
            let count: Option<u64> = word.parse().ok().filter(|_| counts);
            counts &= count.is_some();
            occurred |= count.is_some_and(|count| count > 0);
            named |= !counts && is_named(word);
        }
        (occurred && (named || of_cards.contains(&number))).then_some(number)
    };
    table.lines().filter_map(of_line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "           CPU0       CPU1
  24:          1          0  IO-APIC   5-edge      ACPI:Ged
  41:        120          0  PCI-MSIX-0000:41:00.0   0-edge      mlx5_async0@pci:0000:41:00.0
  42:          0   98765432  PCI-MSIX-0000:41:00.0   1-edge      mlx5_comp0@pci:0000:41:00.0
  43:          0          0  PCI-MSIX-0000:41:00.0   2-edge      mlx5_comp1@pci:0000:41:00.0
  51:         10          7  PCI-MSI 524288-edge      ens1f0-TxRx-0
  52:         10          7  PCI-MSI 524289-edge      ens1f01-TxRx-0
 NMI:          3          4   Non-maskable interrupts
 ERR:          0
";

    #[test]
    fn interrupts_of_a_card_are_those_of_its_device_and_of_its_name_that_have_occurred() {
        let of = |name: &str, of_card: &[u32]| {
            let of_card = of_card.iter().copied().collect();
            interrupts_of(TABLE, &[name.to_owned()], &of_card)
        };
        assert_eq!(of("enp65s0", &[41, 42, 43]), [41, 42]);
        assert_eq!(of("ens1f0", &[]), [51]);
        assert_eq!(of("eth0", &[]), [0; 0]);
        assert_eq!(interrupts_of("", &[], &BTreeSet::new()), [0; 0]);
    }

    #[test]
    fn an_interface_without_a_card_has_no_processors() {
        let names = ["lo".to_owned()];
        assert_eq!(
            (near(&names), handlers(&names)),
            (String::new(), String::new())
        );
    }
}
