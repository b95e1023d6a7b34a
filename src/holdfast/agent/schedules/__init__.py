"""Run the schedules of this node's services at their minutes, hub or no hub."""
