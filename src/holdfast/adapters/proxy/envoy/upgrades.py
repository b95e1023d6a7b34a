"""Requests with `Upgrade: websocket`: an answer that is no upgrade must not look like one (X21). Pure.

Between two proxies an upgrade is an extended CONNECT (RFC 8441), where a status of 2xx means "upgraded". A service that
answers 200 to `Upgrade: websocket` did not upgrade, and Envoy drops the body of such an answer. So it becomes a 501.
"""

from holdfast.adapters.proxy.envoy.names import extension

# The status is 101 here if the service did upgrade, on both hops: Envoy translates it when it writes HTTP/2.
_SCRIPT = """
function envoy_on_response(handle)
  if string.match(handle:headers():get(":status"), "^2") then
    handle:headers():replace(":status", "501")
  end
end
"""


def websockets(others: list[dict[str, object]]) -> list[dict[str, object]]:
    """`others` are the filters of every request; the last one sends it on."""
    script = extension("upgrades", "extensions.filters.http.lua.v3.Lua", default_source_code={"inline_string": _SCRIPT})
    return [{"upgrade_type": "websocket", "filters": [*others[:-1], script, others[-1]]}]
