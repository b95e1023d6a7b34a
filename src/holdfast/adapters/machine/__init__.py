"""The machine that an agent runs on: Linux, or fixed values in tests."""
