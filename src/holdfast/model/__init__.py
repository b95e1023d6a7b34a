"""The values and typed ids that every room shares. No I/O, no clock, no product."""
