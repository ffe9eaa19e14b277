"""Train a model: python train.py --model_conf FILE --data_conf FILE --epochs N (see --help)."""

from jade.cli import train_program

if __name__ == "__main__":
    train_program()
