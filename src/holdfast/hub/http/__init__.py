"""The hub's HTTP surface: routes, authentication, limits."""
