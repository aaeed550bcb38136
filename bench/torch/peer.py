#!/usr/bin/env python3
"""Compares PyTorch's own caching allocator with Millrace's on one GPU.

    peer.py --kit FOLDER [--device cuda:0] [--json FILE]

Compiles the shim for the PyTorch of this machine, and then runs:
- pairs: nanoseconds of an allocation and its free, for one size, for random sizes, and for blocks
  that another stream used
- the training loop of `millrace footprint` on PyTorch's allocator and on Millrace's
Exit code 4: no PyTorch, or no GPU that it can use.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import sysconfig
import tempfile

SKIPPED = 4
HERE = pathlib.Path(__file__).resolve().parent


def toolkit_includes():
    """Folders with cuda_runtime_api.h, from a CUDA toolkit or from PyTorch's packages."""
    packages = pathlib.Path(sysconfig.get_paths()["purelib"])
    found = [pathlib.Path("/usr/local/cuda/include")]
    found += sorted(packages.glob("nvidia/*/include"))
    return [str(folder) for folder in found if (folder / "cuda_runtime_api.h").exists()]


def cuda_runtime():
    """The shared CUDA runtime that PyTorch loads."""
    import torch  # noqa: F401  (loads it)

    with open("/proc/self/maps", encoding="utf-8") as maps:
        for line in maps:
            path = line.split()[-1]
            if "libcudart.so" in path:
                return path
    raise RuntimeError("PyTorch loaded no shared CUDA runtime")


def compile_against_torch(sources, output, shared):
    import torch

    root = pathlib.Path(torch.__file__).parent
    includes = [str(root / "include")] + toolkit_includes()[:1]
    runtime = cuda_runtime()
    command = ["c++", "-O2", "-std=c++20", "-fPIC", "-w", "-DUSE_CUDA=1"]
    command += [f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}"]
    command += [f'-DMILLRACE_TORCH_VERSION="{torch.__version__}"']
    command += [f"-I{folder}" for folder in includes]
    command += ["-shared"] if shared else []
    command += [str(source) for source in sources] + ["-o", str(output)]
    # libtorch_cuda must be loaded although this program names no symbol of it: c10_cuda needs what
    # it registers.
    command += [f"-L{root / 'lib'}", f"-Wl,-rpath,{root / 'lib'}", "-Wl,--no-as-needed"]
    command += ["-ltorch", "-ltorch_cpu", "-ltorch_cuda", "-lc10", "-lc10_cuda", runtime]
    command += [f"-Wl,-rpath,{pathlib.Path(runtime).parent}"]
    subprocess.run(command, check=True)


def run_pairs(folder, ordinal):
    program = folder / "pairs"
    compile_against_torch([HERE / "pairs.cpp", HERE / "shim.cpp"], program, shared=False)
    lines = subprocess.run([str(program), str(ordinal)], check=True, stdout=subprocess.PIPE, text=True).stdout
    print(lines, end="", flush=True)
    pairs = dict(line.split(None, 1) for line in lines.splitlines())
    version = pairs.pop("version")
    return version, {name: float(ns) for name, ns in pairs.items()}


def run_footprint(kit, folder, ordinal):
    shim, result = folder / "libmillrace_torch.so", folder / "footprint.json"
    compile_against_torch([HERE / "shim.cpp"], shim, shared=True)
    program = kit / "bin" / "experiment_torch_footprint"
    # PyTorch's own runtime comes first, so that the process has only one runtime.
    environment = dict(os.environ)
    paths = [str(pathlib.Path(cuda_runtime()).parent), environment.get("LD_LIBRARY_PATH", "")]
    environment["LD_LIBRARY_PATH"] = ":".join(path for path in paths if path)
    subprocess.run(
        [str(program), "--device", str(ordinal), "--shim", str(shim), "--json", str(result)],
        check=True,
        env=environment,
    )
    return json.loads(result.read_text(encoding="utf-8"))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--kit", type=pathlib.Path, required=True, help="folder of tools/gpu-check.sh's kit")
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", type=pathlib.Path, help="file for the results")
    arguments = parser.parse_args()
    try:
        import torch
    except ImportError as error:
        print(f"peer.py: nothing to run: {error}")
        return SKIPPED
    if not torch.cuda.is_available():
        print("peer.py: nothing to run on: PyTorch sees no GPU")
        return SKIPPED
    ordinal = int(arguments.device.removeprefix("cuda:"))
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        version, pairs = run_pairs(folder, ordinal)
        footprint = run_footprint(arguments.kit, folder, ordinal)
    if arguments.json:
        document = {"schema": "millrace.torch-peer/1", "pytorch": version, "ns_per_pair": pairs, "footprint": footprint}
        arguments.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
