"""When the times of a file tell that it changed."""

import ctypes

RECENT_NS = 50_000_000  # times come from a clock that ticks: a file so young may change and keep its times
_SYNC_RANGE = 0x07  # wait before, write, wait after

_libc = ctypes.CDLL(None, use_errno=True)
_libc.sync_file_range.argtypes = (ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint)


def settle(source: int) -> None:
    """Write its dirty pages, so that the next write to any of them moves its times: a page that a program has mapped
    and written once would otherwise change without a trace."""
    _libc.sync_file_range(source, 0, 0, _SYNC_RANGE)  # where it is not supported there are no such pages
