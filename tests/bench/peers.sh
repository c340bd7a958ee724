#!/usr/bin/env bash
# Builds the programs that ossia is measured against: llama-bench, llama-server and llama-cli, of the same llama.cpp that
# ossia runs: the source that llama-cpp-python ships, in the version that pyproject.toml pins.
#
#     bash tests/bench/peers.sh                # into the cache folder of the user: ~/.cache/ossia/peers
#     bash tests/bench/peers.sh FOLDER
#
# The last line on stdout is the folder of the programs. About 7 minutes on 2 idle cores; a second run finds them there.
# Takes pip (or uv), CMake >= 3.14, a C++ compiler, and 1 GB while it builds. What is downloaded is the source package,
# and what pip needs to read its metadata (its build backend), all from the package registry. They run on the processor
# alone: measured against an ossia that uses a GPU they say nothing.
#
# The options are those of the wheel that `uv sync` or pip builds, read from its CMakeCache.txt: Release (-O3 -DNDEBUG),
# shared libraries, GGML_NATIVE (-march=native), GGML_OPENMP, GGML_LLAMAFILE, GGML_CPU_REPACK; no CURL. What differs
# touches no arithmetic: tools and server are built, HTTPS and the web page are not (that one would be downloaded).
# `llama_print_system_info()` of the two is alike; `python -m tests.oracle.engine` checks it.
#
# Compare like with like: where the compiler knows AMX, ossia loads without llama.cpp's "extra" buffers
# (agent/models/needs.py says why); the same is `--repack 0` for llama-bench, `--no-repack` for the other two.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

programs=(llama-bench llama-server llama-cli)
options=(
    -DCMAKE_BUILD_TYPE=Release -DBUILD_SHARED_LIBS=ON
    -DGGML_NATIVE=ON -DGGML_OPENMP=ON -DGGML_LLAMAFILE=ON -DGGML_CPU_REPACK=ON
    -DLLAMA_BUILD_TOOLS=ON -DLLAMA_BUILD_SERVER=ON -DLLAMA_BUILD_TESTS=OFF -DLLAMA_BUILD_EXAMPLES=OFF -DLLAMA_BUILD_APP=OFF
    -DLLAMA_BUILD_UI=OFF -DLLAMA_USE_PREBUILT_UI=OFF -DLLAMA_OPENSSL=OFF
)

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 1
}

say() {
    printf '%s\n' "$1" >&2
}

source_package() { # source_package FOLDER: downloads it there
    local wanted=(download --quiet --no-deps --no-binary llama-cpp-python --dest "$1" "llama-cpp-python==$version")
    if python3 -m pip --version >/dev/null 2>&1; then
        python3 -m pip "${wanted[@]}"
    elif command -v uv >/dev/null; then
        uv run --no-project --quiet --with pip python -m pip "${wanted[@]}"
    else
        fail "no pip and no uv to get the source with: install one of them"
    fi
}

all_there() {
    local program
    for program in "${programs[@]}"; do
        [ -x "$1/$program" ] || return 1
    done
}

version=$(sed -n 's/^ *"llama-cpp-python==\([0-9.]*\)".*/\1/p' pyproject.toml)
[ -n "$version" ] || fail "pyproject.toml pins no version of llama-cpp-python"
command -v cmake >/dev/null || fail "no cmake: apt-get install cmake, or pip install cmake"

mkdir -p "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/ossia/peers}"
folder=$(cd "${1:-${XDG_CACHE_HOME:-$HOME/.cache}/ossia/peers}" && pwd)
built=$folder/llama.cpp-of-$version
wanted="$version $(uname -m) ${options[*]}"

if [ "$(cat "$built/options" 2>/dev/null)" = "$wanted" ] && all_there "$built/bin"; then
    say "already built"
else
    if [ ! -f "$built/source/CMakeLists.txt" ]; then
        say "getting the source of llama-cpp-python $version"
        rm -rf "$built/download" && mkdir -p "$built/download"
        source_package "$built/download"
        tar -xzf "$built"/download/*.tar.gz -C "$built/download"
        mv "$built"/download/*/vendor/llama.cpp "$built/source"
        rm -rf "$built/download"
    fi
    generator=()
    if command -v ninja >/dev/null && [ ! -f "$built/CMakeCache.txt" ]; then generator=(-G Ninja); fi
    say "building ${programs[*]}; the log is $built/log"
    if ! {
        cmake -S "$built/source" -B "$built" "${generator[@]+"${generator[@]}"}" "${options[@]}" &&
            cmake --build "$built" --parallel "$(getconf _NPROCESSORS_ONLN)" --target "${programs[@]}"
    } >"$built/log" 2>&1; then
        tail -n 20 "$built/log" >&2
        fail "llama.cpp can't be built: see $built/log"
    fi
    all_there "$built/bin" || fail "the build went through, but $built/bin lacks one of ${programs[*]}"
    printf '%s' "$wanted" >"$built/options"
fi
printf '%s\n' "$built/bin"
