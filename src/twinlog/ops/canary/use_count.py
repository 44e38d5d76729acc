"""Counts the processor time of both programs of a comparison from the end of their starts.

A start costs more than the copying of a minute: MirrorMaker 2 loads its classes, and twinlog starts Spark, while its
bridge copies.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from twinlog.clock import Clock
from twinlog.model.amounts import counted
from twinlog.ops.canary.comparison import MM2, TWINLOG, Program, ProgramUse
from twinlog.ops.canary.process_tree import ProcessTree
from twinlog.ops.status.flow import FlowSnapshot

START_S = 30
"""The time after which a program has started, in seconds; Spark needs 10 to 15 s on two cores."""


def start_of(program: Program, seen: FlowSnapshot, tree: ProcessTree) -> str | None:
    """The part of a program that was starting at a look; None if the program only copied."""
    if program == MM2:
        return program if tree.age_s() < START_S else None
    report = seen.report
    if report is None or report.state == "starting":
        return program if tree.age_s() < START_S else None
    return "Spark" if report.bridged else None


class UseCount:
    """The use of each program; `trees` has the programs whose processes are known.

    `copied` returns the number of records that the target has received of each program.
    """

    def __init__(
        self, trees: Mapping[Program, ProcessTree], copied: Callable[[], Mapping[Program, int]], clock: Clock
    ) -> None:
        self._trees = trees
        self._copied = copied
        self._clock = clock
        self._starts: dict[Program, str] = {}
        self._after_start_of = ""
        self.begin()

    def begin(self) -> None:
        """Count from now on."""
        self._before = self._copied()
        for tree in self._trees.values():
            tree.begin_count()
        self._begun = self._clock.monotonic()

    def left_s(self, wanted_s: float) -> float:
        """How many of the wanted seconds are still to count, by the look before: all of them during a start."""
        return wanted_s if self._starts else wanted_s - (self._clock.monotonic() - self._begun)

    def add_look(self, seen: Mapping[Program, FlowSnapshot], *, last: bool = False) -> None:
        """Read the processes; count again from this look on if all starts have ended since the look before.

        The `last` look ends the time. Raises OptionError if a process is gone.
        """
        for tree in self._trees.values():
            tree.read_processes()
        found = {program: start_of(program, seen[program], tree) for program, tree in self._trees.items()}
        starts = {program: start for program, start in found.items() if start is not None}
        if starts:
            self._starts = starts
        elif self._starts and not last:
            self.begin()
            self._after_start_of = " and ".join(dict.fromkeys(self._starts.values()))
            self._starts = {}

    def uses(self) -> tuple[ProgramUse, ...]:
        """The use of both programs up to the last look; a way out in place of each figure that is unknown."""
        seconds, after = self._clock.monotonic() - self._begun, self._copied()
        return tuple(
            self._use(program, max(0, after[program] - self._before[program]), seconds) for program in (MM2, TWINLOG)
        )

    def _use(self, program: Program, records: int, seconds: float) -> ProgramUse:
        tree, start = self._trees.get(program), self._starts.get(program)
        if start is not None:
            way_out = f"too early: {start} was starting; ask again in {START_S} s"
            return ProgramUse(program, records, seconds, way_out=way_out)
        if tree is not None:
            return ProgramUse(program, records, seconds, tree.sum_use(), after_start_of=self._after_start_of)
        if program == MM2:
            way_out = (
                "add --mm2-pid PID on the host of MirrorMaker 2; or read process_cpu_seconds_total of its JMX "
                f"exporter, or `ps -o cputime= -p PID`, twice in {seconds:.0f} s: it copied "
                f"{counted(records, 'record')} meanwhile"
            )
        else:
            way_out = f"add --pid PID on the host of twinlog: it copied {counted(records, 'record')} in {seconds:.0f} s"
        return ProgramUse(program, records, seconds, way_out=way_out)
