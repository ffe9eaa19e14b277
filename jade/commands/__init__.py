"""The commands of the command line; each one is a file of this folder."""

# What `jade --help` says of each; the file of a command is imported when it is called.
COMMANDS = {
    "train": "train a model",
    "resume": "continue a run that was stopped, killed or has failed, exactly where it was left",
    "verify-resume": "kill and resume a training, and see whether it ends the same bit by bit",
    "check": "check a configuration, or a whole sweep, without running anything",
    "sweep": "register a sweep with W&B: jade sweep push FILE",
    "config": "print the resolved configuration with the source of each value",
    "export": "put the model of a run into one file",
    "runs": "list runs: how they stand, how far they are, and how good",
    "show": "show all about one run, with its curves",
}
