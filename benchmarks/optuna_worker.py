"""A process that takes trials of an Optuna study, as Optuna's users start several of them."""

import sys


def main(journal: str, data: str, num_trials: int) -> None:
    """Train so many trials, one after another in this process."""
    import optuna
    import torch
    from optuna.storages import JournalStorage
    from optuna.storages.journal import JournalFileBackend

    from benchmarks import tiny

    torch.set_num_threads(1)
    optuna.logging.set_verbosity(optuna.logging.ERROR)

    def train(trial: "optuna.Trial") -> float:
        number = trial.suggest_int("number", 0, 1000)
        tiny.train_bare(data, 1)
        return float(number)

    study = optuna.create_study(
        study_name="peers",
        storage=JournalStorage(JournalFileBackend(journal)),
        sampler=optuna.samplers.RandomSampler(),
        load_if_exists=True,
    )
    study.optimize(train, n_trials=num_trials)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
