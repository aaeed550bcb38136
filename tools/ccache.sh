#!/bin/sh
# The compiler launcher of every build of this project:  tools/ccache.sh CCACHE COMPILER ARGUMENT...
#
# ccache 4.7 needs help with precompiled headers in three ways:
#
#   - GCC writes different bytes each time. Therefore another clone, or the same clone after a
#     second compilation, would not find anything compiled with the header. ccache accepts a
#     checksum beside the file. This script makes it from the header's text and macros.
#   - ccache hashes the text of a header without its macros, and would return an entry from before a
#     macro changed. Therefore the checksum is hashed as well.
#   - If an older precompiled header exists, ccache hashes it instead of the text. Therefore it is
#     removed first.
#
# ccache also does not know that the result depends on the file of -fsanitize-coverage-allowlist.
export CCACHE_PCH_EXTSUM=1

hash_as_well() { export CCACHE_EXTRAFILES="${CCACHE_EXTRAFILES:+$CCACHE_EXTRAFILES:}$1"; }

# Makes the checksum. Removes -c and -o from the arguments, and preprocesses instead.
checksum_of() {
  shift # ccache
  skip=no
  for argument; do
    shift
    case $skip$argument in
      yes*) skip=no ;;
      no-o) skip=yes ;;
      no-c) ;;
      *) set -- "$@" "$argument" ;;
    esac
  done
  "$@" -E -P -dD 2>/dev/null | sha256sum
}

for argument; do
  case $argument in
    -fsanitize-coverage-allowlist=*) hash_as_well "${argument#*=}" ;;
  esac
done
case " $* " in
  *" c++-header "*)
    for file; do
      case $file in
        *.gch)
          rm -f -- "$file" "$file.sum"
          if command -v sha256sum >/dev/null; then
            checksum_of "$@" >"$file.sum"
            hash_as_well "$file.sum"
          else # nothing else would show a changed macro
            export CCACHE_DISABLE=1
          fi
          ;;
      esac
    done
    ;;
esac
exec "$@"
