# Shared by the scripts beside it: where the clone is, its Python environment, its build tools. Sourced, not run.
# shellcheck shell=bash

ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
VENV=$ROOT/.venv
JOBS=${BUSBW_JOBS:-$(nproc)}
# A pip that inherits a user's or a site's settings must still keep our output to what people need.
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PIP_ROOT_USER_ACTION=ignore

say() { printf '%s\n' "$*" >&2; }
die() {
  say "busbw: $*"
  exit 1
}

# at_least VERSION MINIMUM
at_least() { [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]; }

# The first Python that is new enough; PYTHON names another.
find_python() {
  local candidate
  for candidate in ${PYTHON:+"$PYTHON"} python3 python3.13 python3.12 python3.11 python3.10; do
    if "$candidate" -c 'import sys; sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
      printf '%s\n' "$candidate"
      return
    fi
  done
  die "no Python 3.10 or newer was found; install one, or name it: make PYTHON=/path/to/python3"
}

# ensure_apt PACKAGE...: through the distribution's package manager, as root only; fails quietly otherwise.
ensure_apt() {
  [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null || return 1
  say "busbw: installing $* (apt-get)"
  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y --no-install-recommends "$@"; } \
    >/dev/null 2>&1 </dev/null
}

# The clone's own Python environment, where `busbw` is a program that runs this clone's sources.
ensure_venv() {
  local python stamp=$VENV/.busbw-ready
  [ "$(cat "$stamp" 2>/dev/null)" = "$ROOT" ] && [ -x "$VENV/bin/python" ] && return
  python=$(find_python)
  rm -rf "$VENV"
  say "busbw: making a Python environment in .venv"
  if "$python" -c 'import ensurepip' 2>/dev/null || ensure_apt python3-venv; then
    "$python" -m venv "$VENV" || die "$python -m venv failed; on Debian and Ubuntu, apt-get install python3-venv"
  else
    # Enough to measure with; what needs pip says so when it comes to that.
    "$python" -m venv --without-pip "$VENV" || die "$python -m venv failed; install Python's venv module"
  fi
  install_ourselves
  printf '%s\n' "$ROOT" >"$stamp"
}

# What `pip install --editable` would do, without a build and without a network.
install_ourselves() {
  local site
  site=$("$VENV/bin/python" -c 'import sysconfig; print(sysconfig.get_path("purelib"))')
  printf '%s\n' "$ROOT/python" >"$site/busbw-checkout.pth"
  cat >"$VENV/bin/busbw" <<END
#!$VENV/bin/python
import sys
from busbw.cli.main import main
sys.exit(main())
END
  chmod +x "$VENV/bin/busbw"
}

# pip_install REQUIREMENT...: does nothing where the same list has been installed before; fails quietly.
pip_install() {
  local stamp
  stamp=$VENV/.busbw-pip-$(printf '%s\n' "$@" | cksum | cut -d ' ' -f 1)
  [ -e "$stamp" ] && return
  if ! [ -x "$VENV/bin/pip" ]; then
    say "busbw: $VENV has no pip; on Debian and Ubuntu, apt-get install python3-venv, then remove .venv and try again"
    return 1
  fi
  say "busbw: installing $* into .venv"
  if ! "$VENV/bin/pip" install --quiet "$@" >"$VENV/pip.log" 2>&1 </dev/null; then
    say "busbw: pip could not install them:" "$(grep -m 1 '^ERROR' "$VENV/pip.log" || tail -n 1 "$VENV/pip.log")" \
      "(all of it is in .venv/pip.log)"
    return 1
  fi
  touch "$stamp"
}

# extras NAME...: the requirements of these extras of pyproject.toml, one a line.
extras() { "$VENV/bin/python" "$ROOT/tools/extras.py" "$@"; }

# Sets CMAKE, CTEST and GENERATOR: the system's where they are good enough, else wheels in .venv.
ensure_build_tools() {
  local system minimum=3.21 # the first that writes test results as JUnit
  command -v c++ >/dev/null || command -v g++ >/dev/null ||
    die "no C++ compiler was found; busbw needs GCC 12 or newer (Debian and Ubuntu: apt-get install g++)"
  system=$(cmake --version 2>/dev/null | sed -n '1s/[^0-9]*\([0-9.]*\).*/\1/p') || system=
  CMAKE=cmake CTEST=ctest
  if [ -z "$system" ] || ! at_least "$system" "$minimum"; then
    if pip_install 'cmake<4'; then
      CMAKE=$VENV/bin/cmake CTEST=$VENV/bin/ctest
    elif [ -z "$system" ]; then
      die "no CMake was found and none could be installed; install CMake $minimum or newer and try again"
    fi
  fi
  GENERATOR=Ninja NINJA=$(command -v ninja || true)
  if [ -z "$NINJA" ]; then
    if pip_install ninja; then NINJA=$VENV/bin/ninja; else GENERATOR='Unix Makefiles'; fi
  fi
  export CMAKE CTEST
}

# How many GPUs the driver shows on this machine.
gpus_here() { nvidia-smi -L 2>/dev/null | grep -c '^GPU ' || true; }

# Sets CUDA, the arguments that say which GPUs to build for. BUSBW_CUDA=ON|OFF and BUSBW_CUDA_ARCHITECTURES="80;90" in the
# environment choose; "all" is every generation that the compiler knows. Else `full` builds for all of them, because a
# login node builds for others; `here` builds for this machine's GPUs, and for all where it shows none but was told
# BUSBW_CUDA=ON; `quick` keeps what the build folder has, else it is as `here`: minutes less.
cuda_arguments() {
  local quick=-DBUSBW_CUDA_QUICK=${BUSBW_CUDA_QUICK:-OFF}
  if [ -z "${BUSBW_CUDA:-}${BUSBW_CUDA_ARCHITECTURES:-}" ] && [ "$1" != full ]; then
    CUDA=()
    [ "$1" = here ] || read -ra CUDA < <(cat "$ROOT/build/.cuda" 2>/dev/null) || true
    [ "${#CUDA[@]}" = 0 ] || { CUDA+=("$quick") && return; }
    # OFF rather than nothing to compile: tools/build then makes no more for a demo than that needs.
    CUDA=("-DBUSBW_CUDA=$([ "$(gpus_here)" = 0 ] && echo OFF || echo ON)" -DBUSBW_CUDA_ARCHITECTURES=here)
  else
    CUDA=("-DBUSBW_CUDA=${BUSBW_CUDA:-ON}" "-DBUSBW_CUDA_ARCHITECTURES=${BUSBW_CUDA_ARCHITECTURES:-}")
  fi
  mkdir -p "$ROOT/build"
  printf '%s\n' "${CUDA[*]}" >"$ROOT/build/.cuda"
  CUDA+=("$quick") # not kept: what is built for people is never compiled quickly
}

# configure FOLDER [-DNAME=VALUE...]: only where something differs from the last time.
configure() {
  local folder=$1 wanted
  shift
  wanted="$CMAKE $GENERATOR $ROOT $*"
  [ "$(cat "$folder/.configured" 2>/dev/null)" = "$wanted" ] && [ -e "$folder/CMakeCache.txt" ] && return
  # A cache made with another generator or from another place cannot be configured again.
  if ! grep -qsF "CMAKE_GENERATOR:INTERNAL=$GENERATOR" "$folder/CMakeCache.txt" ||
    ! grep -qsF "CMAKE_HOME_DIRECTORY:INTERNAL=$ROOT" "$folder/CMakeCache.txt"; then
    rm -rf "$folder/CMakeCache.txt" "$folder/CMakeFiles"
  fi
  mkdir -p "$folder"
  "$CMAKE" -S "$ROOT" -B "$folder" -G "$GENERATOR" ${NINJA:+-DCMAKE_MAKE_PROGRAM="$NINJA"} "$@" \
    >"$folder/configure.log" 2>&1 || {
    cat "$folder/configure.log" >&2
    die "CMake could not configure $folder; the lines above say why"
  }
  printf '%s\n' "$wanted" >"$folder/.configured"
}

# compile FOLDER [TARGET...]: everything that has been configured there, or these.
compile() {
  if ! "$CMAKE" --build "$1" --parallel "$JOBS" ${2:+--target "${@:2}"} 2>&1 | tee "$1/compile.log" | show_progress; then
    grep -vE '^\[ *[0-9]+(/[0-9]+|%)\] ' "$1/compile.log" | tail -n 60 >&2
    die "the build in $1 failed; the lines above say why (all of them are in $1/compile.log)"
  fi
}

# On a terminal, one line that moves; elsewhere nothing, the log has it all.
show_progress() {
  local line width=${COLUMNS:-78}
  while IFS= read -r line; do
    [ ! -t 2 ] || printf '\r\033[K%s' "${line:0:width}" >&2
  done
  [ ! -t 2 ] || printf '\r\033[K' >&2
}
