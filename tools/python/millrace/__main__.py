"""python -m millrace: prints where the package's files are."""

import argparse

import millrace


def main():
    parser = argparse.ArgumentParser(prog="python -m millrace", description="Prints where Millrace's files are.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--cmake-prefix", action="store_true", help="the folder for CMAKE_PREFIX_PATH")
    what.add_argument("--include", action="store_true", help="the folder of millrace.h")
    what.add_argument("--library", action="store_true", help="the path of libmillrace.so")
    what.add_argument("--version", action="store_true", help="the version of libmillrace.so")
    asked = parser.parse_args()
    try:
        if asked.cmake_prefix:
            print(millrace.cmake_prefix())
        elif asked.include:
            print(millrace.include_dir())
        elif asked.library:
            print(millrace.library_path())
        else:
            print(millrace.library().millrace_version().decode())
    except millrace.Error as error:
        parser.exit(1, f"python -m millrace: {error}\n")


if __name__ == "__main__":
    main()
