"""Planning: declared × applied × observed → Plan. Pure; runs in the CLI, checked again by the hub."""
