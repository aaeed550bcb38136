#!/bin/sh
# The compiler's launcher of every build here:  tools/ccache.sh CCACHE COMPILER ARGUMENT...
#
# For precompiled headers, ccache 4.7 needs help in three ways:
#
#   - GCC makes a file of other bytes each time, so that nothing compiled with one was found by another clone, or after
#     it was compiled again. ccache takes a checksum beside the file, which is made here of its text and macros.
#   - ccache hashes the text of a header without its macros, and served one as it was before a macro changed. So the
#     checksum is hashed as well.
#   - Where an older precompiled header lies, ccache hashes that in place of the text. So it is removed first.
#
# And it does not know that what is compiled depends on the file of -fsanitize-coverage-allowlist.
export CCACHE_PCH_EXTSUM=1

hash_as_well() { export CCACHE_EXTRAFILES="${CCACHE_EXTRAFILES:+$CCACHE_EXTRAFILES:}$1"; }

# Makes the checksum. Removes from the arguments what says that there is something to compile.
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
          else # nothing tells of macros
            export CCACHE_DISABLE=1
          fi
          ;;
      esac
    done
    ;;
esac
exec "$@"
