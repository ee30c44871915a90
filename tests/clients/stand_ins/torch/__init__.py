"""What guidellm takes from PyTorch: a loader that hands out prompts one by one. PyTorch itself has gigabytes."""

from torch import utils  # noqa: F401


class Generator:
    def manual_seed(self, seed):
        return self


# Named by a library that looks for objects of these classes in what it saves; there are none.
class Tensor:
    pass


class nn:  # noqa: N801
    class Module:
        pass
