"""Writes the seeds of the target index, tests/fuzz/corpus/index: choices of operations at random, with and without a
bound on its memory, for few workers and many.

    python3 tests/fuzz/make_index_corpus.py
"""

import pathlib
import random

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus" / "index"
# Name -> the first choices of index_driver.h: is it bounded, by which limit if so, many workers if 0, workers less one.
SEEDS = {
    "few_workers": (0, 1, 3),
    "many_workers": (0, 0, 99),
    "no_growth": (1, 0, 1, 3),
    "bounded_many_workers": (1, 1, 0, 30),
}
CHOICES = 1500


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, (name, choices) in enumerate(SEEDS.items()):
        (CORPUS / name).write_bytes(bytes(choices) + random.Random(number).randbytes(CHOICES))


if __name__ == "__main__":
    main()
