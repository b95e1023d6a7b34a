"""The agent's decisions: wanted state × observed state → next steps. Pure; knows no product, no clock."""
