"""Read a fleet directory into a Fleet, or report all its mistakes with file, line and remedy. Opens no file."""
