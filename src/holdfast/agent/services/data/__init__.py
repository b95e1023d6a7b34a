"""The data of services on this node: volumes with their passports, directories that are attached, retired data."""
