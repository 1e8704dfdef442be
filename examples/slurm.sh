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
# --hosts auto takes the job's node list. srun starts each node as a job step, so that the nodes need no SSH and their
# processes get the CPUs of the job: --overlap lets the steps share these CPUs with this script, and
# --cpu-bind=none lets the kernel place the senders and receivers. Request all cores of the nodes.
set -eu

# Folder of pipebench; the executable copies itself to the nodes.
PATH=$HOME/bin:$PATH
out=${SLURM_SUBMIT_DIR:-.}/results

rsh='srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none -w %h'

# Print the plan and its duration to the log of the job.
pipebench --hosts auto --rsh "$rsh" --phases 2 --time 60s --dry-run

# Two phases show the direction of a fault; three load the switch as a relay would.
pipebench --hosts auto --rsh "$rsh" --phases 2 --time 60s --folder "$out"
pipebench --hosts auto --rsh "$rsh" --phases 3 --time 60s --folder "$out"
