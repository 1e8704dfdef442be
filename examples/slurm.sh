#!/bin/sh
#SBATCH --job-name=pipebench
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=00:15:00
# Loads the ports of all nodes of a job at the same time.
#
#   sbatch examples/slurm.sh
#
# Without a batch script, type this and then a pipebench command with --rsh, as below:
#   salloc --nodes=4 --exclusive
#
# --hosts auto takes the job's node list. srun starts each node as a job step, so that the nodes need no SSH and their
# processes get the CPUs of the job: --overlap lets the steps share these CPUs with this script, and
# --cpu-bind=none lets the kernel place the senders and receivers. --exclusive gives the job all cores.
set -eu

# Folder of pipebench; the executable copies itself to the nodes.
PATH=$HOME/bin:$PATH
out=${SLURM_SUBMIT_DIR:-.}/results

rsh='srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none -w %h'

# Words for every run. Data go to the first interface's address of each node unless --data-network is given.
set -- --hosts auto --rsh "$rsh" --time 60s
# set -- "$@" --data-network 10.1.0.0/16
# The specified rate of a port, and an exit code other than 0 for a run that is not judged:
# set -- "$@" --link-speed 25G --fail-unless-judged

# Print the plan and its duration to the log of the job.
pipebench "$@" --phases 2 --dry-run

# Two phases show the direction of a fault; three load the switch as a relay would. A run that fails ends with a code
# other than 0; the second run starts all the same, and the job ends with the larger code.
worst=0
for phases in 2 3; do
    pipebench "$@" --phases "$phases" --folder "$out" || {
        code=$?
        [ "$code" -le "$worst" ] || worst=$code
    }
done
exit "$worst"
