#!/usr/bin/env bash
# Compiles llama.cpp for Vulkan (or CUDA), and asks the étude the same there and on the processor: the same greedy ids?
#
#     bash tests/backends/vulkan.sh                   # Vulkan; then CUDA, too, where nvcc and an NVIDIA GPU are
#     bash tests/backends/vulkan.sh vulkan|cuda       # only that one
#     bash tests/backends/vulkan.sh vulkan FOLDER     # elsewhere than in ~/.cache/ossia/backends
#
# Vulkan takes no GPU: Mesa's lavapipe computes on the processor what a GPU would, from the same shaders. That proves
# that llama.cpp's Vulkan works with ossia; its speed says nothing of a GPU's. GGML_VK_VISIBLE_DEVICES names the device
# (0 here if it isn't set): unless one is named, llama.cpp passes over devices that are a processor.
#
# Not a part of CI. The build takes about 7 minutes on 2 cores and goes into an environment of its own, not into the
# clone's; a second run finds it there. The first use on lavapipe compiles shaders, for minutes. Needs uv, a C++
# compiler, 2 GB of disk; for Vulkan glslc, a driver (lavapipe is in mesa-vulkan-drivers, 25 or later), and the headers
# of Vulkan 1.4.309 or later and of SPIR-V. On Debian 12 and later root gets what is missing by itself: programs are
# installed, the headers (Debian 13's, where the release's are older) only unpacked into FOLDER.
#
# The last table has tokens per second on both, under the date, the machine and its load. The exit code is 0 if the ids
# are the same, but for near ties that a rounding turns (they are shown), 1 if not, 2 if something is missing.
set -euo pipefail

oldest_header=309 # of Vulkan 1.4: with Debian 12's, 239 of 1.3, llama.cpp doesn't compile
prompts=50

fail() {
    printf 'error: %s\n' "$1" >&2
    exit 2
}

say() {
    printf '%s\n' "$1" >&2
}

usage() { # the comment above
    sed -n '2,/^set /{/^#/s/^# \{0,1\}//p}' "${BASH_SOURCE[0]}"
}

trixie() { # trixie APT-GET-ARGUMENT…: apt-get over Debian 13 alone, with lists of our own
    local apt=$aside/apt
    mkdir -p "$apt/lists/partial" "$apt/cache/archives/partial"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] %s trixie main\n' "$mirror" >"$apt/sources.list"
    apt-get -qq -o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o "Dir::Etc::SourceList=$apt/sources.list" \
        -o Dir::Etc::SourceParts=- -o "APT::Sandbox::User=$(id -un)" "$@"
}

may_install() { # root, on Debian
    [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null && grep -q '^ID=debian' /etc/os-release
}

install() { # install PACKAGE…: with apt-get, where that may be done
    may_install || fail "install these packages first, or their like: $*"
    say "installing $*"
    (apt-get -qq update && DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@") >"$aside/apt.log" 2>&1 ||
        fail "apt-get can't install $*: see $aside/apt.log"
}

install_lavapipe() { # Debian 12's is too old: from its backports
    may_install || fail "no Vulkan driver here: install a GPU's, or mesa-vulkan-drivers (25 or later)"
    local list=$aside/backports.list
    say "installing mesa-vulkan-drivers"
    { cat /etc/apt/sources.list 2>/dev/null || true; } >"$list"
    printf 'deb %s %s-backports main\n' "$mirror" "$release" >>"$list"
    {
        apt-get -qq -o "Dir::Etc::SourceList=$list" update &&
            DEBIAN_FRONTEND=noninteractive apt-get -qq -o "Dir::Etc::SourceList=$list" install -y \
                -t "$release-backports" mesa-vulkan-drivers
    } >"$aside/apt.log" 2>&1 || install mesa-vulkan-drivers
}

header_of() { # header_of INCLUDE: the number of the Vulkan headers there, 0 if there are none
    local found
    found=$(sed -n 's/^#define VK_HEADER_VERSION \([0-9]*\)$/\1/p' "$1/vulkan/vulkan_core.h" 2>/dev/null || true)
    printf '%s' "${found:-0}"
}

driver() { # is there a Vulkan driver?
    compgen -G '/usr/share/vulkan/icd.d/*.json' >/dev/null || compgen -G '/etc/vulkan/icd.d/*.json' >/dev/null
}

old_lavapipe() { # no GPU, and a lavapipe before 25? Debian 12's own, 22.3, breaks off in llama.cpp's shaders
    local found
    found=$(dpkg-query -W -f '${Version}' mesa-vulkan-drivers 2>/dev/null || true)
    ! compgen -G '/dev/dri/renderD*' >/dev/null && [ -n "$found" ] && [ "${found%%.*}" -lt 25 ]
}

loader() { # the library that a program links with to reach the drivers
    ldconfig -p | sed -n 's/^[[:space:]]*libvulkan\.so\.1 .*=> //p' | head -n 1
}

vulkan_options() { # what CMake is told; gets what is missing
    local include=/usr/include package
    command -v glslc >/dev/null || install glslc
    [ -n "$(loader)" ] || install libvulkan1
    if ! driver || old_lavapipe; then install_lavapipe; fi
    driver || fail "mesa-vulkan-drivers brought no driver: see /usr/share/vulkan/icd.d"
    if [ "$(header_of "$include")" -lt "$oldest_header" ] || [ ! -d /usr/share/cmake/SPIRV-Headers ]; then
        include=$aside/headers/usr/include
        if [ "$(header_of "$include")" -lt "$oldest_header" ]; then
            [ -f /usr/share/keyrings/debian-archive-keyring.gpg ] ||
                fail "the headers of Vulkan 1.4.$oldest_header or later and of SPIR-V must be in /usr/include"
            say "getting Debian 13's libvulkan-dev and spirv-headers"
            mkdir -p "$aside/headers"
            trixie update
            (cd "$aside/headers" && trixie download libvulkan-dev spirv-headers)
            for package in "$aside"/headers/*.deb; do dpkg -x "$package" "$aside/headers"; done
        fi
    fi
    options="-DGGML_VULKAN=on -DVulkan_INCLUDE_DIR=$include -DVulkan_LIBRARY=$(loader)"
    options+=" -DSPIRV-Headers_DIR=${include%/include}/share/cmake/SPIRV-Headers"
}

cuda_options() {
    local nvcc=${CUDACXX:-$(command -v nvcc || true)}
    [ -n "$nvcc" ] || nvcc=$(compgen -G /usr/local/cuda/bin/nvcc || true)
    [ -n "$nvcc" ] || fail "no nvcc: install the CUDA toolkit, or name it in CUDACXX"
    has_nvidia || fail "nvidia-smi names no GPU: CUDA can only be tried where there is one"
    export CUDACXX=$nvcc
    options=-DGGML_CUDA=on
}

has_nvidia() {
    nvidia-smi --query-gpu=name --format=csv,noheader 2>/dev/null | grep -q .
}

has_cuda() {
    has_nvidia && { [ -n "${CUDACXX:-}" ] || command -v nvcc || [ -x /usr/local/cuda/bin/nvcc ]; } >/dev/null
}

build() { # build BACKEND: an environment with ossia on a llama.cpp for it
    local environment=$folder/$1-$version wanted begin=$SECONDS
    wanted="$version $(uname -m) $options"
    if [ "$(cat "$environment/built" 2>/dev/null)" = "$wanted" ]; then
        say "already built: $environment"
        return
    fi
    say "compiling llama-cpp-python $version for $1; the log is $folder/$1.log"
    {
        uv venv --clear "$environment" &&
            CMAKE_ARGS="$options" SKBUILD_CMAKE_DEFINE="LLAVA_BUILD=OFF" uv pip install --python "$environment" --no-cache \
                --no-deps --no-binary llama-cpp-python "llama-cpp-python==$version" &&
            uv pip install --python "$environment" --editable "$clone"
    } >"$folder/$1.log" 2>&1 || {
        tail -n 20 "$folder/$1.log" >&2
        fail "llama.cpp can't be compiled for $1: see $folder/$1.log"
    }
    printf '%s' "$wanted" >"$environment/built"
    say "compiled in $((SECONDS - begin)) s"
}

try_one() { # try_one BACKEND: builds it, compares
    "$1_options"
    build "$1"
    if [ "$1" = vulkan ]; then export GGML_VK_VISIBLE_DEVICES=${GGML_VK_VISIBLE_DEVICES-0}; fi
    (cd "$clone" && uv run --quiet python -m tests.backends.beside "$folder/$1-$version/bin/python" "$prompts")
}

case ${1:-} in
    -h | --help) usage && exit 0 ;;
    "" | vulkan | cuda) ;;
    *) fail "expected vulkan, cuda or nothing, not $1: see --help" ;;
esac
clone=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
version=$(sed -n 's/^ *"llama-cpp-python==\([0-9.]*\)".*/\1/p' "$clone/pyproject.toml")
[ -n "$version" ] || fail "pyproject.toml pins no version of llama-cpp-python"
command -v uv >/dev/null || fail "no uv: pip install uv"
mkdir -p "${2:-${XDG_CACHE_HOME:-$HOME/.cache}/ossia/backends}"
folder=$(cd "${2:-${XDG_CACHE_HOME:-$HOME/.cache}/ossia/backends}" && pwd)
aside=$folder/aside
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
release=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release 2>/dev/null || true)
mkdir -p "$aside"

wanted=("${1:-vulkan}")
if [ -z "${1:-}" ] && has_cuda; then wanted+=(cuda); fi
for backend in "${wanted[@]}"; do try_one "$backend"; done
