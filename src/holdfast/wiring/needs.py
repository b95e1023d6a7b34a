"""Build the keepers of needs: of those of this node's services, and of what it gives to others."""

from collections.abc import Callable

from msgspec import Struct

from holdfast.agent.grants.books import Books as GrantBooks
from holdfast.agent.grants.declared import Declarations as Offers
from holdfast.agent.grants.giving import Giving
from holdfast.agent.grants.keeper import Grants
from holdfast.agent.grants.sweeping import Sweeping
from holdfast.agent.local_api.api import Holding
from holdfast.agent.needs.asking import Asking
from holdfast.agent.needs.books import Books
from holdfast.agent.needs.changing import Changing
from holdfast.agent.needs.declared import Declarations
from holdfast.agent.needs.fulfilling import Fulfilling
from holdfast.agent.needs.keeper import Needs
from holdfast.agent.needs.mounts import NeedMounts
from holdfast.agent.needs.states import States
from holdfast.agent.needs.sweeps import Sweeps
from holdfast.agent.needs.tasks import Tasks
from holdfast.agent.needs.telling import Telling
from holdfast.agent.needs.tries import TryBook
from holdfast.agent.orders.order_life import OrderLife
from holdfast.agent.wake import Wake
from holdfast.model.audit import Event
from holdfast.model.need import Grantee
from holdfast.wiring.agent_parts import Common, Ports, ServiceSide


class NeedBooks(Struct, frozen=True):
    """What the services use before their keeper is built."""

    declared: Declarations
    books: Books
    mounts: NeedMounts


class NeedSide(Struct, frozen=True):
    """`held` answers the handles in use on this node."""

    needs: Needs
    grants: Grants
    held: Callable[[], tuple[Holding, ...]]


def books_of(ports: Ports) -> NeedBooks:
    declared = Declarations(ports.acceptance.blob)
    return NeedBooks(declared, Books(ports.journal), NeedMounts(ports.secrets, ports.needs.files, declared.is_required))


def side(ports: Ports, common: Common, services: ServiceSide, own: NeedBooks, life: OrderLife) -> NeedSide:
    def held() -> tuple[Holding, ...]:
        found = own.books.held.items()
        return tuple(Holding(handle, one.provider, key[0]) for key, one in sorted(found) for handle in one.handles)

    return NeedSide(_needs(ports, common, services, own, life), _grants(ports, common, life), held)


def _needs(ports: Ports, common: Common, services: ServiceSide, own: NeedBooks, life: OrderLife) -> Needs:
    member, time = common.member, common.time
    tries = TryBook(own.declared, time.now_s, lambda: int.from_bytes(ports.random.token(4), "big") / 2**32)
    asking = Asking(
        declared=own.declared,
        books=own.books,
        link=ports.needs.link,
        opener=ports.backups.opener,
        now_s=time.now_s,
        fleet=member.fleet,
        node=member.node,
    )
    telling = Telling(
        declared=own.declared,
        books=own.books,
        link=ports.needs.link,
        key=ports.key,
        life=life,
        fleet=member.fleet,
        node=member.node,
    )
    ended = Wake()
    made = Needs(
        declared=own.declared,
        tries=tries,
        fulfilling=Fulfilling(
            asking=asking,
            changing=Changing(services.orders.restart, services.records, common.lanes),
            files=ports.needs.files,
            books=own.books,
            tries=tries,
            findings=common.findings,
            fulfilled=common.services,
        ),
        sweeps=Sweeps(telling, own.books, common.pace, common.findings, time),
        states=States(own.declared, own.books, tries, common.findings, common.report),
        tasks=Tasks(common.keeping, ended),
        now_s=time.now_s,
    )
    ended.connect(made.wake)
    return made


def _grants(ports: Ports, common: Common, life: OrderLife) -> Grants:
    member = common.member
    declared = Offers(ports.acceptance.blob, _secret(ports, common), member.node)
    books = GrantBooks(ports.journal)

    def told(action: str, to: Grantee) -> None:
        what = f"need {to.need} of service.{to.service}, generation {to.generation}"
        ports.audit.append(Event(f"node:{to.node}", action, f"service.{to.service}", detail=what))

    return Grants(
        declared=declared,
        books=books,
        giving=Giving(
            declared=declared,
            books=books,
            handlers=ports.needs.handler,
            sealer=ports.backups.sealer,
            random=ports.random,
            now_s=common.time.now_s,
            told=told,
            fleet=member.fleet,
        ),
        sweeping=Sweeping(
            declared=declared,
            books=books,
            pace=common.pace,
            is_sure=lambda: life.is_sure,
            monotonic_s=ports.clock.monotonic_s,
        ),
        findings=common.findings,
        report=common.report,
        fleet=member.fleet,
        node=member.node,
    )


def _secret(ports: Ports, common: Common) -> Callable[[str, str, str], bytes]:
    return lambda name, digest, address: ports.secrets.value(name, digest, common.member.fleet, address)
