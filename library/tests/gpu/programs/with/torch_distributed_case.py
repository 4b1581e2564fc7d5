"""One of PyTorch's own distributed tests, or without a name: their names. torch_distributed_test.py starts it.

Exit code: 0 passed, 77 skipped, 1 failed. BACKEND, WORLD_SIZE, TEMP_DIR and INIT_METHOD are PyTorch's own variables.
"""

from __future__ import annotations

import sys
import unittest

from torch.testing._internal.distributed import distributed_test


# At module level: PyTorch's tests start processes that look for the class here.
class TestOverNccl(distributed_test.TestDistBackend, distributed_test.DistributedTest._DistTestBase):
    def setUp(self) -> None:
        super().setUp()
        self._spawn_processes()


def main() -> int:
    if len(sys.argv) < 2:
        for name in unittest.TestLoader().getTestCaseNames(TestOverNccl):
            if not getattr(getattr(TestOverNccl, name), "__unittest_skip__", False):
                print(name)
        return 0
    result = unittest.TextTestRunner(stream=sys.stdout, verbosity=2).run(TestOverNccl(sys.argv[1]))
    for _, why in result.skipped:
        print("skipped:", why)
        return 77
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
