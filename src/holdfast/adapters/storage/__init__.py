"""Where services keep their data: directories below one root, or names in memory."""
