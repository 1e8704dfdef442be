//! The words of `pipebench check`.

use super::RunArguments;

/// What the long help says.
pub(super) const LONG: &str = "Checks hosts, ports and pairs before a run. It contacts every host, links every pair of data ports, and passes one full packet over \
    each link, to find paths with a smaller MTU. It compares kernels, drivers, firmware, speeds, MTU, PCIe and settings, and marks hosts that differ. \
    It compares speed and MTU with the specified values, reads error counters before and after, and names offloads, rings and queues that cost rate, with \
    the command that mends them.\n\n\
    Takes a plan file (`pipebench check plan.toml`), or the options of pipebench without a command \
    (`pipebench check --hostfile cluster.txt --link-speed 25G --mtu 9000`). It names hosts that cannot be reached, and checks the others.\n\n\
    Exit codes: 0 ready; 1 a port has the wrong speed or MTU; 2 bad usage; 10 a host cannot be reached; others as for a run.";

/// The command, which takes with a plan file the options that `run` takes with one, and refuses those that a plan has.
pub(super) fn plan_or_options(command: clap::Command) -> clap::Command {
    let run = <RunArguments as clap::Args>::augment_args(clap::Command::new("run"));
    command.mut_args(|word| {
        let mut of_run = run.get_arguments();
        match of_run.any(|known| known.get_id() == word.get_id()) {
            true => word,
            false => word.conflicts_with("plan"),
        }
    })
}
