# To be sourced: virtual environments with packages of the Python package index, for tests alone.
#
#   folder=$(python_environment NAME requirements.txt)   installs once per list of versions; prints the environment's folder
#
# They lie in ROOST_CLIENTS_CACHE (default ~/.cache/roost). If the index can not be reached and nothing is installed yet,
# it says that the tests are skipped, and exits with 77.
python_environment_cache=${ROOST_CLIENTS_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/roost}

make_python_environment() {
  local folder="$python_environment_cache/$1-$(sha256sum "$2" | cut -c1-12)"
  mkdir -p "$python_environment_cache"
  exec 9>"$folder.lock"
  flock 9
  if [ ! -e "$folder/complete" ]; then
    rm -rf "$folder"
    /usr/bin/python3 -m venv "$folder"
    # Without retries, an offline machine fails fast.
    if ! "$folder/bin/pip" install --quiet --disable-pip-version-check --retries 1 --no-compile --no-deps --requirement "$2" >&2; then
      rm -rf "$folder"
      return 1
    fi
    touch "$folder/complete"
  fi
  exec 9>&-
  echo "$folder"
}

package_index_is_away() {
  ! /usr/bin/python3 -m pip download --quiet --retries 1 --no-deps --dest "$(mktemp -d)" iniconfig >/dev/null 2>&1
}

python_environment() {
  if make_python_environment "$@"; then return; fi
  if package_index_is_away; then
    echo "$(basename "$0"): SKIPPED: the package index can not be reached, and $2 is not installed yet" >&2
    exit 77
  fi
  exit 1
}
