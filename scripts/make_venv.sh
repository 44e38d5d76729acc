#!/usr/bin/env bash
# Makes .venv, or brings it up to the locked requirements: nothing unpinned, nothing without its hash.
set -euo pipefail
cd "$(dirname "$0")/.."

log=.cache/venv.log
mkdir -p .cache

python=$(scripts/preflight.sh)
if ! .venv/bin/python -c '' 2>/dev/null; then
    echo "Making .venv with $("$python" --version) (once, a minute or two) ..."
    rm -rf .venv
    "$python" -m venv .venv
fi

install() {
    if ! .venv/bin/python -m pip install --quiet --disable-pip-version-check --no-compile --retries 2 "$@" >"$log" 2>&1; then
        if grep -qiE 'connection|timed out|resolve|network|no matching distribution' "$log"; then
            echo "The packages of requirements/dev.txt could not be fetched: no Python package index is reachable" \
                "from here; connect to the network, or name a mirror with PIP_INDEX_URL (details in $log)." >&2
        else
            tail -n 5 "$log" >&2
            echo "pip could not install the packages of requirements/dev.txt (details in $log)." >&2
        fi
        exit 1
    fi
}

install --require-hashes -r requirements/build.txt
# Without isolation pyspark's source package is built with the setuptools pinned above.
install --require-hashes --no-build-isolation -r requirements/dev.txt
install --no-deps --no-build-isolation --editable .
touch .venv/.ready
