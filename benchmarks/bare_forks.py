"""A process that forks one for each trial and does nothing else: the least that a trial costs."""

import os
import sys
import time


def main(data: str, num_trials: int, num_slots: int) -> None:
    """Train so many trials, each in a fork, and print how long they took in all."""
    import torch
    import torch._dynamo

    from benchmarks import tiny

    torch.set_num_threads(1)
    started = time.monotonic()
    num_running = 0
    for _ in range(num_trials):
        if num_running == num_slots:
            _await_one()
            num_running -= 1
        if os.fork() == 0:
            tiny.train_bare(data, 1)
            os._exit(0)
        num_running += 1
    for _ in range(num_running):
        _await_one()
    print(time.monotonic() - started, flush=True)


def _await_one() -> None:
    _, status = os.wait()
    if status:
        raise RuntimeError(f"a trial ended with {status}")


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
