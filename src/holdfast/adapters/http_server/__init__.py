"""HTTPS servers over aiohttp: the hub's and a node's. They keep limits and decide nothing about requests."""
