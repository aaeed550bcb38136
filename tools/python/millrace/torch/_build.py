"""Builds the extension for the installed PyTorch, once per version of each dependency."""

import glob
import hashlib
import os
import pathlib
import shutil
import subprocess
import tempfile

import millrace

_SOURCES = pathlib.Path(__file__).resolve().parent / "extension"
_OLDEST = (2, 9)
_LONGEST_SECONDS = 1800


def _compiler():
    named = os.environ.get("CXX", "g++")
    found = shutil.which(named)
    if found is None:
        raise millrace.Error(f"the extension for PyTorch cannot be built: no C++ compiler {named} (set CXX)")
    return found


# CUDA headers that PyTorch's headers include. On PyPI the second is in a separate package.
_CUDA_HEADERS = ("cuda_runtime_api.h", os.path.join("crt", "host_config.h"))


def _cuda_include(torch):
    """The folder of CUDA's headers, from a toolkit, from PyPI's packages, or from Triton, which
    PyTorch's wheel needs."""
    site = pathlib.Path(torch.__file__).resolve().parent.parent
    homes = [os.environ[name] for name in ("CUDA_HOME", "CUDA_PATH") if os.environ.get(name)]
    homes += [f"/usr/local/cuda-{torch.version.cuda}", "/usr/local/cuda"]
    homes += [str(site / "nvidia" / name) for name in (f"cu{torch.version.cuda.split('.')[0]}", "cuda_runtime")]
    homes.append(str(site / "triton" / "backends" / "nvidia"))
    for home in homes:
        folder = os.path.join(home, "include")
        if all(os.path.isfile(os.path.join(folder, header)) for header in _CUDA_HEADERS):
            return folder
    raise millrace.Error("the extension for PyTorch cannot be built: no CUDA headers (install a toolkit and set "
                         "CUDA_HOME, or pip install nvidia-cuda-runtime nvidia-cuda-crt)")


def _millrace_includes():
    named = os.environ.get("MILLRACE_INCLUDE")
    folders = named.split(os.pathsep) if named else [millrace.include_dir()]
    if not any(os.path.isfile(os.path.join(folder, "millrace.h")) for folder in folders):
        raise millrace.Error(f"the extension for PyTorch cannot be built: no millrace.h in {os.pathsep.join(folders)}")
    return folders


def _standard_library():
    """The path of the libstdc++ that PyTorch has loaded.

    Some compilers link their own libstdc++. Its streams do not work beside PyTorch's: the extension
    would crash when it writes an error message.
    """
    with open("/proc/self/maps", encoding="utf-8") as maps:
        paths = [line.rstrip("\n").split(maxsplit=5)[5] for line in maps if "/libstdc++.so.6" in line]
    return next((path for path in paths if os.path.isfile(path)), None)


def _archive_beside_it(compiler):
    """The functions that the system's libstdc++ lacks for a newer compiler (Red Hat's toolsets)."""
    ran = subprocess.run([compiler, "-print-file-name=libstdc++_nonshared.a"], capture_output=True, text=True, check=False)
    path = ran.stdout.strip()
    return [path] if os.path.isabs(path) and os.path.isfile(path) else []


def _command(torch):
    root = pathlib.Path(torch.__file__).resolve().parent
    version = tuple(int(part) for part in torch.__version__.split("+")[0].split(".")[:2])
    if version < _OLDEST:
        raise millrace.Error(f"torch {torch.__version__} is older than 2.9: use MILLRACE_TORCH=pluggable")
    command = [_compiler(), "-std=c++20", "-O2", "-fPIC", "-shared", "-fvisibility=hidden", "-w",
               f"-D_GLIBCXX_USE_CXX11_ABI={int(torch.compiled_with_cxx11_abi())}", f"-I{_SOURCES}"]
    command += [f"-I{folder}" for folder in _millrace_includes()]
    command += ["-isystem", str(root / "include"), "-isystem",
                str(root / "include" / "torch" / "csrc" / "api" / "include"), "-isystem", _cuda_include(torch)]
    command.append(str(_SOURCES / "allocator.cpp"))
    if standard_library := _standard_library():
        command += ["-nodefaultlibs", standard_library, *_archive_beside_it(command[0])]
    # The path of Millrace's library is explicit, so that the extension uses the library that is
    # loaded.
    command += [millrace.library_path(), f"-L{root / 'lib'}", "-lc10", "-lc10_cuda", "-ltorch_cpu", "-ltorch_cuda"]
    if standard_library:
        command += ["-lgcc_s", "-lgcc", "-lm", "-lc"]
    return command


def _key(torch, command):
    """A hash of everything on which the built file depends."""
    parts = [torch.__version__, str(torch.version.cuda), *command]
    for path in sorted(glob.glob(str(_SOURCES / "*"))):
        parts.append(pathlib.Path(path).read_text(encoding="utf-8"))
    for folder in _millrace_includes():
        for path in sorted(glob.glob(os.path.join(folder, "millrace", "**", "*.hpp"), recursive=True)):
            parts.append(pathlib.Path(path).read_text(encoding="utf-8"))
    parts.append(millrace.library().millrace_version().decode())
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]


def _cache():
    named = os.environ.get("MILLRACE_TORCH_CACHE")
    if named:
        return pathlib.Path(named)
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "millrace"


def extension(torch):
    """Returns the path of the extension. Builds it if it does not exist."""
    command = _command(torch)
    built = _cache() / f"torch-{torch.__version__}-{_key(torch, command)}.so"
    if built.is_file():
        return str(built)
    try:
        built.parent.mkdir(parents=True, exist_ok=True)
        # Several processes may build at the same time. Each has its own file, and the last file
        # remains.
        handle, unfinished = tempfile.mkstemp(suffix=".so", dir=built.parent)
        os.close(handle)
    except OSError as error:
        raise millrace.Error(f"the extension for PyTorch cannot be built: {error} (set MILLRACE_TORCH_CACHE)") from None
    try:
        ran = subprocess.run([*command, "-o", unfinished], capture_output=True, text=True, check=False,
                             timeout=_LONGEST_SECONDS)
        if ran.returncode != 0:
            log = built.with_suffix(".log")
            log.write_text(" ".join(command) + "\n" + ran.stderr, encoding="utf-8")
            first = next((line for line in ran.stderr.splitlines() if "error" in line), "no message")
            raise millrace.Error(f"the extension for PyTorch cannot be built: {first} (all of it: {log}); "
                                 "MILLRACE_TORCH=pluggable needs no extension")
        os.replace(unfinished, built)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise millrace.Error(f"the extension for PyTorch cannot be built: {error}") from None
    finally:
        if os.path.exists(unfinished):
            os.unlink(unfinished)
    return str(built)
