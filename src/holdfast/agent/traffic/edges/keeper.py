"""The keeper of public routes: reads the revision, and reports the state of each public hostname."""

from collections.abc import Callable

from msgspec import Struct
from msgspec.structs import replace

from holdfast.agent.keeper import Revision, Stage
from holdfast.agent.traffic.edges.routes import Edges
from holdfast.agent.traffic.edges.steps import EdgeConfig
from holdfast.agent.wake import Wake
from holdfast.model.report import CertificateState, EdgeState

WORDS_MAX = 200
STATES_MAX = 1_000
DETAILED_MAX = 500  # hostnames; with more, those that work are told without steps and details of certificates


class EdgesReport(Struct, frozen=True, omit_defaults=True):
    edge: tuple[EdgeState, ...] = ()
    gone: tuple[str, ...] = ()  # public hostnames that this edge removed lately
    edge_unlisted: int = 0

    def shorter(self, stage: Stage) -> "EdgesReport":
        match stage:
            case "certificates":
                return replace(self, edge=tuple(_plain(one) for one in self.edge))
            case "no_steps":
                return replace(self, edge=tuple(_in_few_words(one) for one in self.edge))
            case "few":  # a route that does not work comes first
                edge = sorted(self.edge, key=lambda one: one.phase == "live")[:STATES_MAX]
                return replace(self, edge=tuple(edge), edge_unlisted=len(self.edge) - len(edge))
            case "nothing":
                return EdgesReport(edge_unlisted=self.edge_unlisted + len(self.edge))
        return self


def _in_few_words(one: EdgeState) -> EdgeState:
    return replace(one, steps=(), message=one.message[:WORDS_MAX])


def _plain(one: EdgeState) -> EdgeState:
    """Of a route that works: the route shows that its certificate works."""
    if one.phase != "live":
        return one
    shown = one.certificate
    short = CertificateState((), expires_s=shown.expires_s, trouble=shown.trouble) if shown is not None else None
    return replace(one, steps=(), certificate=short)


class EdgesKeeper:
    """`servers` answers which DNS servers of this node serve internal names once a revision is followed."""

    name = "edges"

    def __init__(self, edges: Edges, servers: Callable[[Revision], tuple[str, ...]], report: Wake) -> None:
        self._edges = edges
        self._report = report
        self._built_at = -1
        self._servers = servers
        self._revision: Revision | None = None
        self._section = EdgesReport()

    def follow(self, revision: Revision) -> None:
        self._revision = revision
        document = revision.document
        self._edges.follow(
            EdgeConfig(
                manifest=revision.manifest,
                settings=document.settings,
                timeouts=document.timeouts,
                acme=document.acme,
                dns_servers=self._servers(revision),
                own_public=revision.node.public_address.strip("[]"),
            )
        )

    def recalled(self) -> None:
        """The routes of the running proxy are known now: some may be in no manifest any more."""
        if self._revision is not None:
            self.follow(self._revision)

    def section(self) -> EdgesReport:
        """Built again only after something called for a report: an edge may have thousands of hostnames."""
        if self._built_at != self._report.count:
            self._built_at = self._report.count
            states = self._edges.states()
            edge = states if len(states) <= DETAILED_MAX else tuple(_plain(one) for one in states)
            found = EdgesReport(edge, self._edges.gone())
            self._section = found if found != self._section else self._section
        return self._section

    async def run(self) -> None:
        await self._edges.run()
