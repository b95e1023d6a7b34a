"""Processes that outlive the agent."""
