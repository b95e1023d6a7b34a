"""Fleet directory → Fleet, or every mistake in it at once, each with file, line and remedy. Opens no file itself."""
