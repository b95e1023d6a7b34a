"""The operator's thinking: declared × applied × observed → Plan. Pure; run in the CLI, re-checked by the hub."""
