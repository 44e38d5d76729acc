#!/usr/bin/env bash
# Prints the Python to build .venv with, after making sure that Python and Java are there and new enough.
# One clear sentence on stderr and status 1 when they are not.
set -u

fail() {
    printf '%s\n' "$*" >&2
    exit 1
}

new_enough='import sys; raise SystemExit(sys.version_info < (3, 11))'
python=
# A named one is tried alone; python3.11 comes first because the locked requirements were resolved with it.
for candidate in ${TWINLOG_PYTHON:-python3.11 python3.12 python3.13 python3}; do
    if "$candidate" -c "$new_enough" >/dev/null 2>&1; then
        python=$candidate
        break
    fi
done
[ -n "$python" ] || fail "Python 3.11 or newer is needed and was not found; install one, or name it with" \
    "TWINLOG_PYTHON=/path/to/python3."
"$python" -c 'import venv, ensurepip' >/dev/null 2>&1 ||
    fail "$python cannot make virtual environments; install its venv module (on Debian: apt install python3-venv)."

if [ -n "${JAVA_HOME:-}" ]; then
    java=$JAVA_HOME/bin/java
    missing="JAVA_HOME is $JAVA_HOME, which has no bin/java; point it at a JDK or JRE of version 17 or newer."
else
    java=java
    missing="Java 17 or newer is needed and was not found; install a JDK or JRE, or point JAVA_HOME at one."
fi
command -v "$java" >/dev/null 2>&1 || fail "$missing"
version=$("$java" -version 2>&1 | sed -n 's/.*version "\(1\.\)\{0,1\}\([0-9]*\).*/\2/p' | head -n 1)
[ "${version:-0}" -ge 17 ] 2>/dev/null ||
    fail "Java 17 or newer is needed, and $java is version ${version:-unknown}; point JAVA_HOME at a newer one."

printf '%s\n' "$python"
