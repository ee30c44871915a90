"""unittest.main() for programs whose tests mostly wait: some run at a time, each process one after the other.

    side_by_side.main(2)

A class with setUpClass stays together. Names of tests as arguments: as unittest.main(), one after the other."""

import concurrent.futures
import io
import multiprocessing
import sys
import unittest


def _parts(suite):
    """Names of tests that run one after the other: mostly one alone."""
    together = {}
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from _parts(test)
            continue
        name = test.id().removeprefix("__main__.")
        has_fixture = type(test).setUpClass.__func__ is not unittest.TestCase.setUpClass.__func__
        together.setdefault(type(test) if has_fixture else name, []).append(name)
    yield from together.values()


def _run(names):
    told = io.StringIO()
    suite = unittest.defaultTestLoader.loadTestsFromNames(names, sys.modules["__main__"])
    result = unittest.TextTestRunner(told, verbosity=0).run(suite)
    return result.testsRun, len(result.skipped), result.wasSuccessful(), told.getvalue()


def main(processes):
    if len(sys.argv) > 1:
        unittest.main()
    parts = list(_parts(unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])))
    # Forked: the tests' module need not be importable.
    context = multiprocessing.get_context("fork")
    ran = skipped = red = 0
    with concurrent.futures.ProcessPoolExecutor(processes, context) as pool:
        for part in concurrent.futures.as_completed([pool.submit(_run, names) for names in parts]):
            tests, skips, is_green, told = part.result()
            ran, skipped, red = ran + tests, skipped + skips, red + (not is_green)
            if not is_green:
                print(told, file=sys.stderr, flush=True)
    print(f"Ran {ran} tests\n\n{'FAILED' if red or not ran else 'OK'}" + (f" (skipped={skipped})" if skipped else ""), file=sys.stderr)
    sys.exit(1 if red or not ran else 0)
