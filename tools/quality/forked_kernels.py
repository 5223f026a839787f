"""Kernels that begin with their libraries loaded, for running many notebooks one after another.

A notebook's kernel takes seconds to start and to import what all notebooks import. After `use()` jupyter_client copies
(forks) every kernel from one process that has imported this once. Each notebook still has a process, a `__main__`, a
module path and a working folder of its own. Only Linux can copy a process with these libraries safely; elsewhere kernels
start as usual.
"""

import functools
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing import forkserver
from unittest import mock

LIBRARIES = ["ipykernel.kernelapp", "matplotlib.pyplot", "scipy.stats", "sklearn.cluster", "dplit"]

# what a kernel sets before its notebook imports matplotlib, which reads it only then
INLINE = "module://matplotlib_inline.backend_inline"


def use():
    """From now on kernels are copies, where they can be."""
    if sys.platform == "linux":
        from jupyter_client.provisioning import local_provisioner

        local_provisioner.launch_kernel = Copy


@functools.cache
def origin():
    """Start the process to copy, once; and say where a kernel looks for modules."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(LIBRARIES)
    with mock.patch.dict(os.environ, MPLBACKEND=INLINE):
        forkserver.ensure_running()
    command = [sys.executable, "-c", "import sys; print(*sys.path[1:], sep='\\n')"]
    path = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    return context, path


def kernel(argv, env, cwd, path):
    """Become the kernel that `argv` asks for."""
    import numpy as np
    from ipykernel.kernelapp import IPKernelApp

    os.setsid()
    os.environ.clear()
    os.environ.update(env)
    os.chdir(cwd)
    sys.path[:] = path
    sys.argv[:] = ["ipykernel_launcher", *argv]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    np.random.seed()  # noqa: NPY002 - scikit-learn draws from it, and all copies would draw the same
    IPKernelApp.launch_instance(argv=[*argv, f"--IPKernelApp.parent_handle={os.getppid()}"])


class Copy:
    """A copied process with what jupyter_client asks of a subprocess.Popen."""

    stdin = stdout = stderr = None

    def __init__(self, command, env, cwd=".", **_):
        context, path = origin()
        argv = command[command.index("-f") :]
        self.process = context.Process(target=kernel, args=(argv, dict(env), str(cwd), path))
        self.process.start()
        self.pid = self.process.pid
        while self.poll() is None and os.getpgid(self.pid) != self.pid:
            time.sleep(0.001)  # signals are for a kernel's own group of processes

    def poll(self):
        return self.process.exitcode

    def wait(self, timeout=None):
        self.process.join(timeout)
        return self.poll()

    def send_signal(self, number):
        os.kill(self.pid, number)

    def terminate(self):
        self.process.terminate()

    def kill(self):
        self.process.kill()
