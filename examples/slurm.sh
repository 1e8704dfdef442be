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
# Without a batch script, type this and then a pipebench command:
#   salloc --nodes=4 --exclusive
#
# --hosts auto takes the job's node list, and one srun starts the nodes of all hosts, which need no SSH. --exclusive
# gives the job all cores. The executable must be at the same path on all hosts, as in a home folder that they share.
# Without one, let a job step for each host copy it there:
#   --rsh 'srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none -w %h'
set -eu

# Folder of pipebench.
PATH=$HOME/bin:$PATH
out=${SLURM_SUBMIT_DIR:-.}/results

# Words for every run. Data go to the first interface's address of each node unless --data-network is given.
set -- --hosts auto --time 60s
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
