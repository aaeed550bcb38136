"""Tests the calls of the package with libmillrace.so (MILLRACE_LIBRARY) on any GPU."""

import json
import os
import subprocess
import sys
import tempfile
import unittest
import unittest.mock

import millrace
import millrace.torch
from millrace.torch import _build, _settings

MIB = 1 << 20


class Calls(unittest.TestCase):
    def tearDown(self):
        millrace.trim()

    def test_what_is_allocated_is_counted_and_freed(self):
        before = millrace.statistics()["bytes"]["requested"]["current"]
        address = millrace.allocate(3 * MIB, 0, 0)
        self.assertEqual(address % 256, 0)
        self.assertEqual(millrace.statistics()["bytes"]["requested"]["current"], before + 3 * MIB)
        millrace.free(address, 0)
        self.assertEqual(millrace.statistics()["bytes"]["requested"]["current"], before)

    def test_no_bytes_are_no_memory(self):
        self.assertEqual(millrace.allocate(0, 0, 0), 0)

    def test_trim_gives_back_what_is_free(self):
        millrace.free(millrace.allocate(64 * MIB, 0, 0), 0)
        reserved = millrace.statistics()["bytes"]["reserved"]["current"]
        self.assertGreaterEqual(reserved, 64 * MIB)
        self.assertEqual(millrace.trim(), reserved)
        self.assertEqual(millrace.statistics()["bytes"]["reserved"]["current"], 0)

    def test_too_much_is_out_of_memory_with_the_picture(self):
        with self.assertRaises(MemoryError) as raised:
            millrace.allocate(1 << 50, 0, 0)
        self.assertIsInstance(raised.exception, millrace.Error)
        self.assertIn("reserved", str(raised.exception))

    def test_a_pointer_of_somebody_else_is_refused(self):
        with self.assertRaisesRegex(millrace.Error, "not a live allocation|no live"):
            millrace.free(0x1000, 0)

    def test_a_snapshot_has_every_block(self):
        address = millrace.allocate(5 * MIB, 0, 0)
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "snapshot.json")
            millrace.snapshot(path)
            with open(path, encoding="utf-8") as file:
                segments = json.load(file)["segments"]
        blocks = {block["address"]: block for segment in segments for block in segment["blocks"]}
        self.assertEqual(blocks[address]["requested_size"], 5 * MIB)
        millrace.free(address, 0)

    def test_a_snapshot_that_cannot_be_written_names_the_file(self):
        with self.assertRaisesRegex(millrace.Error, "/nowhere/snapshot.json"):
            millrace.snapshot("/nowhere/snapshot.json")


class FakeTorch:
    """The parts of torch that the build of the extension uses."""

    def __init__(self, folder, version):
        self.__version__ = version
        self.__file__ = os.path.join(folder, "torch", "__init__.py")
        self.version = type("version", (), {"cuda": "99.0"})
        self.compiled_with_cxx11_abi = lambda: True


class Torch(unittest.TestCase):
    """Checks the errors of the extension for PyTorch if it cannot be built. It does not need
    PyTorch."""

    def build(self, version="2.14.1", **environment):
        include = os.path.join(os.path.dirname(__file__), "..", "..", "..", "allocator", "include")
        with tempfile.TemporaryDirectory() as folder:
            home = os.path.join(folder, "cuda")
            os.makedirs(os.path.join(home, "include", "crt"))
            for header in ("cuda_runtime_api.h", os.path.join("crt", "host_config.h")):
                with open(os.path.join(home, "include", header), "w", encoding="utf-8"):
                    pass
            set_to = {"CUDA_HOME": home, "MILLRACE_INCLUDE": include, "MILLRACE_TORCH_CACHE": folder, **environment}
            with unittest.mock.patch.dict(os.environ, set_to):
                with self.assertRaises(millrace.Error) as raised:
                    _build.extension(FakeTorch(folder, version))
        self.assertNotIn("\n", str(raised.exception))
        return str(raised.exception)

    def test_a_compiler_that_is_not_there_is_named(self):
        self.assertIn("no C++ compiler /nowhere/g++", self.build(CXX="/nowhere/g++"))

    def test_headers_that_are_not_there_are_named(self):
        self.assertIn("no millrace.h in /nowhere", self.build(MILLRACE_INCLUDE="/nowhere", CXX="true"))

    def test_a_cache_that_cannot_be_written_is_named(self):
        self.assertIn("/proc/nowhere", self.build(MILLRACE_TORCH_CACHE="/proc/nowhere", CXX="true"))

    def test_a_compiler_that_fails_leaves_its_messages_and_no_library(self):
        self.assertIn("MILLRACE_TORCH=pluggable needs no extension", self.build(CXX="false"))

    def test_a_pytorch_that_is_too_old_is_named(self):
        self.assertIn("torch 2.8.0 is older than 2.9", self.build("2.8.0", CXX="true"))

    def test_the_variable_switches_on_what_it_names(self):
        with unittest.mock.patch.dict(os.environ, {"MILLRACE_TORCH": "0"}):
            millrace.torch._autoload()
        with unittest.mock.patch.dict(os.environ, {"MILLRACE_TORCH": "yes"}):
            with self.assertRaisesRegex(millrace.Error, "MILLRACE_TORCH=yes: wanted 1, pluggable or 0"):
                millrace.torch._autoload()


class Settings(unittest.TestCase):
    """Checks settings that a program changes at run time, without PyTorch."""

    def change(self, text, has_begun):
        given = []
        _settings.change(text, has_begun, given.append)
        self.assertEqual(given, [text])

    def test_settings_before_the_first_use_are_added_to_those_of_the_environment(self):
        with unittest.mock.patch.dict(os.environ, {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}):
            os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
            self.change("roundup_power2_divisions:[256:1,>:8],pinned_free_catch_all:True", False)
            self.assertEqual(os.environ["PYTORCH_ALLOC_CONF"],
                             "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:8],pinned_free_catch_all:True")

    def test_a_later_setting_is_refused_by_name_if_it_differs(self):
        with unittest.mock.patch.dict(os.environ, {"PYTORCH_ALLOC_CONF": "max_split_size_mb:64"}):
            os.environ.pop("PYTORCH_CUDA_ALLOC_CONF", None)
            self.change("max_split_size_mb:64,expandable_segments:True,pinned_free_catch_all:True", True)
            with self.assertRaisesRegex(millrace.Error, "^max_split_size_mb:80: "):
                _settings.change("max_split_size_mb:80", True, self.fail)
            self.assertEqual(os.environ["PYTORCH_ALLOC_CONF"], "max_split_size_mb:64")

    def test_a_key_without_effect_is_named(self):
        with unittest.mock.patch.dict(os.environ, {}), self.assertWarnsRegex(UserWarning, "throw_on_cudamalloc_oom"):
            self.change("throw_on_cudamalloc_oom:True", True)

    def test_what_pytorch_refuses_changes_nothing(self):
        def refuse(_text):
            raise ValueError

        with unittest.mock.patch.dict(os.environ, {"PYTORCH_ALLOC_CONF": ""}), self.assertRaises(ValueError):
            _settings.change("no_key:1", False, refuse)
            self.assertEqual(os.environ["PYTORCH_ALLOC_CONF"], "")


class Program(unittest.TestCase):
    def run_module(self, *arguments, **environment):
        return subprocess.run([sys.executable, "-m", *arguments], env={**os.environ, **environment}, text=True,
                              capture_output=True, check=False)

    def test_the_paths_are_printed(self):
        ran = self.run_module("millrace", "--library")
        self.assertEqual((ran.returncode, ran.stdout.strip()), (0, millrace.library_path()))

    def test_a_library_that_is_not_there_is_named(self):
        ran = self.run_module("millrace", "--version", MILLRACE_LIBRARY="/nowhere/libmillrace.so")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("/nowhere/libmillrace.so cannot be loaded", ran.stderr)

    def test_a_script_that_is_not_there_is_named(self):
        ran = self.run_module("millrace.torch", "/nowhere/train.py")
        self.assertEqual(ran.returncode, 1)
        self.assertIn("/nowhere/train.py is not a file", ran.stderr)


if __name__ == "__main__":
    unittest.main()
