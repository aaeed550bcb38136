#!/usr/bin/env bash
# Builds the API reference of the public headers into build/api/html:  tools/api-docs.sh
# Ends with 1 if a comment has an error, such as a @param for an unknown parameter. Takes seconds.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

command -v doxygen >/dev/null || {
  echo "api-docs: doxygen is missing; install it (tools/install-deps.sh ci)" >&2
  exit 2
}
mkdir -p build/api
doxygen docs/doxygen/Doxyfile
echo "build/api/html/index.html"
