"""Writes the seeds of the targets that compare a thing with a naive one, tests/fuzz/corpus/cache, index and prompt_memo:
a few chosen choices first, the rest at random.

    python3 tests/fuzz/make_driver_corpus.py
"""

import pathlib
import random

CORPUS = pathlib.Path(__file__).resolve().parent / "corpus"
# Target -> (number of choices in a seed, name -> the first choices).
TARGETS = {
    # For cache_fuzz.cc: whether hashes may be wrong, and the pool's block count less one.
    "cache": (4000, {
        "one_block": (0, 0),
        "small_pool": (0, 6),
        "large_pool": (0, 63),
        "lying_hashes": (1, 15),
    }),
    # For index_driver.h: whether there is a limit, which limit, many workers if 0, worker count less one.
    "index": (1500, {
        "few_workers": (0, 1, 3),
        "many_workers": (0, 0, 99),
        "no_growth": (1, 0, 1, 3),
        "bounded_many_workers": (1, 1, 0, 30),
    }),
    # For memo_driver.h: number of fragments of the first text, then the author and kind of each.
    "prompt_memo": (3000, {
        "long_first_text": (15, 1, 250, 1, 0, 1, 251, 1, 0, 1, 254, 1, 9),
        "given_first_text": (6, 0, 250, 0, 0, 0, 251, 0, 0, 0, 254, 0, 9),
        "no_token": (3, 1, 250, 0, 251, 1, 249),
        "random": (),
    }),
}


def main():
    for target, (choice_count, seeds) in TARGETS.items():
        folder = CORPUS / target
        folder.mkdir(parents=True, exist_ok=True)
        for number, (name, choices) in enumerate(seeds.items()):
            (folder / name).write_bytes(bytes(choices) + random.Random(number).randbytes(choice_count))


if __name__ == "__main__":
    main()
