#!/bin/sh
#SBATCH --job-name=pipebench
#SBATCH --nodes=16
#SBATCH --ntasks-per-node=1
#SBATCH --exclusive
#SBATCH --time=00:15:00
# Loads the ports of all nodes of a job at once.
#
#   sbatch examples/slurm.sh
#
# --hosts auto takes the job's node list. Each node is started as a job step by srun, so that no SSH is needed, and
# so that its processes get the CPUs of the job: --overlap lets the steps share them with this script, and
# --cpu-bind=none lets the kernel place the senders and receivers. Ask for all cores of the nodes.
set -eu

# Where pipebench is; the executable copies itself to the nodes.
PATH=$HOME/bin:$PATH
out=${SLURM_SUBMIT_DIR:-.}/results

rsh='srun --nodes=1 --ntasks=1 --overlap --cpu-bind=none -w %h'

# What this will take, in the job's log.
pipebench --hosts auto --phases 2 --time 60s --dry-run

# Two phases tell the direction of a fault, three load the switch as a relay would.
pipebench --hosts auto --rsh "$rsh" --phases 2 --time 60s --folder "$out"
pipebench --hosts auto --rsh "$rsh" --phases 3 --time 60s --folder "$out"
