#!/usr/bin/env bash
# `make test`: a seed, then what pytest gets. Tests without a broker run beside the checks and what is prepared once, as
# neither of these keeps two cores busy; the others then have all cores. There are two runs of pytest because each of
# its processes imports every test that one of them may run. Those with brokers mostly wait: WORKERS says how many run at
# a time.
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

mkdir -p build
$python -m harness.prepare &
prepared=$!
$python -m pytest -m "not integration" -n 2 --dist loadfile --randomly-seed="$seed" "${light[@]}" >build/unit.log 2>&1 &
tested=$!
trap 'kill $prepared $tested 2>/dev/null' EXIT
trap 'exit 130' INT TERM

make --no-print-directory check || exit
wait $tested
code=$?
cat build/unit.log
wait $prepared || exit

$python -m pytest -m "integration and not parity and not scenario" -n "${WORKERS:-4}" \
  --dist loadfile --no-loadscope-reorder --randomly-seed="$seed" "${heavy[@]}"
run=$?
for one in $code $run; do
  [ "$one" = 0 ] || [ "$one" = $none ] || exit "$one"
done
# No test at all is no success.
[ $code = $none ] && [ $run = $none ] && exit $none
exit 0
