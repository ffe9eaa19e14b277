"""Train a model: python train.py --model_conf FILE --data_conf FILE --epochs N (see --help)."""

import sys

from jade.cli import train_main

if __name__ == "__main__":
    sys.exit(train_main())
