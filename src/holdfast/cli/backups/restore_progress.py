"""How far a node is with a backup that it brings back, from its signed reports."""

from holdfast.cli.backups.progress_lines import ProgressLines
from holdfast.cli.nodes.fleet_view import FleetView
from holdfast.cli.tools import Toolbox
from holdfast.cli.waiting.report_poll import ReportPoll
from holdfast.model.backup_report import BackupStates, RestoreState
from holdfast.ports.hub_link import FleetReader

LOOK_S = 1.0  # between two questions to the hub


class RestoreProgress:
    def __init__(self, service: str, node: str, view: FleetView, box: Toolbox) -> None:
        assert isinstance(view.hub, FleetReader), "a ledger directory takes no orders"
        self._service = service
        self._node = node
        self._poll = ReportPoll(view.hub, view.applied, (node,), box)
        self._box = box
        self._lines = ProgressLines(box)
        self._looked_s = 0.0
        self._is_loading = False

    def show(self) -> None:
        now_s = self._box.clock.monotonic_s()
        if now_s - self._looked_s < LOOK_S:
            return
        self._looked_s = now_s
        state = self._state()
        if state is None:
            return
        if not state.loads:
            self._lines.show(state.done_bytes, state.total_bytes, state.since_s)
        elif not self._is_loading:
            self._is_loading = True
            self._box.terminal.remark(f"A container of {self._service} loads the dump, beside the service")

    def _state(self) -> RestoreState | None:
        one = self._poll.look().get(self._node)
        section = one.section(BackupStates) if one is not None else None
        return next((each for each in section.restores if each.service == self._service), None) if section else None
