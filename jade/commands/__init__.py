"""The commands of the command line; each one is a file of this folder."""

# What `jade --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "train": "train a model",
    "resume": "continue a run that was stopped, killed or has failed, exactly where it was left",
    "verify-resume": "kill and resume a training, and see whether it ends the same bit by bit",
    "check": "check a configuration, or a whole sweep, without running anything",
    "sweep": "run a sweep on this machine, look after it, or register it with W&B",
    "doctor": "examine your W&B account, this machine and configurations, and say what to do",
    "agent": "run the trials of a W&B sweep on this machine",
    "grid": "count, list and run the runs of a grid by their numbers",
    "submit": "submit agents, trainings, grids and tests to a cluster (SLURM)",
    "jobs": "show what became of jobs that were submitted, or cancel them with checkpoints",
    "test": "test a run, or all runs below a folder, and keep the results beside them",
    "config": "print the resolved configuration with the source of each value",
    "export": "put the model of a run into one file",
    "sync": "bring runs to W&B that were made offline, or whose connection was lost",
    "runs": "list runs: how they stand, how far they are, and how good",
    "analyze": "compare runs: one table, statistics over repetitions, CSV, LaTeX and a page",
    "show": "show all about one run, with its curves",
}
