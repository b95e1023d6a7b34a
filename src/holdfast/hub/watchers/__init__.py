"""What the hub concludes from commits and reports."""
