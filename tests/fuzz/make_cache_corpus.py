"""Writes the seeds of the target cache, tests/fuzz/corpus/cache: choices of operations at random, for pools of some sizes.

    python3 tests/fuzz/make_cache_corpus.py
"""

import pathlib
import random

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus" / "cache"
# Name -> honesty of the hashes and blocks of the pool less one: the first two choices of cache_fuzz.cc.
SEEDS = {
    "one_block": (0, 0),
    "small_pool": (0, 6),
    "large_pool": (0, 63),
    "lying_hashes": (1, 15),
}
CHOICES = 4000


def main():
    CORPUS.mkdir(parents=True, exist_ok=True)
    for number, (name, choices) in enumerate(SEEDS.items()):
        (CORPUS / name).write_bytes(bytes(choices) + random.Random(number).randbytes(CHOICES))


if __name__ == "__main__":
    main()
