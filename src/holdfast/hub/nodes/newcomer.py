"""Build the record of a node that this hub process meets for the first time, from what the ledger has."""

import msgspec

from holdfast.hub.hub_time import HubTime
from holdfast.hub.nodes import health, reports
from holdfast.hub.nodes.member import Member
from holdfast.hub.orders import queue as order_queue
from holdfast.ledger import keys
from holdfast.ports.ledger_store import Reading


def load(store: Reading, time: HubTime, name: str) -> Member:
    record = store.get(keys.health(name))
    known = msgspec.json.decode(record.value, type=health.HealthRecord) if record else None
    member = Member(name, time.loop_s(), health.remembered(known, time.now_s()))
    member.heard_before = known is not None
    reports.load(member, store)
    order_queue.load(member, store)
    return member
