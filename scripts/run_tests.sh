#!/usr/bin/env bash
# `make test`: a seed, then what pytest gets. Tests without a broker run beside the checks and what is prepared once,
# and their rest beside the first tests with brokers, as none of these keeps two cores busy. There are two runs of
# pytest because each of its processes imports every test that one of them may run. Tests with brokers mostly wait:
# WORKERS says how many run at a time.
set -u
seed=$1
shift
python=.venv/bin/python
# What pytest ends with where the arguments choose no test.
none=5

if [ $# = 0 ]; then
  light=(tests/unit tests/property) heavy=(tests/integration)
else
  light=("$@") heavy=("$@")
fi

# Prints what it has found once it is done, and not between the lines of others.
test_light() {
  $python -m pytest -m "not integration and not scenario" --timeout=600 -n 2 --dist loadfile --randomly-seed="$seed" "${light[@]}" >build/unit.log 2>&1 &
  trap "kill $! 2>/dev/null; exit 143" TERM
  wait $!
  code=$?
  echo
  cat build/unit.log
  return $code
}

mkdir -p build
$python -m harness.prepare &
prepared=$!
test_light &
tested=$!
trap 'kill $prepared $tested 2>/dev/null' EXIT
trap 'exit 130' INT TERM

make --no-print-directory check || exit
wait $prepared || exit

$python -m pytest -m "integration and not parity and not scenario and not versions" -n "${WORKERS:-4}" \
  --dist loadfile --no-loadscope-reorder --randomly-seed="$seed" "${heavy[@]}"
run=$?
wait $tested
code=$?
for one in $code $run; do
  [ "$one" = 0 ] || [ "$one" = $none ] || exit "$one"
done
# No test at all is no success.
[ $code = $none ] && [ $run = $none ] && exit $none
exit 0
