#!/usr/bin/env bash
# Checks Millrace on a GPU and keeps the results:
#
#   tools/gpu-check.sh build             makes build/gpu-check.tar.xz: stripped programs, their
#                                        libraries, scripts
#   tools/gpu-check.sh run [FOLDER]      runs the kit on GPU MILLRACE_GPU (0); results go to FOLDER
#   tools/gpu-check.sh dry-run [FOLDER]  runs as much of the kit as possible without a GPU
#   tools/gpu-check.sh all [FOLDER]      build, then run (the default)
#
# build needs a CUDA toolkit and the packages of tools/install-deps.sh. GPU_ARCH is the compute
# capability (90). The archive is under 40 MiB. The machine with the GPU needs nothing else except
# cuBLAS and NCCL: run finds them on the library path or in PyTorch's packages. FOLDER
# (build/gpu-check/results) receives NAME.log and NAME.json of each step, summary.json after every
# step, REPORT.md, and results.tar.gz with all of them.
#
# Suites that check the amount of free memory run first. Other programs follow in parallel lanes.
# Measurements run last, one at a time. A step stops after STEP_SECONDS (90), PyTorch's checks after
# three times as long. No step starts after CHECK_SECONDS (520). ONLY=PATTERN runs the steps whose
# names match a shell pattern, such as '@(doctor|train*)'. A step that cannot run reports the
# reason, also in the summary. The exit code is 0 if no step failed and at least one passed. The
# step laws has failed on every GPU so far: docs/virtual-cuda.md.
set -uo pipefail
shopt -s extglob
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit

kit=build/gpu-check
arch=${GPU_ARCH:-90}
gpu=${MILLRACE_GPU:-0}
step_seconds=${STEP_SECONDS:-90}
check_seconds=${CHECK_SECONDS:-520}
most_kit_bytes=$((40 << 20))

# ---- building

# All libraries of a program, except the system's C library and the virtual CUDA runtime. On the
# other machine, the GPU's runtime must be found in its place.
libraries_of() {
  ldd "$@" | awk '$2 == "=>" && $3 ~ /^\// {print $3}' | sort -u |
    grep -vE '/(libc|libm|libdl|librt|libpthread|ld-linux[^/]*)\.so|/virtual-cuda/'
}

# The compiler's own libraries have a separate folder. If the other machine has them, its own are
# used, because PyTorch there may need newer ones.
copy_library() { # FILE
  local folder=lib
  case $1 in */libstdc++.so.* | */libgcc_s.so.* | */libgomp.so.*) folder=lib/compiler ;; esac
  cp -L "$1" "$kit/$folder/" && strip --strip-unneeded "$kit/$folder/$(basename "$1")"
}

library_path() {
  local path=$PWD/$kit/lib
  ldconfig -p 2>/dev/null | grep -q 'libstdc++\.so\.6 ' || path+=:$PWD/$kit/lib/compiler
  echo "$path${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"
}

build() {
  local tree=build/gpu program library bytes
  command -v cmake >/dev/null || {
    echo "gpu-check: there is no cmake, so nothing was built"
    return 1
  }
  # Compiler cache entries of one clone serve other clones, as in tools/build.sh. With -O3 GCC 12
  # warns falsely about overlapping copies. The presets for tests treat warnings as errors.
  export CCACHE_BASEDIR=${CCACHE_BASEDIR-$PWD} CCACHE_NOHASHDIR=${CCACHE_NOHASHDIR-1}
  cmake -S . -B "$tree" -G Ninja -DCMAKE_BUILD_TYPE=Release -DMILLRACE_WERROR=OFF -DMILLRACE_CUDA=ON \
    -DCMAKE_CUDA_ARCHITECTURES="$arch" -DMILLRACE_TESTS=ON -DMILLRACE_TOOLS=ON -DMILLRACE_BENCH=ON \
    --log-level=NOTICE >/dev/null || return 1
  mapfile -t targets < <(cmake --build "$tree" --target help |
    sed -nE 's/^(millrace|stress|kafka_mock|cuda_facts|test_gpu|test_conformance|test_property|test_virtual_cuda_laws|i[a-z]+_program|thrust_program|cuda_mr_program|experiment_torch_footprint|bench_(allocator|kernels_gpu)): phony$/\1/p')
  cmake --build "$tree" --parallel "$(nproc)" --target "${targets[@]}" millrace_shared millrace_interpose \
    millrace_interpose_catch || return 1

  rm -rf "${kit:?}" && mkdir -p "$kit/bin" "$kit/lib/compiler" "$kit/lib/interpose" || return 1
  for program in "${targets[@]}"; do
    cp "$tree/bin/$program" "$kit/bin/" && strip "$kit/bin/$program" || return 1
  done
  cp -a "$tree"/allocator/libmillrace.so.* "$kit/lib/" && cp "$tree"/lib/interpose/*.so "$kit/lib/interpose/" &&
    strip --strip-unneeded "$kit"/lib/libmillrace.so.*.* "$kit"/lib/interpose/*.so || return 1
  for library in $(libraries_of "$kit"/bin/*); do
    copy_library "$library" || return 1
  done
  cp -r bench/torch "$kit/torch" && cp tools/gpu-report.py tools/gpu-cases.py "$kit/" &&
    cp -r allocator/profiles "$kit/profiles" && cp bench/large-model.json "$kit/" || return 1
  # The Python package, its checks and its programs have the same paths as in a clone. This folder
  # is their build folder.
  cp --parents -r tools/python tools/virtual-cuda/pytorch docs/examples/gallery pyproject.toml allocator/include \
    "$kit/" && (cd "$tree" && cp --parents -r allocator/include "$OLDPWD/$kit/") || return 1
  commit >"$kit/commit"
  echo "$arch" >"$kit/arch"
  tar -C "$kit" -c . | xz -T0 -6 >"$kit.tar.xz" || return 1
  bytes=$(stat -c %s "$kit.tar.xz")
  echo "gpu-check: $kit.tar.xz, built for sm_$arch: $((bytes >> 20)) MiB"
  [ "$bytes" -le "$most_kit_bytes" ] || {
    echo "gpu-check: the kit is larger than $((most_kit_bytes >> 20)) MiB" >&2
    return 1
  }
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

# ---- finding libraries that are not in the kit

# Prints the first file with one of these names, on the library path or in PyTorch's packages.
find_library() { # NAME...
  local name folder
  for name in "$@"; do
    ldconfig -p 2>/dev/null | awk -v name="$name" '$1 == name {print $NF; exit}' | grep . && return
  done
  for folder in $(python_packages); do
    for name in "$@"; do
      find "$folder/nvidia" -name "$name" 2>/dev/null | head -n 1 | grep . && return
    done
  done
  return 1
}

python_packages() {
  python3 -c 'import sysconfig; print(sysconfig.get_paths()["purelib"]); print(sysconfig.get_paths()["platlib"])' \
    2>/dev/null | sort -u
}

find_libraries() {
  if [ -z "${MILLRACE_CUBLAS-}" ]; then
    export MILLRACE_CUBLAS
    MILLRACE_CUBLAS=$(find_library libcublas.so.13 libcublas.so.12) || unset MILLRACE_CUBLAS
  fi
  if [ -z "${MILLRACE_NCCL-}" ]; then
    export MILLRACE_NCCL
    MILLRACE_NCCL=$(find_library libnccl.so.2) || unset MILLRACE_NCCL
  fi
  echo "cuBLAS: ${MILLRACE_CUBLAS-not found}"
  echo "NCCL: ${MILLRACE_NCCL-not found}"
}

# ---- running

json_text() { printf '%s' "$1" | sed -z 's/\\/\\\\/g; s/"/\\"/g; s/\t/\\t/g; s/\r//g; s/\n/\\n/g; s/[\x01-\x1f]//g'; }

# The first fields of every file.
json_head() {
  printf '"date": "%s", "device": "%s", "driver": "%s", "commit": "%s", "command": "%s"' \
    "$(date -u +%FT%TZ)" "$(json_text "$device")" "$(json_text "$driver")" \
    "$(json_text "$built_from")" "$(json_text "$1")"
}

# Records the result of a step and rewrites the summary, so that an interrupted check keeps its
# results. The lanes share a file with one line per step.
note() { # NAME STATUS DETAIL
  echo "{\"name\": \"$1\", \"status\": \"$2\", \"detail\": \"$(json_text "$3")\"}" >>"$out/steps"
  echo "$2: $1${3:+ ($3)}"
  write_summary
}

write_summary() {
  local unfinished=$out/summary.json.$BASHPID
  printf '{"schema": "millrace.gpu-check/1", %s, "seconds": %d, "steps": [%s]}\n' \
    "$(json_head "tools/gpu-check.sh run")" "$SECONDS" "$(paste -sd, "$out/steps")" >"$unfinished"
  mv "$unfinished" "$out/summary.json"
}

count_of() { grep -c "\"status\": \"$1\"" "$out/steps"; } # STATUS

# step NAME PROGRAM ARGUMENT...: runs a program and keeps its output. {json} in an argument stands
# for a file that the program writes; it becomes the "result" of NAME.json. Exit code 4 means that
# the step could not run on this machine.
step() {
  local name=$1 program=$2 result=$out/$1.result written began code took
  shift 2
  # shellcheck disable=SC2254  # a pattern is meant
  case $name in ${ONLY-*}) ;; *) return ;; esac
  written="$(basename "$program") $*"
  if ! [ -x "$program" ] && ! command -v "$program" >/dev/null; then
    note "$name" skipped "$(basename "$program") is not there"
    return
  fi
  if [ "$SECONDS" -ge "$check_seconds" ]; then
    note "$name" skipped "no time left after $SECONDS s"
    return
  fi
  set -- "$program" "${@//\{json\}/$result}"
  echo "== $name: $written"
  began=$SECONDS
  timeout -k 5 "$step_seconds" "$@" >"$out/$name.log" 2>&1
  code=$?
  took=$((SECONDS - began))
  tail -n 4 "$out/$name.log" | cut -c 1-300
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
    4) note "$name" skipped "$(tail -n 1 "$out/$name.log" | cut -c 1-300)" ;;
    124 | 137) note "$name" failed "stopped after $step_seconds s" ;;
    *) note "$name" failed "exit $code, see $name.log" ;;
  esac
}

# Runs kernels and memory of every part in small sizes under each tool of compute-sanitizer.
sanitize() {
  local sanitizer tool cases options
  sanitizer=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  for tool in memcheck racecheck synccheck initcheck; do
    cases="[kernels]" options=()
    [ "$tool" != memcheck ] || cases="[touch],[kernels]"
    # Slots are copied to the host with their unwritten gaps. Check only the reads of kernels.
    [ "$tool" != initcheck ] || options=(--check-api-memory-access no)
    # Do not report the errors that the suite provokes on purpose.
    step "sanitizer_$tool" "$sanitizer" --tool "$tool" --error-exitcode 9 --report-api-errors no \
      --target-processes application-only "${options[@]}" "$kit/bin/test_gpu" "$cases"
  done
}

# The footprint table on the GPU, and on its model.
footprints() {
  local one=(--workload sparse_data_dist_base --copy "side-stream,in-place,precise" --seeds 1 --steps 12)
  step footprint "$kit/bin/millrace" footprint --device "$cuda" "${one[@]}" --format json -o "{json}"
  step footprint_model "$kit/bin/millrace" footprint --device virtual:h100 "${one[@]}" --format json -o "{json}"
}

# Writes a file in Criteo's format: LINES examples whose ids follow a power law.
draw_criteo() { # LINES
  awk -v lines="$1" 'BEGIN {
    srand(1)
    for (line = 0; line < lines; ++line) {
      text = (int(rand() * 4) == 0)
      for (i = 0; i < 13; ++i) text = text "\t" int(rand() * 100)
      for (i = 0; i < 26; ++i) text = text sprintf("\t%08x", int(4294967295 * rand() ^ 4))
      print text
    }
  }'
}

# Trains a model with 10 GB of tables on power-law ids, the workload for which the kernels are made.
train_large() {
  local data=$out/criteo.tsv
  draw_criteo 100000 >"$data"
  step train_large "$kit/bin/millrace" train --data "$data" --data-format criteo --model "$kit/large-model.json" \
    --batch-size 8192 --epochs 3 --pipeline sparse-dist --device "$cuda" --json "{json}"
  rm -f "$data"
}

trainings() {
  local streamed=$out/streamed
  step train "$kit/bin/millrace" train --data synthetic --device "$cuda" --json "{json}"
  step train_model "$kit/bin/millrace" train --data synthetic --device virtual:h100 --json "{json}"
  rm -rf "$streamed" "$streamed.ckpt"
  step train_stream "$kit/bin/millrace" train --data synthetic --device "$cuda" \
    --stream "file:$streamed" --save "$streamed.ckpt" --json "{json}"
  step stream_verify "$kit/bin/millrace" stream verify "file:$streamed" "$streamed.ckpt" --json "{json}"
  rm -rf "$streamed" "$streamed.ckpt"
  if [ -n "${MILLRACE_NCCL-}" ]; then
    step train_nccl env RANK=0 WORLD_SIZE=1 MASTER_ADDR=127.0.0.1 MASTER_PORT=29517 \
      "$kit/bin/millrace" train --data synthetic --group nccl --device "$cuda" --json "{json}"
  else
    note train_nccl skipped "there is no libnccl.so.2"
  fi
}

alone() {
  step doctor "$kit/bin/millrace" doctor
  step gpu_suite "$kit/bin/test_gpu"
  step laws python3 "$kit/gpu-cases.py" "$kit/bin" laws --json "{json}"
  step interop python3 "$kit/gpu-cases.py" "$kit/bin" interop --json "{json}"
  step interpose python3 "$kit/gpu-cases.py" "$kit/bin" interpose --json "{json}"
}

programs() {
  trainings
  step property "$kit/bin/test_property" "[gpu]"
  sanitize
  step conformance "$kit/bin/test_conformance"
  step stress "$kit/bin/stress" --device "$cuda" 4 20 1
}

# Runs PyTorch, CuPy and Numba on Millrace.
python_programs() {
  local torch=(env BUILD="$PWD/$kit" TORCH_PYTHON="$(command -v python3)") step_seconds=$((3 * step_seconds))
  step python "${package[@]}" python3 "$kit/tools/python/test/calls.py"
  local module
  for module in cupy numba; do
    if python3 -c "import $module" 2>/dev/null; then
      step $module "${package[@]}" python3 "$kit/tools/python/test/${module}_arrays.py"
    else
      note $module skipped "python3 has no $module"
    fi
  done
  if ! python3 -c 'import sys, torch; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
    note torch_check skipped "python3 has no PyTorch that finds a GPU"
    note gallery skipped "python3 has no PyTorch that finds a GPU"
    return
  fi
  step torch_check "${torch[@]}" SCHEDULES=gpu "$kit/tools/python/check_torch.sh" "$out/programs"
  step gallery "${torch[@]}" SCHEDULE=gpu "$kit/tools/python/gallery.sh" "$out/programs"
}

# Records PyTorch's own allocator on a GPU, for replays on other machines.
snapshots() {
  local settings script
  for settings in "" expandable_segments:True; do
    for script in rollout_and_training stream_fragmentation capture_streams pool_in_use; do
      step "snapshot_${script}${settings:+_expandable}" env PYTORCH_CUDA_ALLOC_CONF="$settings" \
        python3 "$kit/torch/snapshot_of.py" "$out/$script${settings:+.expandable}.pickle" \
        "$kit/docs/examples/gallery/$script.py"
    done
  done
}

measurements() {
  step cuda_facts "$kit/bin/cuda_facts" --device "$gpu" --json "{json}"
  step bench_allocator env MILLRACE_COMMIT="$built_from" "$kit/bin/bench_allocator" --device "$cuda" --quick --repetitions 3 --json "{json}"
  step_seconds=$((3 * step_seconds)) step torch_training "${package[@]}" python3 "$kit/torch/training.py" --steps 40 --json "{json}"
  step torch_peer python3 "$kit/torch/peer.py" --kit "$kit" --device "$cuda" --json "{json}"
  footprints
  train_large
  step stream_bench "$kit/bin/millrace" stream bench --device "$cuda" --json "{json}"
  step bench_kernels_gpu "$kit/bin/bench_kernels_gpu" --json "{json}"
}

run() {
  local out=${1:-$kit/results} mode=${2:-gpu} no_gpu device driver built_from cuda=cuda:$gpu
  [ -d "$kit/bin" ] || {
    [ -s "$kit.tar.xz" ] && mkdir -p "$kit" && tar -xJf "$kit.tar.xz" -C "$kit"
  } || {
    echo "gpu-check: there is no kit to run; build it first, on a machine with a CUDA toolkit" >&2
    return 1
  }
  SECONDS=0
  LD_LIBRARY_PATH=$(library_path)
  export MILLRACE_GPU=$gpu LD_LIBRARY_PATH
  if no_gpu=$("$kit/bin/cuda_facts" --only globaltimer-resolution 2>&1); [ $? -eq 4 ] && [ "$mode" = gpu ]; then
    echo "gpu-check: nothing was run: ${no_gpu#cuda_facts: nothing can be asked: }" >&2
    return 1
  fi
  device=$(nvidia-smi --id="$gpu" --query-gpu=name --format=csv,noheader 2>/dev/null) || device=unknown
  driver=$(nvidia-smi --id="$gpu" --query-gpu=driver_version --format=csv,noheader 2>/dev/null) || driver=unknown
  built_from=$(cat "$kit/commit")
  mkdir -p "$out" && out=$(cd "$out" && pwd)
  : >"$out/steps"
  find_libraries
  # Environment in which the Python package finds the kit's library.
  local package=(env PYTHONPATH="$PWD/$kit/tools/python:$PWD/$kit/tools/virtual-cuda/pytorch"
    MILLRACE_LIBRARY="$(find "$PWD/$kit/lib" -name 'libmillrace.so.*.*' | head -n 1)"
    MILLRACE_INCLUDE="$PWD/$kit/allocator/include" MILLRACE_TORCH_CACHE="$out/programs/cache")
  mkdir -p "$out/programs"

  alone
  programs &
  python_programs &
  snapshots &
  wait
  measurements
  write_summary

  python3 "$kit/gpu-report.py" "$out" "$kit/profiles" >"$out/REPORT.md" || echo "gpu-check: no report was made"
  tar -C "$out" -czf "$kit/results.tar.gz" . && mv "$kit/results.tar.gz" "$out/"
  echo "== kept in $out after $SECONDS s"
  echo "$(count_of passed) passed, $(count_of failed) failed, $(count_of skipped) skipped"
  [ "$(count_of failed)" -eq 0 ] && [ "$(count_of passed)" -gt 0 ]
}

case "${1-all}" in
  build) build ;;
  run) run "${2-}" ;;
  dry-run) run "${2-}" dry ;;
  all)
    build || echo "gpu-check: not built here; running the kit that was built before"
    run "${2-}"
    ;;
  *)
    echo "usage: tools/gpu-check.sh [build | run [FOLDER] | dry-run [FOLDER] | all [FOLDER]]" >&2
    exit 2
    ;;
esac
