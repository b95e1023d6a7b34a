"""The verbs of the noun «orders», without the modules that run them."""

from holdfast.cli.noun import Noun, Verb

NOUN = Noun(
    "orders",
    {
        "order sign": Verb("orders.order_sign", "sign an order: one action, run once on one node"),
        "order submit": Verb("orders.order_submit", "submit an order that has enough signatures to the hub"),
        "order cancel": Verb("orders.order_cancel", "take an order back before its node has fetched it"),
        "resync": Verb("orders.resync", "let a node run orders again after its state was put back"),
        "order list": Verb("orders.order_list", "list orders with their states and results"),
    },
)
