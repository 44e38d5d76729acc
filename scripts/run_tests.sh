#!/usr/bin/env bash
# `make test`: a seed, then what pytest gets. Tests without a broker run beside the checks and what is prepared once,
# and their rest beside the first tests with brokers, as none of these keeps two cores busy. Tests with brokers have a
# run of pytest of their own, because each of its processes imports every test that one of them may run. They mostly
# wait: WORKERS says how many run at a time.
set -u
seed=$1
shift
python=.venv/bin/python
# What pytest ends with where the arguments choose no test.
none=5

heavy=("$@")
[ $# != 0 ] || heavy=(tests/integration)

# A log, and what pytest gets beside the choice of tests.
begin_light() {
  $python -m pytest -m "not integration and not scenario" --timeout=600 --randomly-seed="$seed" "${@:2}" >"$1" 2>&1 &
  light+=($!)
}

# Two runs share ten thousand tests by their files: workers of a single run would collect all of them each, and send a
# report of each to a third process. Prints what they have found once both are done, and not between the lines of others.
test_light() {
  local light=() found=$none code one
  rm -f build/unit-?.log
  if [ $# = 0 ]; then
    begin_light build/unit-1.log --half=1 tests/unit tests/property
    begin_light build/unit-2.log --half=2 tests/unit tests/property
  else
    begin_light build/unit-1.log -n 2 --dist loadfile "$@"
  fi
  trap 'kill "${light[@]}" 2>/dev/null; exit 143' TERM
  for one in "${light[@]}"; do
    wait "$one"
    code=$?
    if [ $code != $none ] && { [ $found = $none ] || [ $code != 0 ]; }; then
      found=$code
    fi
  done
  echo
  cat build/unit-?.log
  return $found
}

mkdir -p build
$python -m harness.prepare &
prepared=$!
test_light "$@" &
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
