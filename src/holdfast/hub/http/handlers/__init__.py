"""Handlers by noun: each module has its routes, their permissions and what answers them."""
