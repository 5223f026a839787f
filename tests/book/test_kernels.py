"""The kernels that the notebooks of the book are run with: copied with their libraries loaded, and each alone."""

import contextlib
import sys
from pathlib import Path

import forked_kernels
import pytest
from nbval import kernel as nbval_kernel

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="kernels are copied on Linux alone")


@pytest.fixture
def start(tmp_path):
    started = []

    def one():
        started.append(
            nbval_kernel.RunningKernel(nbval_kernel.CURRENT_ENV_KERNEL_NAME, str(tmp_path))
        )
        return started[-1]

    yield one
    for kernel in started:
        if hasattr(kernel, "km"):
            kernel.stop()


def says(kernel, code):
    """What a cell prints."""
    lines = []
    kernel.kc.execute_interactive(
        code,
        timeout=60,
        output_hook=lambda message: lines.append(message["content"].get("text", "")),
    )
    return "".join(lines).strip()


def interrupted(kernel, asked):
    """The reply of a cell that is interrupted: once is not always enough, while its output is on the way."""
    for _ in range(30):
        kernel.interrupt()
        with contextlib.suppress(TimeoutError):
            return kernel.kc._recv_reply(asked, timeout=2)


def test_a_copy_has_its_libraries_its_own_folder_and_nothing_of_another(start, tmp_path):
    first, second = start(), start()
    loaded = "import sys; print('dplit' in sys.modules, 'matplotlib.pyplot' in sys.modules)"
    assert says(first, loaded) == says(second, loaded) == "True True"
    says(first, "import os, dplit; dplit.planted = x = os.environ['PLANTED'] = '1'")
    asked = (
        "import os, dplit; print('x' in dir(), hasattr(dplit, 'planted'), 'PLANTED' in os.environ)"
    )
    assert says(first, asked) == "True True True"
    assert says(second, asked) == "False False False"
    where = "print(os.getcwd(), 'forked_kernels' in sys.modules, os.getpid() == os.getpgrp())"
    assert says(second, where) == f"{tmp_path} True True"
    assert str(Path(forked_kernels.__file__).parent) not in says(second, "print(sys.path)")
    draws = "import numpy; print(numpy.random.rand())"
    assert says(first, draws) != says(second, draws)


def test_a_copy_is_interrupted_and_ends(start):
    kernel = start()
    assert isinstance(kernel.km.provisioner.process, forked_kernels.Copy)
    asked = kernel.kc.execute("import time; print('begun', flush=True); time.sleep(600)")
    while kernel.kc.get_iopub_msg(timeout=60)["content"].get("text") is None:
        pass
    assert interrupted(kernel, asked)["content"]["ename"] == "KeyboardInterrupt"
    kernel.await_idle(asked, 60)
    while not (said := says(kernel, "print(1)")):  # an error drops what is asked right after it
        pass
    assert said == "1"
    process = kernel.km.provisioner.process
    kernel.stop()
    assert process.wait(30) is not None


def test_figures_are_shown(start):
    kernel, shown = start(), []
    kernel.kc.execute_interactive(
        "import matplotlib.pyplot as plt; plt.plot([1, 2]);",
        timeout=60,
        output_hook=lambda message: shown.extend(message["content"].get("data", {})),
    )
    assert "image/png" in shown
