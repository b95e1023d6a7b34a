"""The places that backups are stored in: which are attached, and what each of them lacks."""
