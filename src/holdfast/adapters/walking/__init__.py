"""Reading trees of files that other programs write to: walks, handles. Takes nothing away."""
