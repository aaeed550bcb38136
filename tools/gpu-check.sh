#!/usr/bin/env bash
# Tries Millrace on a GPU and keeps what was found:
#
#   tools/gpu-check.sh [build | run [FOLDER] | all [FOLDER]]
#
# build: a stripped release with the libraries that it needs beside it, in build/gpu-check, which can
#        be taken to a machine with a GPU and nothing else. Needs a CUDA toolkit and what
#        tools/install-deps.sh installs. GPU_ARCH is the compute capability to build for (90).
# run:   the suites, compute-sanitizer, cuda_facts, training, streaming, the benchmarks and the footprint experiment,
#        on GPU MILLRACE_GPU (0). Writes NAME.log and NAME.json for each, with date, device, driver,
#        commit and command, and summary.json, to FOLDER (build/gpu-check/results).
# all:   both (the usual); without a toolkit, what was built before is run.
#
# What could not be run is said, in the summary too. Fails if anything failed, or if nothing passed.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

kit=build/gpu-check
arch=${GPU_ARCH:-90}
gpu=${MILLRACE_GPU:-0}
seconds_of_a_step=${STEP_SECONDS:-240}

# ---- building

# Everything that a program loads, but what belongs to the system's C library.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so'
}

build() {
  local tree=build/gpu program library
  command -v cmake >/dev/null || {
    echo "gpu-check: no cmake, so nothing was built"
    return 1
  }
  cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$arch" -DMILLRACE_TESTS=ON -DMILLRACE_TOOLS=ON -DMILLRACE_BENCH=ON \
    --log-level=NOTICE >/dev/null || return 1
  mapfile -t targets < <(cmake --build "$tree" --target help |
    sed -nE 's/^(millrace|stress|cuda_facts|test_gpu|test_conformance|bench_[a-z_]+): phony$/\1/p')
  cmake --build "$tree" --parallel "$(nproc)" --target "${targets[@]}" || return 1

  rm -rf "${kit:?}/bin" "${kit:?}/lib"
  mkdir -p "$kit/bin" "$kit/lib"
  for program in "${targets[@]}"; do
    cp "$tree/bin/$program" "$kit/bin/" && strip "$kit/bin/$program" || return 1
  done
  for library in $(libraries_of "$kit"/bin/*); do cp -L "$library" "$kit/lib/"; done
  commit >"$kit/commit"
  echo "gpu-check: built for sm_$arch: $(du -sh "$kit" | cut -f 1) in $kit"
}

commit() {
  local name
  name=$(git rev-parse HEAD 2>/dev/null) || {
    echo unknown
    return
  }
  [ -z "$(git status --porcelain --untracked-files=no)" ] || name+="+changes"
  echo "$name"
}

# ---- running

json_text() { printf '%s' "$1" | sed -z 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g; s/\r//g; s/\n/\\n/g; s/[\x01-\x1f]//g'; }

# The fields that every file begins with.
json_head() {
  printf '"date": "%s", "device": "%s", "driver": "%s", "commit": "%s", "command": "%s"' \
    "$(date -u +%FT%TZ)" "$(json_text "$device")" "$(json_text "$driver")" \
    "$(json_text "$built_from")" "$(json_text "$1")"
}

passed=0 failed=0 skipped=0
summary=()

note() { # NAME STATUS DETAIL
  case $2 in passed) ((++passed)) ;; failed) ((++failed)) ;; *) ((++skipped)) ;; esac
  summary+=("{\"name\": \"$1\", \"status\": \"$2\", \"detail\": \"$(json_text "$3")\"}")
  echo "$2: $1${3:+ ($3)}"
}

# step NAME PROGRAM ARGUMENT...: runs it, keeps its output. {json} in an argument is a file that it
# writes, which becomes the "result" of NAME.json.
step() {
  local name=$1 program=$2 result=$out/$1.result written began code took
  shift 2
  written="$program $*"
  if ! [ -x "$program" ] && ! command -v "$program" >/dev/null; then
    note "$name" skipped "$(basename "$program") is not there"
    return
  fi
  set -- "$program" "${@//\{json\}/$result}"
  echo "== $name: $written"
  began=$(date +%s)
  timeout "$seconds_of_a_step" "$@" >"$out/$name.log" 2>&1
  code=$?
  took=$(($(date +%s) - began))
  tail -n 5 "$out/$name.log"
  {
    printf '{%s, "exit": %d, "seconds": %d' "$(json_head "$written")" "$code" "$took"
    if [ -s "$result" ]; then
      printf ', "result": %s' "$(cat "$result")"
    else
      printf ', "output": "%s"' "$(json_text "$(tail -c 20000 "$out/$name.log")")"
    fi
    printf '}\n'
  } >"$out/$name.json"
  rm -f "$result"
  case $code in
    0) note "$name" passed "$took s" ;;
    4) note "$name" skipped "$(tail -n 1 "$out/$name.log")" ;;
    124) note "$name" failed "stopped after $seconds_of_a_step s" ;;
    *) note "$name" failed "exit $code, see $name.log" ;;
  esac
}

run() {
  local out=${1:-$kit/results} no_gpu device driver built_from bench sanitizer tool
  [ -d "$kit/bin" ] || {
    echo "gpu-check: nothing to run in $kit; build it first, where there is a CUDA toolkit" >&2
    return 1
  }
  export MILLRACE_GPU=$gpu LD_LIBRARY_PATH=$PWD/$kit/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  if no_gpu=$("$kit/bin/cuda_facts" --only globaltimer-resolution 2>&1); [ $? -eq 4 ]; then
    echo "gpu-check: nothing was run: ${no_gpu#cuda_facts: nothing can be asked: }" >&2
    return 1
  fi
  device=$(nvidia-smi --id="$gpu" --query-gpu=name --format=csv,noheader 2>/dev/null) || device=unknown
  driver=$(nvidia-smi --id="$gpu" --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || driver=unknown
  built_from=$(cat "$kit/commit")
  mkdir -p "$out"

  step gpu_suite "$kit/bin/test_gpu"
  step conformance "$kit/bin/test_conformance"
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  for tool in memcheck racecheck; do
    # Errors that the suite provokes on purpose are not reports.
    step "sanitizer_$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no \
      --target-processes application-only "$kit/bin/test_gpu" "[touch]"
  done
  step cuda_facts "$kit/bin/cuda_facts" --device "$gpu" --json "{json}"
  step doctor "$kit/bin/millrace" doctor
  step footprint "$kit/bin/millrace" footprint --device "cuda:$gpu" --format json -o "{json}"
  step train "$kit/bin/millrace" train --data synthetic --device "cuda:$gpu" --json "{json}"
  step stream_bench "$kit/bin/millrace" stream bench --device "cuda:$gpu" --json "{json}"
  rm -rf "$out/streamed"
  step train_stream "$kit/bin/millrace" train --data synthetic --device "cuda:$gpu" \
    --stream "file:$out/streamed" --save "$out/streamed.ckpt" --json "{json}"
  step stream_verify "$kit/bin/millrace" stream verify "file:$out/streamed" "$out/streamed.ckpt" --json "{json}"
  rm -rf "$out/streamed" "$out/streamed.ckpt"
  if [ -n "${MILLRACE_NCCL-}" ] || ldconfig -p | grep -q 'libnccl\.so\.2'; then
    step train_nccl env RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517 \
      "$kit/bin/millrace" train --data synthetic --group nccl --device "cuda:$gpu" --json "{json}"
  else
    note train_nccl skipped "there is no libnccl.so.2"
  fi
  for bench in "$kit"/bin/bench_*; do
    [ -x "$bench" ] || continue
    step "$(basename "$bench")" "$bench" --benchmark_out="{json}" --benchmark_out_format=json
  done

  printf '{"schema": "millrace.gpu-check/1", %s, "steps": [%s]}\n' "$(json_head "tools/gpu-check.sh run")" \
    "$(IFS=,; echo "${summary[*]}")" >"$out/summary.json"
  echo "== kept in $out"
  echo "$passed passed, $failed failed, $skipped skipped"
  [ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
}

case "${1-all}" in
  build) build ;;
  run) run "${2-}" ;;
  all)
    build || echo "gpu-check: not built here; running what was built before"
    run "${2-}"
    ;;
  *)
    echo "usage: tools/gpu-check.sh [build | run [FOLDER] | all [FOLDER]]" >&2
    exit 2
    ;;
esac
