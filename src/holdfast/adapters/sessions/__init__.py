"""Where a person's sessions are kept between two commands."""
