"""The gate: which grade of signature an agent needs for each action. Compiled in; no setting changes it."""
